"""W8: what the next moment of a cron expression costs: read and first moment, then one after the other."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from itertools import islice
from statistics import median
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from benchmarks.comparison import TOKIMORI, AtLeast, Figures, Quantity, Round, Trial
from tokimori.clock import SECOND, from_datetime
from tokimori.schedules.parse import parse_schedule

FIRST, COLD, NEXT, WORST = "read + first", "read + first, nothing known", "next", "next, the slowest"
PEERS = ("cronsim", "croniter", "APScheduler 3")
CHUNKS = 5
"""How often the contenders alternate within a round; their middle chunk counts."""
AFTER = datetime(2026, 1, 5, 0, 31, 7, tzinfo=UTC)
ZONE_FILES = ("zone_info", "_names")
"""The memories of what the package tzdata holds: zoneinfo, with which the peers reckon, keeps the same."""
ASKED = 9
"""How many moments of each contender are compared: all those of 29 February that croniter knows."""


class Line(NamedTuple):
    """An expression in a zone. `moments`: how many are asked for one after the other; `peers`: who reads it alike."""

    text: str
    zone: str
    moments: int
    peers: Sequence[str] = PEERS


LINES = (
    Line("*/5 * * * *", "UTC", 1_000),
    Line("0 9 * * 1-5", "UTC", 1_000),
    Line("0 0 29 2 *", "UTC", ASKED),
    Line("30 2 * * *", "Europe/Paris", 1_000),
    Line("*/20 9-17 * 1-6 1-5", "America/New_York", 1_000),
    Line("0 3 1 1 *", "Asia/Tokyo", 2 * ASKED),
    Line("0 0 L * *", "UTC", 100, PEERS[:2]),
    Line("0 9 * * 1#2", "Europe/Paris", 100, PEERS[:2]),
    Line("0 0 13 * 5", "UTC", 100, PEERS[:2]),
)


class Contender(Protocol):
    """Reads an expression; the iterator gives its moments after `AFTER`, in whatever form is the fastest one here."""

    def __call__(self, line: Line, /) -> Iterator[object]: ...


def tokimori(line: Line) -> Iterator[int]:
    """Microseconds."""
    schedule = parse_schedule(line.text, zone=line.zone)
    moment = from_datetime(AFTER)
    while (found := schedule.next_after(moment)) is not None:
        yield found
        moment = found


def cronsim(line: Line) -> Iterator[datetime]:
    """Aware datetimes."""
    from cronsim import CronSim

    return CronSim(line.text, AFTER.astimezone(ZoneInfo(line.zone)))


def croniter(line: Line) -> Iterator[float]:
    """Seconds: its own form."""
    from croniter import croniter

    moments: Iterator[float] = croniter(line.text, AFTER.astimezone(ZoneInfo(line.zone)))
    return moments


def apscheduler(line: Line) -> Iterator[datetime]:
    """Aware datetimes. Its numbers of weekdays begin with Monday = 0, so they get their names."""
    from apscheduler.triggers.cron import CronTrigger

    trigger = CronTrigger.from_crontab(line.text.replace("1-5", "mon-fri"), timezone=ZoneInfo(line.zone))
    previous, now = None, AFTER
    while (found := trigger.get_next_fire_time(previous, now)) is not None:
        yield found
        previous = now = found


CONTENDERS: Mapping[str, Contender] = dict(
    zip((TOKIMORI, *PEERS), (tokimori, cronsim, croniter, apscheduler), strict=True)
)


def _round(line: Line, repeat: int, _: int) -> Round:
    """They alternate in small chunks of CPU time, so that a process which gets in between hardly counts."""
    contenders = {name: CONTENDERS[name] for name in (TOKIMORI, *line.peers)}
    _check(line, contenders)
    chunks: dict[str, list[Figures]] = {name: [] for name in contenders}
    for _chunk in range(CHUNKS):
        for name, contender in contenders.items():
            chunks[name].append(
                {
                    FIRST: _first(contender, line, repeat, forget=None),
                    COLD: _first(contender, line, repeat, forget=_forget),
                    NEXT: _next(contender, line, repeat),
                }
            )
    return {name: {**_middle(chunks[name]), WORST: _slowest(contenders[name], line)} for name in contenders}


def _middle(figures: Sequence[Figures]) -> Figures:
    return {name: median(each[name] for each in figures) for name in figures[0]}


def _first(contender: Contender, line: Line, repeat: int, *, forget: Callable[[], None] | None) -> float:
    spent = 0
    for _ in range(repeat):
        if forget is not None:
            forget()
        began = time.process_time_ns()
        next(contender(line))
        spent += time.process_time_ns() - began
    return spent / repeat / 1000


def _next(contender: Contender, line: Line, repeat: int) -> float:
    spent = taken = 0
    while taken < repeat:
        moments = contender(line)
        next(moments)
        began = time.process_time_ns()
        taken += sum(1 for _ in islice(moments, line.moments - 1))
        spent += time.process_time_ns() - began
    return spent / taken / 1000


def _slowest(contender: Contender, line: Line) -> float:
    """The moment that takes longest, each at its best of several walks: a process that gets in between hits others."""
    walks = [_walked(contender, line) for _ in range(CHUNKS)]
    slowest: int = max(min(spent) for spent in zip(*walks, strict=True))
    return slowest / 1000


def _walked(contender: Contender, line: Line) -> list[int]:
    """The nanoseconds that each moment but the first takes."""
    moments, spent = contender(line), []
    next(moments)
    for _ in range(line.moments - 1):
        began = time.perf_counter_ns()
        next(moments)
        spent.append(time.perf_counter_ns() - began)
    return spent


def _forget() -> None:
    """Empty Tokimori's memory of texts, days and zones; the peers have none. Zone files stay read, on both sides."""
    for memory in _memories():
        memory.cache_clear()


@cache
def _memories() -> Sequence[Any]:
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("tokimori.schedules.")]
    found = {name: value for module in modules for name, value in vars(module).items() if hasattr(value, "cache_clear")}
    return [memory for name, memory in found.items() if name not in ZONE_FILES]


def _check(line: Line, contenders: Mapping[str, Contender]) -> None:
    """Speed is compared only where the answers are the same."""
    answers = {name: [_seconds(m) for m in islice(each(line), ASKED)] for name, each in contenders.items()}
    assert len(set(map(tuple, answers.values()))) == 1, f"{line.text} means different moments: {answers}"


def _seconds(moment: object) -> float:
    match moment:
        case datetime():
            return moment.timestamp()
        case int():
            return moment / SECOND
        case _:
            return float(str(moment))


def trials(quick: bool) -> Sequence[Trial]:
    """One for each expression."""
    repeat = 100 if quick else 1_000
    return [
        Trial(
            title=f"µs per moment of `{line.text}` in {line.zone}",
            quantities=[Quantity(name, "µs") for name in (FIRST, COLD, NEXT, WORST)],
            targets=[
                AtLeast(name, peer, times) for name, times in ((FIRST, 2), (COLD, 1), (NEXT, 2)) for peer in line.peers
            ],
            measure=partial(_round, line, repeat),
        )
        for line in LINES
    ]
