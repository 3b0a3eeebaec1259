"""Sets: jobs and resources that files declare together, or that an app declares."""

from collections.abc import Mapping
from typing import Final

from tokimori.model.job import set_of
from tokimori.service.sets.turns import SetState
from tokimori.web.addresses import path
from tokimori.web.nouns import (
    Cell,
    Column,
    Noun,
    Row,
    Table,
    cut,
    filters,
    has,
    job_table,
    jobs_that,
    plain,
    said,
    screens_of,
    state,
    when,
)
from tokimori.web.screen import Act
from tokimori.web.visit import Visit

_NAMES: Final = {"state": ("whole", "at_work", "half_applied")}
_SIGNS: Final = {"whole": "ran", "at_work": "running", "half_applied": "failed"}
_COLUMNS: Final = (
    *(Column("State", "pc"), Column("Name", "pa"), Column("Jobs", "n pd"), Column("Version", "n w2")),
    *(Column("Applied", "n pb"), Column("By", "wide pf")),
)
_KINDS: Final = (Column("Kind", "pc"), Column("Name", "pa wide"))


async def show(visit: Visit) -> Noun:
    """Return the list of sets: the person who applied each last, and the outcome."""
    word = visit.one("state")
    found, page = cut(
        visit,
        await visit.lately("sets", visit.service.sets.list),
        lambda each: each.name,
        lambda each: has(visit, each.name, each.by) and word in (None, each.state),
    )
    empty = "There are no sets. Files declare jobs together, and this makes the store what they say:"
    rows = [_row(visit, each) for each in found]
    return Noun(
        [Table("Sets", _COLUMNS, rows, empty, "tokimori apply jobs/")],
        filter=filters(visit, "Filter sets", _NAMES),
        page=page,
        note="A set is changed by `tokimori apply`, from the files that declare it.",
    )


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


async def page(visit: Visit) -> Noun:
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
    jobs = await jobs_that(visit, lambda job: set_of(job.definition) == each.name)
    tables = [job_table("Jobs", jobs, "It declares no job that you see.")]
    if rows:
        tables.append(Table("Resources", _KINDS, rows, head="Calendars, semaphores and queues"))
    return Noun(
        tables,
        name=plain(each.name),
        says=(_state(each),),
        facts=(("Version", said(each.version)), ("Applied", when(visit, each.begun)), ("By", said(each.by))),
        boxes=(("In a terminal", f"tokimori set show {plain(each.name)}"),),
    )


ACTS: Final[tuple[Act, ...]] = ()
SCREENS: Final = screens_of("sets", show, page, "{name:path}", names=_NAMES)
