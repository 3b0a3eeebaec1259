"""Proof of what a soak has left: what is missed, begun against its job's word, or beyond a limit. Pure.

It reckons every occurrence itself, and believes the attempts' own lines: no word of a store proves itself.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.cluster import witness
from tokimori.clock import SECOND, Moment, format_moment
from tokimori.model import settle
from tokimori.model.run import Run, Skip, SkipReason
from tokimori.model.transitions import RunState
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import each_moment

QUIET = 60 * SECOND
"""A job that has fired nothing for so long at the end has fallen silent; `stuck` comes more rarely than the others."""
LAG = 30 * SECOND
"""Moments may be decided so much later than they are due, on a machine that is too busy."""
NEVER_AGAIN = ("charge", "bill")
"""Jobs that allow no lost attempt: the first is a function, the second a command."""
TOO_LONG = ("stuck",)
"""Jobs whose every run takes longer than it may."""
FULL = {"two": SkipReason.FULL, "paint": SkipReason.FULL, "heavy": SkipReason.OVERLAP, "light": SkipReason.OVERLAP}
"""Jobs that may leave out occurrences while as many runs as their limits allow are there, and as which reason."""


@dataclass(frozen=True, slots=True)
class Account:
    """All that is known of one job whose schedule was taken away between `asked` and `acknowledged`."""

    name: str
    schedule: str
    created: Moment
    asked: Moment
    acknowledged: Moment
    runs: Sequence[Run] = ()
    skips: Sequence[Skip] = ()


Spans = Sequence[tuple[Moment, Moment]]


def broken(accounts: Sequence[Account], lines: Sequence[Sequence[str]], spans: Spans) -> list[str]:
    """Return every broken promise. `spans`: from when to when occurrences may be skipped, as nobody knew the time."""
    found = [fault for each in accounts for fault in (*_occurrences(each), *_skips(each, spans), *_ends(each))]
    return found + list(_starts({run.id: run for each in accounts for run in each.runs}, lines))


def _occurrences(job: Account) -> Iterator[str]:
    """Yield occurrences until the schedule went away that are not one run, or skipped once; and runs of none."""
    schedule, count = parse_schedule(job.schedule), Counter(run.nominal for run in job.runs)
    skipped = [each for skip in job.skips for each in each_moment(schedule, Moment(skip.first - 1), skip.last)]
    kept = count.keys() | set(skipped)
    missed = [each for each in each_moment(schedule, job.created, job.asked) if each not in kept]
    if missed:
        yield f"{job.name}: {len(missed)} occurrences are neither run nor skip, the first {format_moment(missed[0])}"
    yield from (f"{job.name}: {runs} runs at {format_moment(each)}" for each, runs in count.items() if runs > 1)
    for moment in count:
        if schedule.next_after(Moment(moment - 1)) != moment:
            yield f"{job.name}: a run at {format_moment(moment)}, which is no occurrence"
    told, left = sum(skip.count for skip in job.skips), sum(not count[each] for each in skipped)
    if told != left:
        yield f"{job.name}: {told} occurrences are said to be skipped, and {left} are"
    newest = max((each for each in count if each <= job.acknowledged), default=Moment(0))
    if newest < job.acknowledged - QUIET:
        yield f"{job.name}: nothing has fired for {(job.acknowledged - newest) / SECOND:.0f} s"


def _skips(job: Account, spans: Spans) -> Iterator[str]:
    """Yield the skips that no limit explains, nor a wrong clock or an outage, nor the end of the schedule."""
    for skip in job.skips:
        while_wrong = any(first - LAG <= skip.first and skip.last <= last for first, last in spans)
        at_the_end = job.asked - LAG < skip.first and skip.last <= job.acknowledged
        explained = (
            while_wrong or at_the_end if skip.reason is SkipReason.MISFIRE else skip.reason is FULL.get(job.name)
        )
        if not explained:
            yield f"{job.name}: {skip.count} left out from {format_moment(skip.first)}: {skip.reason}"


def _ends(job: Account) -> Iterator[str]:
    """Yield the runs that have not ended as those of this job may."""
    may = {RunState.FAILED} if job.name in TOO_LONG else {RunState.SUCCEEDED}
    for run in job.runs:
        is_lost = job.name in NEVER_AGAIN and run.state is RunState.FAILED and settle.NEVER_AGAIN in (run.error or "")
        if run.state not in may and not is_lost:
            yield f"run {run.id} of {job.name} is {run.state}: {run.error}"


def _starts(runs: Mapping[str, Run], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Compare what the store says with what the attempts wrote themselves."""
    began = Counter((run, int(attempt)) for word, _, run, attempt, *_ in lines if word == witness.BEGAN)
    ended = {(run, int(attempt)) for word, _, run, attempt, *_ in lines if word == witness.ENDED}
    for (run_id, attempt), count in began.items():
        if count > 1:
            yield f"run {run_id}: attempt {attempt} began {count} times"
        if run_id not in runs or attempt > runs[run_id].attempt:
            yield f"run {run_id}: attempt {attempt} began, and the store knows nothing of it"
    begun = Counter(run for run, _ in began)
    for run in runs.values():
        if run.job_id in NEVER_AGAIN and begun[run.id] > 1:
            yield f"run {run.id} of {run.job_id} began {begun[run.id]} times against its word"
        if run.state is RunState.SUCCEEDED and (run.id, run.attempt) not in ended:
            yield f"run {run.id} of {run.job_id} succeeded, and its attempt {run.attempt} never ended"
    yield from (" ".join(line) for line in lines if line[0] == witness.EXCEEDED)
