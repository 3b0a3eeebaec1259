"""Semaphores: units that runs and programs share."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from tokimori.errors import InvalidInput, NotFound, StoreUnavailable
from tokimori.model.ids import JobId, RunId
from tokimori.model.semaphores import MOST_UNITS, semaphore_of
from tokimori.model.transitions import RunState
from tokimori.service.semaphores import Holder, SemaphoreDetails
from tokimori.service.service import Service
from tokimori.spelling import amount
from tokimori.web.addresses import path
from tokimori.web.nouns import (
    SHOWN,
    Cell,
    Column,
    Noun,
    Row,
    Table,
    filters,
    has,
    job_cell,
    paged,
    plain,
    run_cell,
    said,
    screens_of,
    state,
    when,
)
from tokimori.web.pictures import share
from tokimori.web.screen import Act, Field, Given, Receipt
from tokimori.web.screens.jobs import runs_in
from tokimori.web.visit import Visit

MOST_RUNNING: Final = 500
"""Number of the newest running runs whose jobs are named in the list."""
_COLUMNS: Final = (
    *(Column("Name", "pa"), Column("Used", "prog pf"), Column("Units", "n pc"), Column("Rate", "n pd")),
    *(Column("Waiting", "n pb"), Column("Held by", "wide pg")),
)
_HELD: Final = (
    Column("Run or program", "pa"),
    Column("Job", "wide pf"),
    Column("Units", "n pb"),
    Column("Node", "pc"),
    Column("Since", "n pd"),
)
_WAITING: Final = (Column("Run", "pa"), Column("Job", "wide pf"), Column("Due", "n pb"))


async def show(visit: Visit) -> Noun:
    """Return the list of semaphores; these may be in a store of their own that is away."""
    try:
        found, page = await paged(
            visit,
            visit.service.semaphores.list,
            lambda each: each.name,
            lambda each: has(visit, each.name),
        )
    except StoreUnavailable as fault:
        return Noun(warnings=(fault.message,))
    empty = "There are no semaphores. A job takes units of one with `--semaphore NAME`; this makes one of three units:"
    running = await runs_in(visit.service, RunState.RUNNING, limit=MOST_RUNNING) if found else ()
    rows = [_row(each, {run.id: run.job_id for run in running}) for each in found]
    return Noun(
        [Table("Semaphores", _COLUMNS, rows, empty, "tokimori lock set NAME --limit 3")],
        makes=("semaphores.set",),
        filter=filters(visit, "Filter semaphores"),
        page=page,
    )


def _row(each: SemaphoreDetails, jobs: Mapping[RunId, JobId]) -> Row:
    """Return the row of a semaphore: it names the jobs of runs that hold units, as far as they are known."""
    first = each.holders[0] if len(each.holders) == 1 else None
    to = path("runs", first.run_id) if first is not None and first.run_id is not None else None
    held = ", ".join((holder.run_id and jobs.get(holder.run_id)) or _holder(holder).text for holder in each.holders[:5])
    more = f" and {len(each.holders) - 5} more" if len(each.holders) > 5 else ""
    cells = (
        said(each.name, to=path("semaphores", each.name)),
        Cell(picture=share(each.used, each.limit, "units used", "amber" if each.waiting else "busy")),
        said(f"{each.used} of {'any' if each.limit == MOST_UNITS else each.limit}"),
        said(each.rate and f"{each.taken} of {each.rate}"),
        said(each.waiting or None),
        said(f"{held}{more}", to=to),
    )
    return Row(f"semaphore {each.name}", cells)


def _holder(each: Holder) -> Cell:
    return run_cell(each.run_id) if each.run_id is not None else said(f"pid {each.pid}")


async def _job_of(visit: Visit, each: Holder) -> Cell:
    """Return the job of the run that holds units; empty for a program, and for a run that the reader does not see."""
    with suppress(NotFound):
        if each.run_id is not None:
            return job_cell((await visit.service.runs.get(each.run_id)).run.job_id)
    return Cell()


async def page(visit: Visit) -> Noun:
    """Return the page of a semaphore, with its holders and the runs that wait, those first that wait for long."""
    each = await visit.service.semaphores.get(visit.parts["name"])
    rows = [
        Row(f"holder {n}", (_holder(one), job, said(one.weight), said(one.host or one.node_id), when(visit, one.since)))
        for n, (one, job) in enumerate([(one, await _job_of(visit, one)) for one in each.holders[:SHOWN]])
    ]
    blocked = await runs_in(visit.service, RunState.BLOCKED) if each.waiting else ()
    waits = [run for run in blocked if semaphore_of(run.blocked_on) == each.name][::-1]
    name, head = plain(each.name), f"Waiting ({len(waits)}, the first {SHOWN})" if len(waits) > SHOWN else "Waiting"
    waiting = [
        Row(f"run {run.id}", (run_cell(run.id), job_cell(run.job_id), when(visit, run.due))) for run in waits[:SHOWN]
    ]
    return Noun(
        [
            Table("Held by", _HELD, rows, "Nobody holds a unit.", f"tokimori lock run {name} -- COMMAND", "Held by"),
            *([Table("Waiting", _WAITING, waiting, head=head)] if waiting else []),
        ],
        name=name,
        says=(
            state("blocked" if each.waiting else "open", f"{each.waiting} waiting" if each.waiting else "room"),
            said(f"{each.used} of {_units(each)} used"),
            said(each.rate and f"{each.taken} taken in the period of its rate", "q"),
        ),
        acts=("semaphores.set", "semaphores.delete"),
        on=each.name,
    )


async def _set(service: Service, name: str, given: Given) -> Receipt:
    text = given.get("limit")
    if text is not None and not text.isdecimal():
        raise InvalidInput("limit: it is no number", field="limit", value=text, allowed="a whole number")
    made = await service.semaphores.set(name, None if text is None else int(text), given.get("rate"))
    return Receipt(f"Semaphore {name} has {_units(made)}", path("semaphores", name))


async def _current_values(service: Service, name: str) -> Given:
    each = await service.semaphores.get(name)
    return {"limit": "" if each.limit == MOST_UNITS else str(each.limit), "rate": each.rate or ""}


def _units(each: SemaphoreDetails) -> str:
    count = "any number of units" if each.limit == MOST_UNITS else amount(each.limit, "unit")
    return f"{count}, {each.rate}" if each.rate else count


ACTS: Final = (
    Act(
        "semaphores.set",
        "Change",
        "set",
        _set,
        fields=(
            Field("limit", "Units", "how many may be held at the same time; empty: as it is"),
            Field("rate", "Rate", "how many are taken in any period, such as 100/1m; none takes it away"),
        ),
        makes="New semaphore",
        fill=_current_values,
    ),
    Act("semaphores.delete", "Delete", "deleted", sure="There is no undo.", back="/semaphores"),
)
SCREENS: Final = screens_of("semaphores", show, page, "{name}")
