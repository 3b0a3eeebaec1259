"""The palette: jobs, runs by their ids, places and verbs that are typed."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.errors import InvalidInput, NotFound
from tokimori.model.job import Job
from tokimori.model.run import Run
from tokimori.service.validation import MOST_LISTED
from tokimori.web.addresses import address, path
from tokimori.web.job_rows import WORST_FIRST, JobRow, job_row, overdue
from tokimori.web.nouns import plain
from tokimori.web.pictures import BARS
from tokimori.web.screen import Act, Screen, Shown
from tokimori.web.visit import Visit
from tokimori.web.words import Time, short, written

SHOWN, NAMED = 8, 2
"""Number of jobs listed, and of jobs whose newest run is read."""
MOST_ASKED: Final = 3
"""Thousands of jobs looked through for words; beginnings of ids are found among all."""
_ID: Final = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE)
_VERBS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "enabled": ("jobs.trigger", "jobs.pause", "jobs.delete"),
        "paused": ("jobs.resume", "jobs.delete"),
        "parked": ("jobs.resolve", "jobs.delete"),
    }
)


class Option(NamedTuple):
    """Something that is found. `asks`: it is the question before an act. `at` is when it is next, or was."""

    says: str
    to: str
    state: str = ""
    key: str = ""
    asks: bool = False
    at: Time | None = None


def screen(acts: Callable[[], Mapping[str, Act]], places: Callable[[], Sequence[str]]) -> Screen:
    """Return the screen that finds things, of these acts and places."""

    async def show(visit: Visit) -> Shown:
        looked = (visit.one("q") or "").casefold().split()
        jobs, last = await _rows(visit, await _jobs(visit, looked), looked)
        groups = {
            "Jobs": [Option(plain(row.id), path("jobs", row.id), row.state, at=row.next) for _, row in jobs],
            "Runs": [*await _runs(visit, looked), *last],
            "Do": _verbs(visit, acts(), looked, [job for job, _ in jobs[:1]]),
            "Go to": [*_places(places(), looked), *(_of_job(jobs[0][0].id) if jobs else ())],
        }
        found = {name: options for name, options in groups.items() if options}
        return {"groups": found, "q": visit.one("q") or "", "marked": partial(_marked, looked)}

    return Screen("/find", "", "find.html", show)


def _marked(looked: Sequence[str], text: str) -> Markup:
    """Return a text in which the words that are looked for are marked."""
    if not looked:
        return written(text)
    parts = re.split(f"({'|'.join(map(re.escape, looked))})", text, flags=re.IGNORECASE)
    marked = Markup("<mark>{}</mark>").format
    return Markup("").join(marked(written(part)) if n % 2 else written(part) for n, part in enumerate(parts))


def _of_job(job_id: str) -> Sequence[Option]:
    """Return places that show one job alone."""
    name = plain(job_id)
    failures, plan = address("/failures", [("job", job_id)]), address("/plan", [("q", job_id)])
    return [Option(f"Failures of {name}", failures), Option(f"Plan of {name}", plan)]


async def _rows(
    visit: Visit, jobs: Sequence[Job], looked: Sequence[str]
) -> tuple[Sequence[tuple[Job, JobRow]], Sequence[Option]]:
    """Return the jobs with their rows, worst first of those that begin with the text, and the newest of their runs."""
    if not jobs:
        return (), ()
    last = await visit.service.runs.last([job.id for job in jobs], BARS, longest=0)
    late = await overdue(visit)
    rows = [(job, job_row(visit, job, last[job.id], job.id in late)) for job in jobs]
    rows.sort(key=lambda pair: (not pair[0].id.casefold().startswith(looked[0]), WORST_FIRST.index(pair[1].state)))
    return rows, [_run(visit, run) for job, _ in rows[:NAMED] for run in last[job.id][:1]]


def _run(visit: Visit, run: Run) -> Option:
    at = visit.time(run.ended or run.started or run.due)
    return Option(f"{plain(run.job_id)} · {short(run.id)}", path("runs", run.id), run.state.value, at=at)


def _places(places: Sequence[str], looked: Sequence[str]) -> Sequence[Option]:
    return [
        Option(each.capitalize(), "/" if each == "now" else f"/{each}", key=_KEYS.get(each, ""))
        for each in places
        if all(word in each for word in looked)
    ]


_KEYS: Final = MappingProxyType(
    {
        **{"now": "g n", "jobs": "g j", "runs": "g r", "failures": "g f", "plan": "g p"},
        **{"jobs.trigger": "r", "jobs.pause": "p"},
    }
)
"""What is typed on a screen instead, by the place or the act."""


async def _jobs(visit: Visit, looked: Sequence[str]) -> Sequence[Job]:
    """Return the first jobs whose ids begin with the text, and those that contain all words."""
    if not looked:
        return ()
    found: dict[str, Job] = {}
    try:
        begun = await visit.service.jobs.list(prefix=looked[0], limit=SHOWN) if len(looked) == 1 else None
        found = {} if begun is None else {job.id: job for job in begun.jobs}
    except InvalidInput:  # it is no beginning of an id
        pass
    after: str | None = None
    for _ in range(MOST_ASKED):
        page = await visit.service.jobs.list(after=after, limit=MOST_LISTED)
        for job in page.jobs:
            text = f"{job.id} {job.definition.name or ''}".casefold()
            if all(word in text for word in looked):
                found.setdefault(job.id, job)
        if (after := page.next) is None or len(found) >= SHOWN:
            break
    return list(found.values())[:SHOWN]


async def _runs(visit: Visit, looked: Sequence[str]) -> Sequence[Option]:
    if len(looked) != 1 or not _ID.fullmatch(looked[0]):
        return ()
    try:
        run_id = await visit.service.runs.whole_id(looked[0])
        run = (await visit.service.runs.get(run_id)).run
    except (NotFound, InvalidInput):
        return ()
    return [_run(visit, run)]


def _verbs(visit: Visit, acts: Mapping[str, Act], looked: Sequence[str], jobs: Sequence[Job]) -> Sequence[Option]:
    """Return the acts on the first job, and the things that can be made."""
    found = [
        Option(
            f"{acts[name].verb} {plain(job.id)}…",
            _question(name, job.id, path("jobs", job.id)),
            key=_KEYS.get(name, ""),
            asks=True,
        )
        for job in jobs
        for name in _VERBS.get(job.state.value, ("jobs.delete",))
        if not visit.reader.lacks(name)
    ]
    if jobs and not visit.reader.lacks("jobs.edit"):
        found.insert(0, Option(f"Edit {plain(jobs[0].id)}", path("jobs", jobs[0].id, "edit")))
    made = [
        Option(f"{act.makes}…", _question(act.name, None, f"/{act.noun}"), asks=True)
        for act in acts.values()
        if act.makes and not visit.reader.lacks(act.name) and all(word in act.makes.casefold() for word in looked)
    ]
    return [*found, *(made if looked else [])]


def _question(name: str, on: str | None, back: str | None) -> str:
    return address(f"/do/{name}", [("on", on), ("back", back)])
