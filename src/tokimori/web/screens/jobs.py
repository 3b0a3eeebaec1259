"""The list of jobs, and what can be done with jobs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tokimori.errors import NotFound
from tokimori.model.approval import awaits_approval
from tokimori.model.attempt_notes import check_json
from tokimori.model.cause import cause_id, cause_in
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState, set_of
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.service.definitions.arguments import JobFilters
from tokimori.service.search.jobs import Traits
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED
from tokimori.web.addresses import path
from tokimori.web.filters import chips, typed, words
from tokimori.web.job_rows import AT_ONCE, WORST_FIRST, JobRow, groups, job_rows, overdue
from tokimori.web.run_rows import LONGEST_SAID
from tokimori.web.screen import Act, Field, Given, Receipt, Screen, Shown
from tokimori.web.visit import Visit
from tokimori.web.words import short

SHOWN: Final = 100
MOST_ASKED: Final = 5
"""Thousands of rows looked through for words, which no store finds."""
MOST_FAILED: Final = 200
"""Number of the newest failures looked at for jobs that fail."""
MOST_OPEN: Final = 5
"""Number of the newest runs of a job looked at for its last end."""
MOST_SORTED: Final = 200
"""Number of jobs put in another order than that of their ids."""
NAMES: Final = ("state", "queue", "owner", "label", "set")
SORTS: Final = {"": "by name", "worst": "worst first", "next": "by next", "slowest": "slowest first"}
GROUPS: Final = {"": "by prefix", "queue": "by queue", "owner": "by owner", "label": "by label", "none": "no groups"}
_STORED: Final = frozenset(map(str, JobState))
_RUNS: Final = frozenset({"running", "ready", "blocked"})


class Some(NamedTuple):
    """Jobs that are wanted. `next`: there may be more behind this id."""

    jobs: Sequence[Job]
    next: str | None


async def show(visit: Visit) -> Shown:
    """Return the list of jobs."""
    if (moved := typed(visit, NAMES)) is not None:
        return moved
    sort, group = visit.one("sort") or "", visit.one("group") or ""
    found = await _found(visit, MOST_SORTED if sort else SHOWN)
    rows = _sorted(await job_rows(visit, found.jobs, await overdue(visit)), sort)[:SHOWN]
    by = {str(job.id): _group(job, group) for job in found.jobs}
    return {
        "groups": [("", "", rows)] if group == "none" or sort else groups(rows, by),
        "shown": len(rows),
        "more": visit.link(after=found.next) if found.next and not sort else None,
        "first": visit.link(after=None) if visit.one("after") else None,
        "chips": chips(visit, NAMES),
        "sorts": SORTS,
        "kinds": GROUPS,
        "is_cut": sort != "" and found.next is not None,
        "bulk": BULK,
        "match": visit.match("q", *NAMES),
        "states": WORST_FIRST[:-1],
    }


async def meant(visit: Visit) -> Mapping[str, Any]:
    """Return the jobs that the filters of the list find, as the bulk order takes them: at most 1,000 by their ids."""
    state, names = visit.one("state"), ("queue", "owner")
    if words(visit) or visit.one("set") or not (state is None or state in _STORED):
        return {"ids": [job.id for job in (await _found(visit, MOST_LISTED)).jobs]}
    given = {"state": state, "label": visit.all("label"), **{name: visit.one(name) for name in names}}
    return {"limit": MOST_LISTED, **given} if any(given.values()) else {"limit": MOST_LISTED, "everything": True}


async def _found(visit: Visit, limit: int) -> Some:
    """Return the jobs that the filters want, by id."""
    state = visit.one("state")
    if state is not None and state not in _STORED:
        return await _in_state(visit, state, limit)
    is_narrow, found, after = bool(words(visit) or visit.one("set")), list[Job](), visit.one("after")
    filters = JobFilters(state=state, queue=visit.one("queue"), owner=visit.one("owner"), label=visit.all("label"))
    filters["limit"] = MOST_LISTED if is_narrow else limit
    for _ in range(MOST_ASKED if is_narrow else 1):
        filters["after"] = after
        page = await visit.service.jobs.list(**filters)
        found += [job for job in page.jobs if _has(visit, job)]
        if page.next is None or len(found) >= limit:
            return Some(found[:limit], found[limit - 1].id if len(found) > limit else page.next)
        after = page.next
    return Some(found, after)


async def _in_state(visit: Visit, state: str, limit: int) -> Some:
    """Return the jobs of which a word is true that the store does not keep: their runs or alarms say it."""
    service = visit.service
    if state == "overdue":
        ids = set(await overdue(visit))
    elif state in ("held", "approval"):
        held = await runs_in(service, RunState.HELD, longest=LONGEST_SAID)
        ids = {run.job_id for run in held if awaits_approval(run) == (state == "approval")}
    elif state in _RUNS:
        ids = {run.job_id for run in await runs_in(service, RunState(state))}
    elif state == "failing":
        ids = set(await visit.lately("failing", lambda: failing(service)))
    else:
        ids = set()
    after, found = visit.one("after") or "", list[Job]()
    traits = Traits(queue=visit.one("queue"), owner=visit.one("owner"), label=tuple(visit.all("label")))
    for job_id in sorted(each for each in ids if each > after):
        if len(found) == limit:
            return Some(found, found[-1].id)
        try:
            job = await service.jobs.get(job_id)
        except NotFound:
            continue
        is_there = job.state is not JobState.DELETED
        found += [job] if is_there and traits.are_of(job) and _has(visit, job) else []
    return Some(found, None)


async def runs_in(service: Service, *states: RunState, limit: int = MOST_LISTED, longest: int = 0) -> Sequence[Run]:
    """Return the newest runs in these states, without longer texts."""
    return (await service.runs.list(state=states, limit=limit, longest=longest)).runs


async def failing(service: Service) -> dict[JobId, Run]:
    """Return the jobs whose newest end is a failure, with that run, of the newest failures; muted causes are none."""
    muted = {each.id for each in await service.runs.mutes()}
    failed = (await service.runs.list(state="failed", limit=MOST_FAILED, longest=LONGEST_SAID)).runs
    newest: dict[JobId, Run] = {}
    for each in await service.runs.summaries(failed):
        if not each.is_job_deleted:
            newest.setdefault(each.run.job_id, each.run)
    ends = await _last_ends(service, list(newest))
    found = {job_id: run for job_id, run in newest.items() if ends.get(job_id, run).state is RunState.FAILED}
    return {job_id: run for job_id, run in found.items() if cause_id(cause_in(run) or "") not in muted}


async def _last_ends(service: Service, job_ids: Sequence[JobId]) -> Mapping[JobId, Run]:
    """Return the newest end of each of these jobs, of its newest runs; for most jobs the newest run is it."""
    ends: dict[JobId, Run] = {}
    for limit in (1, MOST_OPEN):
        left = [each for each in job_ids if each not in ends]
        for first in range(0, len(left), AT_ONCE):
            last = await service.runs.last(left[first : first + AT_ONCE], limit, longest=0)
            newest_last = ((job_id, run) for job_id, runs in last.items() for run in runs[::-1])
            ends |= {job_id: run for job_id, run in newest_last if run.state in (RunState.SUCCEEDED, RunState.FAILED)}
    return ends


def _has(visit: Visit, job: Job) -> bool:
    """Return if the job has the words, and is of the set, that are looked for: no store finds them."""
    definition = job.definition
    text = " ".join(
        filter(None, (job.id, definition.name, definition.description, definition.owner, definition.queue))
    ).casefold()
    return visit.one("set") in (None, set_of(definition)) and all(word in text for word in words(visit))


def _sorted(rows: Sequence[JobRow], sort: str) -> Sequence[JobRow]:
    match sort:
        case "worst":
            return sorted(rows, key=lambda row: (WORST_FIRST.index(row.state), row.id))
        case "next":
            return sorted(rows, key=lambda row: (row.next is None, row.next.rfc3339 if row.next else "", row.id))
        case "slowest":
            return sorted(rows, key=lambda row: (-row.usual, row.id))
        case _:
            return rows


def _group(job: Job, kind: str) -> str:
    match kind:
        case "queue":
            return job.definition.queue
        case "owner":
            return job.definition.owner or "nobody's"
        case "label":
            return ", ".join(f"{key}={value}" for key, value in sorted(job.definition.labels.items())) or "no label"
        case _:
            return prefix_of(job.id)


def prefix_of(job_id: str) -> str:
    """Return the beginning of an id up to the first mark, by which people group jobs."""
    cut = next((place for place, letter in enumerate(job_id) if letter in "-_./:" and place), len(job_id))
    return job_id[:cut]


# Acts

REASON = Field("reason", "Reason", "recorded, and shown to whoever asks why nothing starts")


async def _pause(service: Service, job_id: str, given: Given) -> None:
    await service.jobs.pause(job_id, given.get("reason"), now="now" in given)


async def _resume(service: Service, job_id: str, given: Given) -> None:
    await service.jobs.resume(job_id, late="late" in given)


async def _trigger(service: Service, job_id: str, given: Given) -> Receipt:
    payload = given.get("payload")
    if payload is not None:
        check_json(payload)
    run = await service.jobs.trigger(job_id, payload=payload)
    return Receipt(f"Run {short(run.id)} of {job_id} started", path("runs", run.id))


BULK: Final = ("jobs.pause", "jobs.resume", "jobs.trigger", "jobs.delete")
_ACTS: Final = (
    Act(
        "jobs.trigger",
        "Run",
        "run",
        _trigger,
        fields=(Field("payload", "Payload", "JSON or text; empty: that of the job", "area"),),
        style="go",
    ),
    Act(
        "jobs.pause",
        "Pause",
        "paused",
        _pause,
        fields=(REASON, Field("now", "Cancel the runs that run now", kind="check")),
        undo="jobs.resume",
    ),
    Act("jobs.resume", "Resume", "resumed", _resume, undo="jobs.pause"),
    Act("jobs.resolve", "Resolve", "resolved"),
    Act(
        "jobs.delete",
        "Delete",
        "deleted",
        sure="Runs that have not started are cancelled; running ones go on to their end. There is no undo.",
        back="/jobs",
    ),
)
ACTS: Final = tuple(act._replace(meant=meant) if act.name in BULK else act for act in _ACTS)
SCREENS: Final = (Screen("/jobs", "jobs", "jobs.html", show, leads=True),)
