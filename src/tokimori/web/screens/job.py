"""The page of a job, with its tabs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Final, NamedTuple

from tokimori.errors import InvalidInput, NotFound
from tokimori.model.job import Job, JobState
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.service.reasons import AT_REST, Reason
from tokimori.web.job_rows import calendars, job_row, overdue
from tokimori.web.pictures import BARS
from tokimori.web.run_rows import LONGEST_SAID, cause, run_rows, whole_cause
from tokimori.web.screen import Screen, Shown
from tokimori.web.screens.graph import family_of_job
from tokimori.web.tabs import changes, definition, occurrences, runs, schedule, trends
from tokimori.web.visit import Visit
from tokimori.web.words import Time


async def _graph(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the jobs before and after the job: the families of all are a screen of their own."""
    return {"family": await family_of_job(visit, job.id)}


TABS: Final[Mapping[str, Callable[[Visit, Job], Awaitable[Mapping[str, object]]]]] = MappingProxyType(
    {
        "runs": runs.tab,
        "occurrences": occurrences.tab,
        "schedule": schedule.tab,
        "graph": _graph,
        "trends": trends.tab,
        "changes": changes.tab,
        "definition": definition.tab,
    }
)
"""The tabs in their order. Each has a template `job_<tab>.html`."""


async def show(visit: Visit) -> Shown:
    """Return the page of a job."""
    job = await visit.service.jobs.get(visit.parts["job_id"])
    tab = visit.one("tab") or "runs"
    if tab not in TABS:
        raise NotFound(f"a job has no tab {tab!r}", field="tab", value=tab, allowed=", ".join(TABS))
    last = (await visit.service.runs.last([job.id], BARS, longest=LONGEST_SAID))[job.id]
    shown = {
        "job": job_row(visit, job, last, job.id in await overdue(visit)),
        "said": job,
        "tab": tab,
        "tabs": list(TABS),
        "why": await _why(visit, job),
        "failing": _failing(visit, job, last),
        "calendars": calendars(job.definition),
        "acts_here": _acts(job),
        "last": (await run_rows(visit, last[:1]))[0] if last else None,
    }
    return {**shown, **await TABS[tab](visit, job)}


def _acts(job: Job) -> Sequence[str]:
    match job.state:
        case JobState.DELETED:
            return ()
        case JobState.PAUSED:
            return ("jobs.resume", "jobs.delete")
        case JobState.PARKED:
            return ("jobs.resolve", "jobs.delete")
        case _:
            return ("jobs.trigger", "jobs.pause", "jobs.delete")


class Failing(NamedTuple):
    """Failures of a job in a row: their known number, their cause, the newest of them, and the last good end."""

    number: int
    cause: str
    says: str
    is_more: bool
    run_id: str
    next: Time | None
    good: Time | None


def _failing(visit: Visit, job: Job, last: Sequence[Run]) -> Failing | None:
    """Return the failures of a job since its last good end; None if its newest end is none."""
    ended = [run for run in last if run.state in (RunState.SUCCEEDED, RunState.FAILED)]
    failed = list(takewhile(lambda run: run.state is RunState.FAILED, ended))
    if not failed:
        return None
    good = next((run for run in ended if run.state is RunState.SUCCEEDED), None)
    return Failing(
        number=len(failed),
        cause=cause(failed[0]),
        says=whole_cause(failed[0]),
        is_more=len(failed) == BARS,
        run_id=failed[0].id,
        next=job_row(visit, job, (), is_overdue=False).next,
        good=None if good is None else visit.time(good.ended or good.due, job.definition.time_zone),
    )


async def _why(visit: Visit, job: Job) -> Sequence[Reason]:
    try:
        reasons = (await visit.service.jobs.why(job.id)).reasons
    except (NotFound, InvalidInput):  # the latter stands in place of its schedule
        return ()
    return [reason for reason in reasons if reason.cause not in AT_REST]


SCREENS: Final = (Screen("/jobs/{job_id}", "jobs", "job.html", show),)
