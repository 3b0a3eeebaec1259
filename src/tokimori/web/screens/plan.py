"""The plan: a lane a job, or a group of jobs, over a day, a week or a month; and what is to come as a calendar."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import merge
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from tokimori.clock import DAY, HOUR, Moment
from tokimori.errors import InvalidInput
from tokimori.model.calendar import decode_days_off
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.run import Run
from tokimori.model.transitions import BEFORE_START, RunState
from tokimori.schedules.schedule import each_moment
from tokimori.service.jobs.writer import schedule_for
from tokimori.spelling import amount
from tokimori.web import plan
from tokimori.web.addresses import address, path
from tokimori.web.filters import chips, typed, words
from tokimori.web.job_rows import in_words
from tokimori.web.pictures import median_of, took
from tokimori.web.plan import MOST_TICKS, MOST_WALKED, Lane, Tick, Window, busiest, days_off, firings, midnight, to_come
from tokimori.web.screen import Screen, Shown
from tokimori.web.screens.jobs import prefix_of
from tokimori.web.visit import Visit
from tokimori.web.words import clock_time, duration

NAMES: Final = ("queue", "owner", "label")
SPANS: Final = {"24h": ("24 h", DAY), "week": ("Week", 7 * DAY), "month": ("Month", 31 * DAY)}
LANES: Final = {"": "a lane a job", "prefix": "a lane a prefix", "queue": "a lane a queue"}
SHOWN, LISTED, MOST_PAGES, FARTHEST = 40, 100, 20, 100
"""Number of jobs on a page, of lines of the list, of pages of jobs looked through, and of periods away."""
RUNS_OF_EACH: Final = 25
MOST_EVENTS, EVENTS_OF_EACH = 1_000, 100
_STOPPED: Final = {JobState.PAUSED: "‖ paused: will be skipped", JobState.PARKED: "■ parked: will be skipped"}
_TONES: Final = MappingProxyType(
    {
        **{RunState.SUCCEEDED: "ok", RunState.FAILED: "bad", RunState.RUNNING: "busy"},
        **{RunState.READY: "next", RunState.BLOCKED: "amber", RunState.HELD: "violet"},
    }
)


class Reckoned(NamedTuple):
    """Lanes of some jobs, and all moments that were looked at for the busiest minute."""

    lanes: Sequence[Lane]
    busiest: tuple[Moment, int] | None


async def show(visit: Visit) -> Shown:
    """Return the lanes of the jobs that the filters want."""
    if (moved := typed(visit, NAMES)) is not None:
        return moved
    span, kind = visit.one("span") or "24h", visit.one("lanes") or ""
    span, at = span if span in SPANS else "24h", _periods(visit)
    window = _window(visit, SPANS[span][1], at)
    jobs, more = await _jobs(visit, SHOWN)
    runs = await visit.service.runs.last([job.id for job in jobs], RUNS_OF_EACH, longest=0) if jobs else {}
    found = await asyncio.to_thread(_reckoned, jobs, runs, window, kind)
    idle = sum(lane.is_empty for lane in found.lanes)
    found = found._replace(lanes=[lane for lane in found.lanes if not lane.is_empty])
    coming = list(islice(to_come(found.lanes), LISTED))
    asked = [(name, value) for name in (*NAMES, "q") for value in visit.all(name)]
    return {
        "lanes": found.lanes,
        "picture": plan.picture(found.lanes, window),
        "coming": [(visit.time(tick.first), lane, duration(tick.last - tick.first)) for tick, lane in coming],
        "count": sum(lane.number for lane in found.lanes),
        "tones": {tick.tone for lane in found.lanes for tick in lane.ticks},
        "busiest": None if found.busiest is None else (visit.time(found.busiest[0]), found.busiest[1]),
        "spans": [(says, visit.link(span=name, at=None), name == span) for name, (says, _) in SPANS.items()],
        "earlier": visit.link(at=at - 1),
        "later": visit.link(at=at + 1),
        "at_now": visit.link(at=None),
        "says": f"{plan.said(window.first, window)} to {plan.said(window.last, window)}",
        "kinds": LANES,
        "chips": chips(visit, NAMES),
        "file": address("/calendar.ics", asked),
        "jobs": len(jobs),
        "idle": idle,
        "more": None if more is None else visit.link(after=more),
        "first": visit.link(after=None) if visit.one("after") else None,
    }


def _periods(visit: Visit) -> int:
    """Return how many periods before or after now are shown. Raises `InvalidInput`."""
    given = visit.one("at") or "0"
    if given.lstrip("-").isdecimal() and given.isascii() and len(given) < 5 and abs(int(given)) <= FARTHEST:
        return int(given)
    allowed = f"a number from -{FARTHEST} to {FARTHEST}"
    raise InvalidInput(f"at: {given!r} is no number of periods near now", field="at", value=given, allowed=allowed)


def _window(visit: Visit, length: int, at: int) -> Window:
    """Return the period: a day begins six hours ago, a week yesterday, and a month a week ago."""
    zone = visit.service.time_zone if visit.zone == "job" else visit.zone_of(visit.service.time_zone)
    if length > DAY:
        begins = midnight(Moment(visit.now - (DAY if length == 7 * DAY else 7 * DAY)), zone)
        noons = (Moment(begins + (at + n) * length + 12 * HOUR) for n in (0, 1))  # a day may have 23 or 25 hours
        first, last = (midnight(each, zone) for each in noons)
        return Window(first, last, visit.now, zone)
    first = Moment(visit.now - 6 * HOUR - visit.now % HOUR)
    return Window(Moment(first + at * length), Moment(first + (at + 1) * length), visit.now, zone)


async def _jobs(visit: Visit, limit: int) -> tuple[Sequence[Job], str | None]:
    """Return jobs with a schedule, and behind which id there may be more."""
    looked, found, after = words(visit), list[Job](), visit.one("after")
    one = {name: visit.one(name) for name in ("queue", "owner")}
    for _ in range(MOST_PAGES):
        page = await visit.service.jobs.list(**one, label=visit.all("label"), after=after, limit=200)
        for job in page.jobs:
            if len(found) == limit:
                return found, found[-1].id
            text = f"{job.id} {job.definition.name or ''}".casefold()
            is_on = job.definition.schedule is not None and job.state is not JobState.FINISHED
            found += [job] if is_on and all(word in text for word in looked) else []
        after = page.next
        if after is None:
            break
    return found, after


def _reckoned(jobs: Sequence[Job], runs: Mapping[JobId, Sequence[Run]], window: Window, kind: str) -> Reckoned:
    """Return the lanes: the densest first, then by their first firing. It may take a while.

    The busiest minute is looked for as far as all firings are known.
    """
    through, moments, groups = window.last, list[Moment](), dict[str, list[Lane]]()
    for job in jobs:
        lane, named = _lane(job, runs.get(job.id, ()), window)
        moments += named if lane.note == "" else ()
        through = min(through, named[-1] if len(named) == MOST_WALKED else through)
        name = {"prefix": prefix_of(job.id), "queue": job.definition.queue}.get(kind, str(job.id))
        groups.setdefault(name, []).append(lane)
    lanes = (
        [_merged(name, each, kind) for name, each in groups.items()] if kind else [each[0] for each in groups.values()]
    )
    never = window.last
    lanes.sort(key=lambda lane: (not lane.is_dense, min((tick.first for tick in lane.ticks), default=never), lane.name))
    return Reckoned(lanes, busiest(at for at in moments if at <= through))


def _merged(name: str, lanes: Sequence[Lane], kind: str) -> Lane:
    """Return several lanes as one."""
    count = sum(lane.number for lane in lanes)
    return Lane(
        name=name,
        to=address("/jobs", [("queue" if kind == "queue" else "q", name)]),
        says=amount(len(lanes), "job"),
        ticks=[tick for lane in lanes for tick in lane.ticks if tick.tone or not lane.note or len(lanes) == 1],
        number=count,
        is_dense=count > MOST_TICKS or any(lane.is_dense for lane in lanes),
        off=lanes[0].off if len(lanes) == 1 else (),
        note=lanes[0].note if len(lanes) == 1 else "",
    )


def _lane(job: Job, runs: Sequence[Run], window: Window) -> tuple[Lane, Sequence[Moment]]:
    usual, zone = median_of(runs) or 0, window.zone
    try:
        schedule, begins = schedule_for(job), max(window.now, window.first)
        is_over = begins >= window.last
        named, count = ((), 0) if is_over else firings(schedule, begins, window.last, job.runs_remaining)
        off = () if job.days_off is None else days_off(decode_days_off(job.days_off), window, job.definition.time_zone)
    except InvalidInput:
        named, count, off = (), 0, ()
    takes, note = f" · about {duration(usual)}" if usual else "", _STOPPED.get(job.state, "")
    ticks = [_past(run, window) for run in runs[::-1] if window.first <= (run.started or run.due) < window.last]
    ticks = [tick for tick in ticks if tick.first <= window.now]
    oldest = (runs[-1].started or runs[-1].due) if len(runs) == RUNS_OF_EACH else Moment(0)
    is_dense = count > MOST_TICKS
    ends = window.now if is_dense and runs else oldest  # as a band it is one, before now as behind it
    unread = (Moment(max(window.first, job.created)), Moment(min(ends, window.last)))
    if not is_dense:
        ticks += [Tick(at, Moment(at + usual), "", f"{clock_time(at, zone, window.now)}{takes}") for at in named]
    return (
        Lane(
            job.id,
            path("jobs", job.id),
            in_words(job),
            ticks,
            0 if note else count,
            is_dense,
            off,
            note,
            unread if unread[0] < unread[1] else None,
        ),
        named,
    )


def _past(run: Run, window: Window) -> Tick:
    waits = run.state in BEFORE_START or run.state is RunState.HELD
    first = run.due if waits or run.started is None else run.started
    last = Moment(first + (took(run) or 0)) if run.ended else max(first, window.now)
    length = f" · {duration(last - first)}" if run.started or waits else ""
    tone = _TONES.get(run.state, "q")
    return Tick(
        first,
        last if tone != "q" else first,
        tone,
        f"{clock_time(first, window.zone, window.now)} · {run.state}{length}",
    )


async def calendar(visit: Visit) -> str:
    """Return the next firings of the jobs that the filters want as a calendar, at most 1,000."""
    jobs, _ = await _jobs(visit, 200)
    jobs = [job for job in jobs if job.state is JobState.ENABLED]
    last: dict[JobId, Sequence[Run]] = {}
    for first in range(0, len(jobs), 50):
        last |= await visit.service.runs.last([job.id for job in jobs[first : first + 50]], 20, longest=0)

    def made() -> str:
        events = merge(*(_events(job, last.get(job.id, ()), visit.now) for job in jobs), key=lambda each: each[1])
        return plan.calendar_file(islice(events, MOST_EVENTS), visit.now, "Tokimori")

    return await asyncio.to_thread(made)


def _events(job: Job, runs: Sequence[Run], now: Moment) -> Iterator[tuple[str, Moment, int, str]]:
    """Yield the next firings of a job, each reckoned when it is asked for; none if its schedule can't be read here."""
    left = EVENTS_OF_EACH if job.runs_remaining is None else min(EVENTS_OF_EACH, job.runs_remaining)
    with suppress(InvalidInput):
        moments = islice(each_moment(schedule_for(job), now), left)
        usual, says = median_of(runs) or 0, f"{in_words(job)}, {job.definition.time_zone}"
        yield from ((job.id, at, usual, says) for at in moments)


SCREENS: Final = (Screen("/plan", "plan", "plan.html", show, leads=True),)
