"""What the company's jobs did before the last morning, as rows of runs."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from docs.pictures.company import DAWN, FIRST, NOW, Part, Play, Turn, play
from tokimori.clock import HOUR, SECOND, Moment
from tokimori.model.cause import cause_and_line
from tokimori.model.dependents import root_of
from tokimori.model.ids import JobId, NodeId, RunId, Token, uuid7
from tokimori.model.job import Job, JobState, schedule_of
from tokimori.model.lanes import rank_of
from tokimori.model.outcome import Failed
from tokimori.model.run import Attempt, Details, Output, Run, child_origin, scheduled_origin, times_since
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Kind
from tokimori.ports.store import Store
from tokimori.schedules.schedule import each_moment

ROWS: Final = 2_000
PAUSED: Final = frozenset({"mail-suppression-sync", "search-synonyms", "shop-price-rules"})
Random = Callable[[int], bytes]


async def skip_past(store: Store, parts: Iterable[str]) -> None:
    """Let the jobs go on from the last morning."""
    for job_id in parts:
        job = await store.get_job(JobId(job_id))
        if job.state is JobState.ENABLED and job.definition.schedule is not None:
            upcoming = schedule_of(job.definition, job.anchor, job.id, job.days_off).next_after(DAWN)
            await store.replace_job(job, replace(job, version=job.version + 1, fired_through=DAWN, next_due=upcoming))


async def write_past(store: Store, parts: Mapping[str, Part], nodes: Sequence[NodeId], chance: Random) -> None:
    """Write the runs of all jobs."""
    runs: dict[str, dict[str, Run]] = {}
    for job_id, part in parts.items():
        job = await store.get_job(JobId(job_id))
        runs[job_id] = {}
        rows: list[tuple[Run, Output]] = []
        for number, (nominal, due, parent) in enumerate(_moments(job, part, runs)):
            run, output = _run(job, part, nominal, due, parent, nodes[number % len(nodes)], chance)
            runs[job_id][root_of(run)] = run
            rows.append((run, output))
        await _write(store, rows)


def _moments(
    job: Job, part: Part, runs: Mapping[str, Mapping[str, Run]]
) -> Iterator[tuple[Moment, Moment, Run | None]]:
    """Yield the nominal and the due time of each run, and the run after which it was made."""
    if job.definition.schedule is not None:
        until = job.updated if job.id in PAUSED else DAWN
        for moment in each_moment(schedule_of(job.definition, job.anchor, job.id, job.days_off), job.created, until):
            yield moment, moment, None
        return
    before = [runs[each["job"]] for each in part.fields["parents"]]
    for root, first in before[0].items():
        parents = [each[root] for each in before if root in each]
        if len(parents) == len(before) and all(each.state is RunState.SUCCEEDED for each in parents):
            latest = max(each.ended or each.due for each in parents)
            if latest < DAWN:
                yield latest, latest, first


def _run(  # noqa: PLR0917
    job: Job, part: Part, nominal: Moment, due: Moment, parent: Run | None, node: NodeId, chance: Random
) -> tuple[Run, Output]:
    how = play(Turn(job.id, nominal, due), part.seconds)
    began = Moment(due + 60_000 + 3_000 * (sum(chance(1)) % 200))
    run_id = RunId(uuid7(due, chance))
    output = written(run_id, 1, began, how, how.seconds)
    failed = how.outcome if isinstance(how.outcome, Failed) else None
    cause, line = (
        (None, None) if failed is None else cause_and_line("failed", failed.exit_code, None, failed.error, output)
    )
    run = Run(
        id=run_id,
        job_id=job.id,
        incarnation=job.incarnation,
        origin=scheduled_origin(nominal) if parent is None else child_origin(parent.id),
        nominal=nominal,
        due=due,
        state=RunState.SUCCEEDED if failed is None else RunState.FAILED,
        priority=0,
        rank=rank_of(due, 0),
        lane=None,
        created=due,
        attempt=1,
        failures=0 if failed is None else 1,
        token=Token(1),
        node_id=node,
        pid=4_000 + sum(chance(2)),
        started=began,
        ended=Moment(began + round(how.seconds * SECOND)),
        exit_code=0 if failed is None else failed.exit_code,
        error=None if failed is None else failed.error,
        details=Details(cause=cause, line=line),
        parent_id=None if parent is None else parent.id,
        root=None if parent is None else root_of(parent),
        cpu=round(how.seconds * SECOND * 0.4),
        memory=memory_of(part.job_id, due),
    )
    return run, output


def memory_of(job_id: str, due: Moment) -> int:
    """Return the bytes that a run of the job takes at its peak, a little more each day."""
    chance = random.Random(f"{job_id} {due}")  # noqa: S311  a picture wants the same
    return round(2**20 * (40 + 8 * len(job_id) + 30 * (due - FIRST) / (NOW - FIRST)) * chance.uniform(0.95, 1.1))


async def _write(store: Store, rows: Sequence[tuple[Run, Output]]) -> None:
    """Write runs, and of the failed and the late ones what they have written."""
    for first in range(0, len(rows), ROWS):
        some = rows[first : first + ROWS]
        kept = [(run, output) for run, output in some if run.state is RunState.FAILED or run.due > DAWN - 24 * HOUR]
        await store.import_rows(Kind.HISTORY, [run for run, _ in some])
        await store.import_rows(Kind.ATTEMPTS, [_attempt(run) for run, _ in kept if run.state is RunState.FAILED])
        await store.import_rows(Kind.OUTPUTS, [output for _, output in kept])


def _attempt(run: Run) -> Attempt:
    return Attempt(
        run_id=run.id,
        number=1,
        token=run.token,
        node_id=run.node_id,
        outcome="failed",
        pid=run.pid,
        started=run.started,
        ended=run.ended,
        exit_code=run.exit_code,
        error=run.error,
    )


def written(run_id: RunId, attempt: int, began: Moment, how: Play, elapsed: float, *, ended: bool = True) -> Output:
    """Return what an attempt has written after so many seconds, with the time of each line."""
    lines = [(round(at * 1000), f"{text}\n".encode()) for at, text in how.lines if at <= elapsed]
    body, marks, before, length = b"".join(text for _, text in lines), b"", 0, 0
    for at, text in lines:
        marks += _number(length) + _number(at - before)
        before, length = at, len(text)
    head, tail = (body, b"") if ended else (b"", body)
    times = times_since(began, marks)
    return Output(run_id=run_id, attempt=attempt, size=len(body), head=head, tail=tail, times=times)


def _number(number: int) -> bytes:
    """Return a number as groups of seven bits, all but the last one above 127."""
    groups = [number & 127]
    while number := number >> 7:
        groups.append(number & 127)
    return bytes([*(each | 128 for each in groups[:-1]), groups[-1]])
