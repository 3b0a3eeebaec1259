"""Tab with the trends of a job: whether its runs get slower, later, dearer or worse, as curves and as a table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from tokimori.clock import DAY, HOUR, SECOND, Moment
from tokimori.model.job import Job
from tokimori.model.run import Run
from tokimori.model.statistics import size
from tokimori.model.transitions import RunState
from tokimori.service.validation import MOST_LISTED
from tokimori.web.pictures import took
from tokimori.web.visit import Visit
from tokimori.web.words import clock_time, duration, offset_at

SPANS: Final = {"7d": (7 * DAY, 6 * HOUR), "30d": (30 * DAY, DAY), "90d": (90 * DAY, 3 * DAY)}
"""The spans, and the steps by which they are drawn."""
MOST_PAGES: Final = 3
"""Thousands of the newest runs that are read."""
_NOTED: Final = 0.1
"""A change of the median by less than this part is none."""


class Measure(NamedTuple):
    """Measure of runs. `value` returns None for a run without it."""

    name: str
    unit: str
    value: Callable[[Run], int | None]
    say: Callable[[int], str]
    more: str
    """What more of it is, such as `longer`."""


def _late(run: Run) -> int | None:
    return max(0, run.started - run.due) if run.started is not None and run.attempt == 1 else None


def _of_good(value: Callable[[Run], int | None]) -> Callable[[Run], int | None]:
    """Return the same of runs that succeeded: a failure is often a short one."""
    return lambda run: value(run) if run.state is RunState.SUCCEEDED else None


MEASURES: Final = (
    Measure("Took", "s", _of_good(took), duration, "longer"),
    Measure("Late", "s", _late, duration, "later"),
    Measure("CPU", "s", _of_good(lambda run: run.cpu), duration, "more"),
    Measure("Memory", "B", _of_good(lambda run: run.memory), size, "more"),
)


class Value(NamedTuple):
    """A number of the table, in words and as it is drawn."""

    says: str
    drawn: str


class Step(NamedTuple):
    """Runs that began within a step of time."""

    at: int
    when: str
    runs: int
    values: Sequence[Value]


class Curve(NamedTuple):
    """Curve: its name, unit, columns of values, and a sentence about its change."""

    name: str
    unit: str
    first: int
    lines: str
    says: str


async def tab(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the measures of a span, step by step."""
    span = name if (name := visit.one("span") or "30d") in SPANS else "30d"
    length, step = SPANS[span]
    zone = visit.zone_of(job.definition.time_zone)
    first = _begin(Moment(visit.now - length), step, zone)
    runs, is_whole = await visit.lately(f"trends {job.incarnation} {span}", lambda: _read(visit, job, first))
    groups: dict[Moment, list[Run]] = {}
    for run in runs:
        groups.setdefault(_begin(min(run.due, run.ended or run.due), step, zone), []).append(run)
    known = [each for each in MEASURES if any(each.value(run) is not None for run in runs)]
    steps = [_step(visit, zone, at, groups[at], known, by_day=step >= DAY) for at in sorted(groups, reverse=True)]
    return {
        "steps": steps,
        "measures": known,
        "curves": [*_curves(known, runs), Curve("Success", "%", 2 * len(known), "of the runs that ended", "")],
        "spans": [(each, visit.link(span=each), each == span) for each in SPANS],
        "until": visit.now // SECOND,
        "first": first // SECOND,
        "zone": zone,
        "note": "" if is_whole else f"the newest {len(runs):,} runs",
    }


async def _read(visit: Visit, job: Job, first: Moment) -> tuple[Sequence[Run], bool]:
    """Return the ended runs since a moment, the newest first, and whether these are all."""
    found, before = list[Run](), None
    for _ in range(MOST_PAGES):
        page = await visit.service.runs.list(job_id=job.id, since=first, before=before, limit=MOST_LISTED, longest=0)
        found += [run for run in page.runs if run.ended is not None and run.started is not None]
        before = page.next
        if before is None:
            return found, True
    return found, False


def _begin(at: Moment, step: int, zone: str) -> Moment:
    """Return when the step begins in which a moment lies: days begin at midnight."""
    offset = offset_at(at, zone)
    return Moment((at + offset) // step * step - offset)


def _step(visit: Visit, zone: str, at: Moment, runs: Sequence[Run], known: Sequence[Measure], *, by_day: bool) -> Step:
    values = [value for each in known for value in _two(each, runs)]
    text = clock_time(at, zone, visit.now) if at > visit.now - 300 * DAY else ""
    when = text.rpartition(" ")[0] or "today" if by_day else text.removesuffix(":00")
    return Step(at // SECOND, when, len(runs), [*values, _success(runs)])


def _two(measure: Measure, runs: Iterable[Run]) -> Sequence[Value]:
    """Return the median and the 95th percentile."""
    found = sorted(value for run in runs if (value := measure.value(run)) is not None)
    if not found:
        return [Value("", "")] * 2
    unit = SECOND if measure.unit == "s" else 1
    return [Value(measure.say(each), f"{each / unit:g}") for each in (_reached(found, 50), _reached(found, 95))]


def _reached(ordered: Sequence[int], percent: int) -> int:
    return ordered[-(-len(ordered) * percent // 100) - 1]


def _success(runs: Sequence[Run]) -> Value:
    good, bad = (sum(run.state is state for run in runs) for state in (RunState.SUCCEEDED, RunState.FAILED))
    if good + bad == 0:
        return Value("", "")
    return Value(f"{100 * good / (good + bad):.3g} %", f"{100 * good / (good + bad):.4g}")


def _curves(known: Sequence[Measure], runs: Sequence[Run]) -> Sequence[Curve]:
    return [
        Curve(each.name, each.unit, 2 * number, "median, and 95 of 100", _change(each, runs))
        for number, each in enumerate(known)
    ]


def _change(measure: Measure, runs: Sequence[Run]) -> str:
    """Return how the newest quarter of the runs differs from the oldest one, in words; empty for too few."""
    values = [value for run in runs if (value := measure.value(run)) is not None]
    quarter = len(values) // 4
    if quarter < 2:
        return ""
    after, before = round(median(values[:quarter])), round(median(values[-quarter:]))
    if abs(after - before) <= _NOTED * max(before, 1):
        return "about the same as at first"
    less = {"longer": "shorter", "later": "less late", "more": "less"}[measure.more]
    return f"{measure.more if after > before else less} than at first: {measure.say(before)} → {measure.say(after)}"
