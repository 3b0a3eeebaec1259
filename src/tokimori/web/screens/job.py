"""The page of a job, with its tabs."""

from collections.abc import Sequence
from typing import Final

from msgspec import json

from tokimori.errors import InvalidInput, NotFound
from tokimori.model.job import Job, JobState
from tokimori.service.graph import tree
from tokimori.service.reasons import AT_REST, Reason
from tokimori.web.job_rows import Preview, after, calendars, command, job_row, preview, unread
from tokimori.web.pictures import BARS
from tokimori.web.run_rows import LONGEST_SAID, run_rows
from tokimori.web.screen import Screen, Shown
from tokimori.web.visit import Visit

RUNS_SHOWN: Final = 50
MOMENTS_SHOWN: Final = 10
TABS: Final = ("runs", "schedule", "definition")


async def show(visit: Visit) -> Shown:
    """Return the page of a job."""
    job = await visit.service.jobs.get(visit.parts["job_id"])
    tab = visit.one("tab") or TABS[0]
    last = (await visit.service.runs.last([job.id], BARS, longest=0))[job.id]
    alarm = {each.name for each in await visit.service.expectations.alarms(limit=100) if each.of_job}
    shown = {
        "job": job_row(visit, job, last, job.id in alarm),
        "said": job,
        "tab": tab,
        "tabs": TABS,
        "why": await _why(visit, job),
        "command": command(job.definition),
        "calendars": calendars(job.definition),
        "after": after(job),
        "acts_here": _acts(job),
        "last": (await run_rows(visit, last[:1]))[0] if last else None,
    }
    return shown | await _of_tab(visit, job, tab)


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


async def _of_tab(visit: Visit, job: Job, tab: str) -> dict[str, object]:
    match tab:
        case "schedule":
            return {"meaning": await _meaning(visit, job), "graph": tree(await visit.service.jobs.graph(job.id))}
        case "definition":
            return {"fields": _fields(job)}
        case _:
            return await _runs(visit, job)


async def _runs(visit: Visit, job: Job) -> dict[str, object]:
    before = visit.one("before")
    found = await visit.service.runs.list(job_id=job.id, before=before, limit=RUNS_SHOWN, longest=LONGEST_SAID)
    return {
        "runs": await run_rows(visit, found.runs),
        "more": None if found.next is None else visit.link(before=found.next),
        "first": visit.link(before=None) if before else None,
    }


async def _meaning(visit: Visit, job: Job) -> Preview:
    try:
        return preview(visit, await visit.service.jobs.explain(job.id, MOMENTS_SHOWN))
    except InvalidInput as fault:
        return unread(job.definition.time_zone, fault)


async def _why(visit: Visit, job: Job) -> Sequence[Reason]:
    try:
        reasons = (await visit.service.jobs.why(job.id)).reasons
    except (NotFound, InvalidInput):  # the latter stands in place of its schedule
        return ()
    return [reason for reason in reasons if reason.cause not in AT_REST]


def _fields(job: Job) -> Sequence[tuple[str, str]]:
    """Return the fields of the definition that are not defaults."""
    said = json.decode(json.encode(job.definition))
    return [(name, value if isinstance(value, str) else _told(value)) for name, value in said.items()]


def _told(value: object) -> str:
    return json.format(json.encode(value), indent=1).decode()


SCREENS: Final = (Screen("/jobs/{job_id}", "jobs", "job.html", show),)
