"""The palette: jobs, runs by their ids, places and verbs that are typed."""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from tokimori.errors import InvalidInput, NotFound
from tokimori.service.validation import MOST_LISTED
from tokimori.web.addresses import address, path
from tokimori.web.nouns import plain
from tokimori.web.screen import Act, Screen, Shown
from tokimori.web.visit import Visit
from tokimori.web.words import short

SHOWN: Final = 8
MOST_ASKED: Final = 3
"""So many thousands of jobs are looked through for words; beginnings of ids are found among all."""
_ID: Final = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE)
_VERBS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "enabled": ("jobs.trigger", "jobs.pause", "jobs.delete"),
        "paused": ("jobs.resume", "jobs.delete"),
        "parked": ("jobs.resolve", "jobs.delete"),
    }
)


class Option(NamedTuple):
    """Something that is found. `asks`: it is the question before an act."""

    says: str
    to: str
    state: str = ""
    key: str = ""
    asks: bool = False


def screen(acts: Callable[[], Mapping[str, Act]], places: Callable[[], Sequence[str]]) -> Screen:
    """Return the screen that finds things, of these acts and places."""

    async def show(visit: Visit) -> Shown:
        looked = (visit.one("q") or "").casefold().split()
        jobs = await _jobs(visit, looked)
        groups = {
            "Jobs": [Option(plain(each), path("jobs", each), word) for each, word in jobs],
            "Runs": await _runs(visit, looked),
            "Do": _verbs(visit, acts(), looked, jobs[:1]),
            "Go to": _places(places(), looked),
        }
        return {"groups": {name: options for name, options in groups.items() if options}, "q": visit.one("q") or ""}

    return Screen("/find", "", "find.html", show)


def _places(places: Sequence[str], looked: Sequence[str]) -> Sequence[Option]:
    return [
        Option(each.capitalize(), "/" if each == "now" else f"/{each}", key=_KEYS.get(each, ""))
        for each in places
        if all(word in each for word in looked)
    ]


_KEYS: Final = {"now": "g n", "jobs": "g j", "runs": "g r", "failures": "g f", "plan": "g p"}


async def _jobs(visit: Visit, looked: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Return the first jobs whose ids begin with the text, and those that contain all words, with their states."""
    if not looked:
        return ()
    found: dict[str, str] = {}
    try:
        begun = await visit.service.jobs.list(prefix=looked[0], limit=SHOWN) if len(looked) == 1 else None
        found = {} if begun is None else {job.id: job.state.value for job in begun.jobs}
    except InvalidInput:  # it is no beginning of an id
        pass
    after: str | None = None
    for _ in range(MOST_ASKED):
        page = await visit.service.jobs.list(after=after, limit=MOST_LISTED)
        for job in page.jobs:
            text = f"{job.id} {job.definition.name or ''}".casefold()
            if all(word in text for word in looked):
                found.setdefault(job.id, job.state.value)
        if (after := page.next) is None or len(found) >= SHOWN:
            break
    return list(found.items())[:SHOWN]


async def _runs(visit: Visit, looked: Sequence[str]) -> Sequence[Option]:
    if len(looked) != 1 or not _ID.fullmatch(looked[0]):
        return ()
    try:
        run_id = await visit.service.runs.whole_id(looked[0])
        run = (await visit.service.runs.get(run_id)).run
    except (NotFound, InvalidInput):
        return ()
    return [Option(f"{plain(run.job_id)} · {short(run.id)}", path("runs", run.id), run.state.value)]


def _verbs(
    visit: Visit, acts: Mapping[str, Act], looked: Sequence[str], jobs: Sequence[tuple[str, str]]
) -> Sequence[Option]:
    """Return the acts on the first job, and the things that can be made."""
    found = [
        Option(f"{acts[name].verb} {plain(job_id)}…", _question(name, job_id, path("jobs", job_id)), asks=True)
        for job_id, state in jobs
        for name in _VERBS.get(state, ("jobs.delete",))
        if not visit.reader.lacks(name)
    ]
    if jobs and not visit.reader.lacks("jobs.edit"):
        found.insert(0, Option(f"Edit {plain(jobs[0][0])}", path("jobs", jobs[0][0], "edit")))
    made = [
        Option(f"{act.makes}…", _question(act.name, None, f"/{act.noun}"), asks=True)
        for act in acts.values()
        if act.makes and not visit.reader.lacks(act.name) and all(word in act.makes.casefold() for word in looked)
    ]
    return [*found, *(made if looked else [])]


def _question(name: str, on: str | None, back: str | None) -> str:
    return address(f"/do/{name}", [("on", on), ("back", back)])
