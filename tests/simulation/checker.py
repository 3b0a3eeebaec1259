"""What must hold once a cluster has come to rest, whatever happened to it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tests.cluster.checker import Interval, most_held
from tests.simulation.cluster import EVERYTHING, UNITS, Cluster
from tests.simulation.executor import Execution
from tests.simulation.policies import judged, ledger_of
from tokimori.clock import Moment
from tokimori.model.decide import REPLACED
from tokimori.model.dependents import follows
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.job import Job, JobState, limit_of, schedule_of
from tokimori.model.lease import DEAD_AFTER
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.run import Attempt, Run, Skip
from tokimori.model.semaphores import wanted
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter
from tokimori.schedules.schedule import next_moments


@dataclass(frozen=True, slots=True)
class Evidence:
    """The ledger of one job, and what its processes really did."""

    job: Job
    runs: Sequence[Run]
    skips: Sequence[Skip]
    attempts: dict[RunId, dict[Token, Attempt]]
    executions: dict[RunId, list[Execution]]


async def faults_of(cluster: Cluster) -> list[str]:
    """Every broken promise, one sentence each."""
    faults: list[str] = []
    everything: dict[JobId, Evidence] = {}
    for job in await cluster.store.list_jobs():
        evidence = await _evidence(cluster, job)
        faults += _occurrences(evidence)
        faults += _policies(evidence, cluster)
        for run in evidence.runs:
            faults += _run(evidence, run, cluster)
        faults += _limit(evidence)
        faults += _keys(evidence)
        everything[job.id] = evidence
    faults += _semaphores(everything.values())
    faults += _children(everything)
    faults += await _leaks(cluster)
    silences = (silence for silence in cluster.store.silences if silence < DEAD_AFTER - 1e-6)
    faults += [f"a node was declared dead after {silence} s" for silence in silences]
    return faults + list(_orders(cluster))


async def _evidence(cluster: Cluster, job: Job) -> Evidence:
    store = cluster.store
    runs = await store.list_runs(RunFilter(job_id=job.id, limit=EVERYTHING))
    executions: dict[RunId, list[Execution]] = defaultdict(list)
    for execution in cluster.log.executions:
        executions[execution.task.run_id].append(execution)
    attempts = {run.id: {row.token: row for row in await store.attempts(run.id)} for run in runs}
    return Evidence(job, runs, await store.skips(job.id, limit=EVERYTHING), attempts, executions)


def _occurrences(evidence: Evidence) -> Iterator[str]:
    """Every occurrence is one run or in one skip."""
    job = evidence.job
    if job.definition.parents:
        return
    expected = _moments(job)
    found: list[Moment] = [run.nominal for run in evidence.runs if run.origin.startswith("s:")]
    for skip in evidence.skips:
        covered = [moment for moment in expected if skip.first <= moment <= skip.last]
        found += covered
        if len(covered) != skip.count:
            yield f"{job.id}: a skip counts {skip.count} occurrences, there are {len(covered)}"
    if sorted(found) != expected:
        missing, more = set(expected) - set(found), sorted(found)
        yield f"{job.id}: missing {sorted(missing)}, doubled {[m for m in set(more) if more.count(m) > 1]}"
    if job.state is not JobState.FINISHED:
        yield f"{job.id} is {job.state}"


def _moments(job: Job) -> list[Moment]:
    return next_moments(schedule_of(job.definition, job.anchor, job.id), job.anchor, EVERYTHING)


def _policies(evidence: Evidence, cluster: Cluster) -> Iterator[str]:
    """Each occurrence became what schedule and policies say (rule 4), none was decided during a pause.

    And each scheduled run that a newer one replaced went no further, and no other was cancelled for it.
    """
    job = evidence.job
    if job.definition.parents:
        return
    moments, decisions = _moments(job), [each for each in cluster.store.decisions if each.job_id == job.id]
    told = judged(moments, ledger_of(moments, evidence.runs, evidence.skips), decisions)
    yield from told.faults
    claims = {taken.run_id: taken.at for taken in cluster.store.taken}
    for run in evidence.runs:
        replaced = told.replaced.get(run.id)
        if run.error == REPLACED and replaced is None:
            yield f"{job.id}: run {run.id} was replaced, and no newer one was to take its place"
        if replaced is not None and run.state not in (RunState.SUCCEEDED, RunState.CANCELLED):
            yield f"{job.id}: run {run.id} was replaced at second {replaced}, and is {run.state}"
        if replaced is not None and claims.get(run.id, 0.0) > replaced:
            yield f"{job.id}: run {run.id} was replaced at second {replaced}, and claimed at {claims[run.id]}"
    for name, start, end in cluster.orders.paused:
        if name == job.id and any(each.planned and start < each.at < end for each in decisions):
            yield f"{job.id}: it was paused from second {start} to {end}, and fired meanwhile"


def _run(evidence: Evidence, run: Run, cluster: Cluster) -> Iterator[str]:
    """A run ends; it began again only when the attempt before was lost, given back or retried; and never early."""
    name, retry = f"{run.job_id} {run.origin} ({run.id})", evidence.job.definition.retry
    rows, executions = evidence.attempts[run.id], evidence.executions.get(run.id, [])
    if run.state not in ENDS:
        yield f"{name} is {run.state}"
    most_lost = inf if retry.lost_attempts == "unlimited" else retry.lost_attempts
    if run.failures > retry.attempts or run.lost > most_lost + 1:
        yield f"{name} failed {run.failures} times and was lost {run.lost} times"
    if run.state is RunState.FAILED and run.failures < retry.attempts and run.lost <= most_lost:
        yield f"{name} failed with a retry left: {run.error}"
    tokens = [execution.task.token for execution in executions]
    if len(set(tokens)) < len(tokens) or any(token > run.token for token in tokens):
        yield f"{name} was started with the tokens {tokens}, the last one is {run.token}"
    for execution in executions:
        row = rows.get(execution.task.token)
        yield from _execution(name, run, execution, row)
        if retry.once_begun and execution.task.token < run.token and (row is None or row.outcome != "failed"):
            yield f"{name} was begun again against its word, after {'nothing' if row is None else row.outcome}"
        if cluster.orders.jumps:
            continue
        if execution.at < run.nominal:
            yield f"{name} began at {execution.at}, before {run.nominal}"
        if row is not None and row.outcome == "lost" and row.ended is not None and execution.at > row.ended:
            yield f"{name} began at {execution.at}, after it was given up at {row.ended}"


def _execution(name: str, run: Run, execution: Execution, row: Attempt | None) -> Iterator[str]:
    token, outcome = execution.task.token, execution.outcome
    if token < run.token and row is None:
        yield f"{name} began with token {token} and later again, and no attempt says why"
    if token < run.token and row is not None and row.outcome == "succeeded":
        yield f"{name} succeeded with token {token} and was begun again"
    if token == run.token and (run.state is RunState.SUCCEEDED) != isinstance(outcome, Succeeded):
        accounted = row is not None and row.outcome in ("lost", "cancelled", "released", "failed")
        if run.state is RunState.SUCCEEDED or not accounted:
            yield f"{name} is {run.state}, and its process {outcome}"
    if row is not None and row.outcome == "failed" and not isinstance(outcome, Failed):
        yield f"{name}: attempt {row.number} is written down as failed, and was {outcome}"


def _limit(evidence: Evidence) -> Iterator[str]:
    """Where a limit is stated, no more processes than that were there at any moment."""
    definition = evidence.job.definition
    if not definition.max_running:
        return
    most = most_held(_intervals(evidence, evidence.runs))
    if most.units > limit_of(definition):
        yield f"{evidence.job.id}: {most.units} processes at second {most.at}"


def _keys(evidence: Evidence) -> Iterator[str]:
    """Nor were there more of one concurrency key."""
    for key in {run.concurrency_key for run in evidence.runs} - {None}:
        most = most_held(_intervals(evidence, [run for run in evidence.runs if run.concurrency_key == key]))
        if most.units > evidence.job.definition.max_running_per_key:
            yield f"{evidence.job.id}: {most.units} processes of the key {key} at second {most.at}"


def _semaphores(everything: Iterable[Evidence]) -> Iterator[str]:
    """Nor did processes of all jobs together hold more units than there are."""
    held: dict[str, list[Interval]] = defaultdict(list)
    for evidence in everything:
        for name, weight in wanted(evidence.job.definition.semaphores):
            held[name] += _intervals(evidence, evidence.runs, weight)
    for name, intervals in held.items():
        most = most_held(intervals)
        if most.units > UNITS[name]:
            yield f"{most.units} units of {name} were held at second {most.at}"


def _intervals(evidence: Evidence, runs: Iterable[Run], weight: int = 1) -> list[Interval]:
    """When processes of these runs were there."""
    executions = (execution for run in runs for execution in evidence.executions.get(run.id, []))
    return [Interval(each.began, each.ended or float("inf"), weight) for each in executions]


def _children(everything: Mapping[JobId, Evidence]) -> Iterator[str]:
    """Each end of a parent that its child asks for is one run of the child, or a skip of a paused one, never before."""
    for child in everything.values():
        parents = {parent.job: parent.on for parent in child.job.definition.parents}
        if not parents:
            continue
        ended = {
            run.id: run
            for name, on in parents.items()
            for run in everything[JobId(name)].runs
            if follows(on, run.state)
        }
        born = Counter(run.parent_id for run in child.runs if run.origin.startswith("c:"))
        skipped = sum(skip.count for skip in child.skips)
        if len(ended) != len(born) + skipped or max(born.values(), default=1) > 1:
            yield f"{child.job.id}: {len(ended)} ends of parents are {sum(born.values())} runs and {skipped} skips"
        for run in child.runs:
            parent = None if run.parent_id is None else ended.get(run.parent_id)
            if run.origin.startswith("c:") and (parent is None or run.created < (parent.ended or run.created)):
                yield f"{child.job.id}: run {run.id} has no parent that ended before it"


async def _leaks(cluster: Cluster) -> list[str]:
    """Nothing is held, and nobody waits, when all has come to rest."""
    found = await cluster.store.list_semaphores()
    return [
        f"{each.used} units of {each.name} are held, {each.waiting} wait" for each in found if each.used or each.waiting
    ]


def _orders(cluster: Cluster) -> Iterator[str]:
    """What was cancelled or paused is not claimed any more once that was acknowledged."""
    for taken in cluster.store.taken:
        cancelled = cluster.orders.cancelled.get(taken.run_id)
        if cancelled is not None and taken.at > cancelled:
            yield f"run {taken.run_id} was cancelled at second {cancelled}, and claimed at {taken.at}"
        for job_id, start, end in cluster.orders.paused:
            if taken.job_id == job_id and start < taken.at < end:
                yield f"{job_id} was paused at second {start}, and claimed at {taken.at}"
