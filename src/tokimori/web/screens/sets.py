"""Sets: jobs and resources that files declare together, or that an app declares."""

from collections.abc import Mapping, Sequence
from typing import Final

from tokimori.model.job import set_of
from tokimori.service.service import Service
from tokimori.service.sets.turns import SetState
from tokimori.service.validation import MOST_LISTED
from tokimori.web.addresses import path
from tokimori.web.nouns import (
    MOST_ASKED,
    Cell,
    Column,
    Noun,
    Row,
    Table,
    cut,
    filters,
    has,
    job_table,
    plain,
    retyped,
    said,
    state,
    when,
)
from tokimori.web.screen import Act, Screen, Shown
from tokimori.web.visit import Visit

_NAMES: Final = {"state": ("whole", "at_work", "half_applied")}
_SIGNS: Final = {"whole": "ran", "at_work": "running", "half_applied": "failed"}
_COLUMNS: Final = (
    *(Column("State", "pc"), Column("Name", "pa"), Column("Jobs", "n pd"), Column("Version", "n w2")),
    *(Column("Applied", "n pb"), Column("By", "wide pf")),
)
_KINDS: Final = (Column("Kind", "pc"), Column("Name", "pa wide"))


async def show(visit: Visit) -> Shown:
    """Return the list of sets: the person who applied each last, and the outcome."""
    if (moved := retyped(visit, _NAMES)) is not None:
        return moved
    word = visit.one("state")
    found, page = cut(
        visit,
        await visit.lately("sets", visit.service.sets.list),
        lambda each: each.name,
        lambda each: has(visit, each.name, each.by) and word in (None, each.state),
    )
    empty = "There are no sets. Files declare jobs together, and this makes the store what they say:"
    rows = [_row(visit, each) for each in found]
    return {
        "noun": Noun(
            [Table("Sets", _COLUMNS, rows, empty, "tokimori apply jobs/")],
            filter=filters(visit, "Filter sets", _NAMES),
            more=page.more,
            first=page.first,
            note="A set is changed by `tokimori apply`, from the files that declare it.",
        )
    }


def _row(visit: Visit, each: SetState) -> Row:
    cells = (
        _state(each),
        said(each.name, to=path("sets", each.name)),
        said(each.jobs),
        said(each.version),
        when(visit, each.begun),
        said(each.by),
    )
    return Row(f"set {each.name}", cells)


def _state(each: SetState) -> Cell:
    words = {"at_work": "applied now", "half_applied": "half applied: apply it again"}
    return state(_SIGNS[each.state], words.get(each.state, "whole"))


async def page(visit: Visit) -> Shown:
    """Return the page of a set with its declarations."""
    (each,) = await visit.service.sets.list(visit.parts["name"])
    resources = await visit.service.sets.resources(each.name.removeprefix("app/")) if "/" not in each.name else None
    kinds: Mapping[str, Mapping[str, object]] = {}
    if resources is not None:
        kinds = {"calendars": resources.calendars, "semaphores": resources.semaphores, "queues": resources.queues}
    rows = [
        Row(f"{kind} {name}", (said(kind.removesuffix("s")), said(name, to=path(kind, name))))
        for kind, things in kinds.items()
        for name in things
    ]
    tables = [job_table("Jobs", await _jobs(visit.service, each.name), "It declares no job that you see.")]
    if rows:
        tables.append(Table("Resources", _KINDS, rows, head="Calendars, semaphores and queues"))
    return {
        "noun": Noun(
            tables,
            name=plain(each.name),
            says=(_state(each),),
            facts=(("Version", said(each.version)), ("Applied", when(visit, each.begun)), ("By", said(each.by))),
            boxes=(("In a terminal", f"tokimori set show {plain(each.name)}"),),
        )
    }


async def _jobs(service: Service, name: str) -> Sequence[str]:
    found: list[str] = []
    after: str | None = None
    for _ in range(MOST_ASKED):
        listed = await service.jobs.list(after=after, limit=MOST_LISTED)
        found += [job.id for job in listed.jobs if set_of(job.definition) == name]
        if (after := listed.next) is None:
            break
    return found


ACTS: Final[tuple[Act, ...]] = ()
SCREENS: Final = (
    Screen("/sets", "sets", "noun.html", show, leads=True),
    Screen("/sets/{name:path}", "sets", "noun.html", page),
)
