"""The page of a job, with its tabs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tokimori.errors import InvalidInput, NotFound
from tokimori.model.job import Job, JobState
from tokimori.service.reasons import AT_REST, Reason
from tokimori.web.job_rows import calendars, job_row
from tokimori.web.pictures import BARS
from tokimori.web.run_rows import run_rows
from tokimori.web.screen import Screen, Shown
from tokimori.web.tabs import changes, definition, occurrences, runs, schedule
from tokimori.web.visit import Visit

TABS: Final[Mapping[str, Callable[[Visit, Job], Awaitable[Mapping[str, object]]]]] = MappingProxyType(
    {
        "runs": runs.tab,
        "occurrences": occurrences.tab,
        "schedule": schedule.tab,
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
    last = (await visit.service.runs.last([job.id], BARS, longest=0))[job.id]
    alarm = {each.name for each in await visit.service.expectations.alarms(limit=100) if each.of_job}
    shown = {
        "job": job_row(visit, job, last, job.id in alarm),
        "said": job,
        "tab": tab,
        "tabs": list(TABS),
        "why": await _why(visit, job),
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


async def _why(visit: Visit, job: Job) -> Sequence[Reason]:
    try:
        reasons = (await visit.service.jobs.why(job.id)).reasons
    except (NotFound, InvalidInput):  # the latter stands in place of its schedule
        return ()
    return [reason for reason in reasons if reason.cause not in AT_REST]


SCREENS: Final = (Screen("/jobs/{job_id}", "jobs", "job.html", show),)
