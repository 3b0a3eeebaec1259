"""Tasks as code: jobs that run builds of a folder."""

from collections.abc import Sequence
from typing import Final

from tokimori.errors import NotFound
from tokimori.model.cause import ANSI
from tokimori.service.service import Service
from tokimori.service.tasks.tasks import TaskDetails
from tokimori.web.addresses import path
from tokimori.web.nouns import (
    Cell,
    Column,
    Noun,
    Row,
    Table,
    filters,
    has,
    paged,
    plain,
    run_cell,
    said,
    screens_of,
    state,
    when,
)
from tokimori.web.screen import Act, Field, Given, Receipt
from tokimori.web.visit import Visit

LINES_SHOWN: Final = 50
SHORT: Final = 12
"""Letters of a digest in a list."""
_NAMES: Final = {"state": ("enabled", "paused", "parked", "finished", "deleted")}
_COLUMNS: Final = (
    *(Column("State", "pc"), Column("Name", "pa"), Column("Schedule", "pd"), Column("What it is for", "wide pf")),
    *(Column("Build", "w2"), Column("Built", "n pb"), Column("By", "w3")),
)
_BUILDS: Final = (
    *(Column("State", "pc"), Column("Build", "pa"), Column("Built", "n pb"), Column("By", "pd")),
    *(Column("Schedule", "w2"), Column("Needs", "wide pf")),
)
_LOG: Final = (Column("When", "pc"), Column("Says", "pa wide"), Column("Level", "pd"), Column("Run", "pb"))


async def show(visit: Visit) -> Noun:
    """Return the list of tasks."""
    word = visit.one("state")
    found, page = await paged(
        visit,
        lambda after, limit: visit.service.tasks.list(after, min(limit, 100)),
        lambda each: each.record.name,
        lambda each: has(visit, each.record.name, each.record.build.description) and word in (None, _word(each)),
    )
    empty = "There are no tasks. Each is a folder of the workspace, which is frozen by a build:"
    return Noun(
        [
            Table(
                "Tasks",
                _COLUMNS,
                [_row(visit, each) for each in found],
                empty,
                "tokimori task create NAME\ntokimori build NAME",
            )
        ],
        filter=filters(visit, "Filter tasks", _NAMES),
        page=page,
    )


def _word(each: TaskDetails) -> str:
    return "deleted" if each.job is None else each.job.state.value


def _row(visit: Visit, each: TaskDetails) -> Row:
    record = each.record
    cells = (
        state(_word(each)),
        said(record.name, to=path("tasks", record.name)),
        said(record.build.schedule or "on demand"),
        said(record.build.description),
        said(record.build.digest[:SHORT], "code"),
        when(visit, record.build.at),
        said(record.build.by),
    )
    return Row(f"task {record.name}", cells)


async def page(visit: Visit) -> Noun:
    """Return the page of a task, with its builds and its log."""
    found = await visit.service.tasks.state(visit.parts["name"])
    record, job = found.details.record, found.details.job
    zone = "" if job is None else job.definition.time_zone
    builds = [
        Row(
            f"build {each.digest}",
            (
                state("ran", "current") if each.digest == record.current else state("finished", "kept"),
                said(each.digest[:SHORT], "code"),
                when(visit, each.at),
                said(each.by),
                said(each.schedule or "on demand"),
                said(", ".join(each.dependencies)),
            ),
        )
        for each in record.builds
    ]
    lines = [
        Row(
            f"line {n}",
            (
                when(visit, each.at, zone)._replace(kind="clock"),
                said(ANSI.sub("", each.message)),
                said(each.level),
                Cell() if each.run_id is None else run_cell(each.run_id),
            ),
        )
        for n, each in enumerate(await visit.service.tasks.logs(record.name, LINES_SHOWN))
    ]
    runs = {"Runs now": found.running, "Waits": found.waiting, "Ended last": found.ended}
    return Noun(
        [
            Table("Builds", _BUILDS, builds, "No build is kept.", head="Builds"),
            Table("Log", _LOG, lines, "It has not said anything yet.", head=f"Log, the last {LINES_SHOWN} lines"),
        ],
        name=plain(record.name),
        says=(
            state(_word(found.details)),
            said(record.build.description),
            said("its job", to=path("jobs", record.name)) if job else Cell(),
        ),
        acts=_acts(_word(found.details)),
        on=record.name,
        warnings=()
        if found.is_served
        else ("No node takes part, so nothing of it runs: `tokimori serve` starts one.",),
        facts=[(head, Cell() if run is None else run_cell(run.id)) for head, run in runs.items()],
    )


def _acts(word: str) -> Sequence[str]:
    first = {"paused": ("tasks.resume",), "parked": ("tasks.resolve",), "deleted": ()}.get(
        word, ("tasks.restart", "tasks.pause")
    )
    return (*first, "tasks.rollback", "tasks.delete")


async def _rollback(service: Service, name: str, given: Given) -> Receipt:
    digest = given.get("digest")
    if digest is not None:
        kept = await service.tasks.builds(name)
        digest = next((each.digest for each in kept if each.digest.startswith(digest)), None)
        if digest is None:
            allowed = ", ".join(each.digest[:SHORT] for each in kept)
            raise NotFound(f"build: {name} has no such build", field="digest", value=given["digest"], allowed=allowed)
    done = await service.tasks.rollback(name, digest)
    return Receipt(f"{name} runs build {done.record.build.digest[:SHORT]} again", path("tasks", name))


async def _delete(service: Service, name: str, given: Given) -> None:
    await service.tasks.delete(name, now="now" in given)


ACTS: Final = (
    Act("tasks.pause", "Pause", "paused", undo="tasks.resume"),
    Act("tasks.resume", "Resume", "resumed", undo="tasks.pause"),
    Act("tasks.resolve", "Resolve", "resolved"),
    Act(
        "tasks.restart",
        "Restart",
        "restarted",
        sure="What runs of it is cancelled, and one run is asked for in its place.",
    ),
    Act(
        "tasks.rollback",
        "Roll back",
        "rolled back",
        _rollback,
        fields=(Field("digest", "Build", "the beginning of its name; empty: the one before"),),
    ),
    Act(
        "tasks.delete",
        "Delete",
        "deleted",
        _delete,
        fields=(Field("now", "Cancel what runs of it", kind="check"),),
        sure="Its job and its builds go; the source stays.",
        back="/tasks",
    ),
)
SCREENS: Final = screens_of("tasks", show, page, "{name}", names=_NAMES)
