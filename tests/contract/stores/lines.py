"""What must hold of limits, keys and semaphores at any moment, as far as people can see it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tokimori.model.ids import Incarnation, NodeId
from tokimori.model.job import Job, limit_of
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, semaphore_of, wanted
from tokimori.model.transitions import RunState
from tokimori.ports.semaphores import Semaphore, UnitRequest


def check_lines(
    jobs: Iterable[Job],
    runs: Sequence[Run],
    semaphores: Iterable[Semaphore],
    alive: Iterable[NodeId],
    programs: Sequence[UnitRequest] = (),
) -> None:
    """Nothing is leaked, and nobody waits while there is room and nobody is before it; `programs` stand in line."""
    by_life = {job.incarnation: job for job in jobs}
    for run in runs:
        assert run.blocked_on is None or run.state is RunState.BLOCKED, "only who is blocked stands in a line"
    _check_limits(by_life, runs)
    _check_keys(by_life, runs)
    for semaphore in semaphores:
        _check_permits(semaphore, runs, set(alive))
        _check_line(by_life, semaphore, runs, [each for each in programs if each.semaphore == semaphore.name])


def _check_limits(jobs: Mapping[Incarnation, Job], runs: Sequence[Run]) -> None:
    """A run waits for its job's limit only while as many run, or another one was woken in its place."""
    running = Counter(run.incarnation for run in runs if run.state is RunState.RUNNING)
    woken = {run.incarnation for run in runs if run.state is RunState.READY}
    for life in {run.incarnation for run in runs if run.state is RunState.BLOCKED and run.blocked_on is None}:
        limit = limit_of(jobs[life].definition)
        assert life in woken or (limit and running[life] >= limit), "a run waits though its job has room"


def _check_keys(jobs: Mapping[Incarnation, Job], runs: Sequence[Run]) -> None:
    """A run waits for its key only while as many of it run, or another one was woken in its place."""
    running = Counter((run.incarnation, run.concurrency_key) for run in runs if run.state is RunState.RUNNING)
    woken = {(run.incarnation, run.concurrency_key) for run in runs if run.state is RunState.READY}
    for life, key in {(run.incarnation, run.concurrency_key) for run in runs if run.blocked_on == KEY_LINE}:
        full = running[life, key] >= jobs[life].definition.max_running_per_key
        assert full or (life, key) in woken, "a run waits though its key has room"


def _check_permits(semaphore: Semaphore, runs: Sequence[Run], alive: set[NodeId]) -> None:
    """Each unit is held by a running run, with the token of its claim, or by a program whose node lives."""
    running = {run.id: run for run in runs if run.state is RunState.RUNNING}
    assert semaphore.used == sum(permit.weight for permit in semaphore.holders)
    for permit in semaphore.holders:
        if permit.run_id is None:
            assert permit.node in alive, "a dead session holds units"
            continue
        assert permit.run_id in running, "a run that does not run holds units"
        run = running[permit.run_id]
        assert (permit.node, permit.token) == (run.node_id, run.token)


def _check_line(
    jobs: Mapping[Incarnation, Job], semaphore: Semaphore, runs: Sequence[Run], programs: Sequence[UnitRequest]
) -> None:
    """The head of each lane waits for units, for a program before it, or for a run that was woken in its place."""
    first = min((program.rank for program in programs), default=None)
    line = [run for run in runs if semaphore_of(run.blocked_on) == semaphore.name]
    for lane in {run.lane for run in line}:
        head = min((run for run in line if run.lane == lane), key=lambda run: (run.rank, run.id))
        fits = semaphore.used + _weight(jobs, head, semaphore.name) <= semaphore.limit
        ready = (run for run in runs if run.state is RunState.READY and run.lane == lane)
        woken = any(_weight(jobs, run, semaphore.name) for run in ready)
        behind = first is not None and first <= head.rank
        assert not fits or woken or behind, "a run waits though there are units"


def _weight(jobs: Mapping[Incarnation, Job], run: Run, name: str) -> int:
    job = jobs.get(run.incarnation)
    return 0 if job is None else dict(wanted(job.definition.semaphores)).get(name, 0)


def no_more_than(before: Mapping[str, int], semaphores: Iterable[Semaphore]) -> dict[str, int]:
    """How many units are held now: more than the limit only where more were held before, which was lowered since."""
    for each in semaphores:
        assert each.used <= max(each.limit, before.get(each.name, 0)), "more units are held than there are"
    return {each.name: each.used for each in semaphores}
