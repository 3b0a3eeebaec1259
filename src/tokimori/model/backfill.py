"""Backfills: runs for past occurrences that have none. Pure.

A backfill makes the oldest missing runs first, and only as many as there is room for. So two callers at once, or a
second one after an interruption, make the same runs next: the origin keeps each from being made twice, and the room is
never exceeded.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment, format_moment
from tokimori.errors import InvalidInput
from tokimori.model.job import Job
from tokimori.model.run import Run, backfill_origin, scheduled_origin
from tokimori.model.transitions import ACTIVE, RunState
from tokimori.schedules.counting import count_until
from tokimori.schedules.schedule import Schedule, each_moment

MOST_BACKFILLED = 1_000_000
"""How many occurrences one backfill may name."""


class LeftOutReason(StrEnum):
    """Reasons why a backfill makes no run for an occurrence."""

    HAS_RUN = "it has a run"
    NOT_DECIDED = "it is still to be fired"


class LeftOut(Struct, frozen=True, kw_only=True):
    """An occurrence for which a backfill makes no run, the reason, and the run that it has already, if it has one."""

    nominal: Moment
    reason: LeftOutReason
    run: Run | None = None


class Backfill(Struct, frozen=True, kw_only=True):
    """The occurrences from `first` to `last`, both included, oldest first, and how far their backfill is.

    `missing` have no run, `runs` were made by a backfill, `left_out` need none from it.
    """

    job: Job
    first: Moment
    last: Moment
    missing: Sequence[Moment]
    runs: Sequence[Run]
    left_out: Sequence[LeftOut]

    @property
    def active(self) -> int:
        """Return the number of its runs that are waiting or running; held ones do not count."""
        return sum(run.state in ACTIVE for run in self.runs)

    @property
    def states(self) -> Mapping[RunState, int]:
        """Return the number of its runs by state."""
        return Counter(run.state for run in self.runs)


def backfill_of(job: Job, first: Moment, last: Moment, moments: Sequence[Moment], runs: Iterable[Run]) -> Backfill:
    """Return the backfill of these occurrences, given these runs of the job."""
    known = {run.origin: run for run in runs}
    made = [known[origin] for moment in moments if (origin := backfill_origin(moment)) in known]
    missing: list[Moment] = []
    left_out: list[LeftOut] = []
    for moment in moments:
        fired = known.get(scheduled_origin(moment))
        if fired is not None:
            left_out.append(LeftOut(nominal=moment, reason=LeftOutReason.HAS_RUN, run=fired))
        elif moment > job.fired_through:
            left_out.append(LeftOut(nominal=moment, reason=LeftOutReason.NOT_DECIDED))
        elif backfill_origin(moment) not in known:
            missing.append(moment)
    return Backfill(job=job, first=first, last=last, missing=missing, runs=made, left_out=left_out)


def together(parts: Sequence[Backfill]) -> Backfill:
    """Return one backfill of several that follow one another."""
    return replace(
        parts[0],
        missing=[moment for part in parts for moment in part.missing],
        runs=[run for part in parts for run in part.runs],
        left_out=[each for part in parts for each in part.left_out],
    )


def after_making(backfill: Backfill, made: Sequence[Run]) -> Backfill:
    """Return the same once these runs of it, the oldest that were missing, are made."""
    runs = sorted(chain(backfill.runs, made), key=lambda run: run.nominal)
    return replace(backfill, missing=backfill.missing[len(made) :], runs=runs)


def next_to_make(backfill: Backfill, max_running: int) -> Sequence[Moment]:
    """Return the moments to run now, so that at most `max_running` of the backfill's runs are active; 0 = unlimited."""
    return backfill.missing[: max(0, max_running - backfill.active)] if max_running else backfill.missing


def occurrences(schedule: Schedule, first: Moment, last: Moment, most: int = MOST_BACKFILLED) -> Iterator[Moment]:
    """Yield the occurrences in the range. Raises `InvalidInput` for a range that is empty, or names over `most`."""
    if last < first:
        raise InvalidInput(
            f"to: {format_moment(last)} (now, if nothing else is said) is before `from`",
            field="to",
            value=format_moment(last),
            allowed="the moment of `from`, or later",
        )
    before = at = Moment(first - 1)
    number = 0
    while at < last and number <= most:
        counted, at = count_until(schedule, at, last, lambda: True)
        number += counted
    if number > most:
        message = f"to: there are {'over ' if at < last else ''}{number} occurrences from `from` to here"
        allowed = f"a range of at most {most}; ask for the next ones then"
        raise InvalidInput(message, field="to", value=format_moment(last), allowed=allowed)
    return each_moment(schedule, before, last)
