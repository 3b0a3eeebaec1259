"""Reasons why a run does not start, will be ended, or is not tried again. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tokimori.clock import Moment
from tokimori.model.approval import approval_text, awaits_approval, is_refused
from tokimori.model.ids import Lane
from tokimori.model.job import Job, JobState, limit_of
from tokimori.model.lanes import DRAINING_LABEL, lane_of, units_apart
from tokimori.model.policies import Approval
from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, semaphore_of, wanted
from tokimori.model.settle import next_try
from tokimori.model.transitions import BEFORE_START, ENDS, RunState
from tokimori.ports.nodes import NodeRecord
from tokimori.schedules.zones import clock_text
from tokimori.service.reasons import Cause, HeldBy, Reason, Why, waits_for
from tokimori.service.why.reading import Units, WhyReading
from tokimori.service.why.stops import nobody_takes, silent_in, stopped, stops_of_people, takers, too_heavy, unreadable
from tokimori.spelling import amount

SOON = 10.0
"""Seconds within which what is due starts, if nothing holds it."""
NAMED = 3
"""Number of holders named; the others are counted."""
_ALWAYS = 1 - 2**-53
"""The largest chance: a retry with its whole jitter."""


def why_run(reading: WhyReading, run: Run) -> Why:
    """Return the reasons that hold the run."""
    if run.state is RunState.WAITING and run.details.spawned is not None:
        reasons = [_for_spawned(reading, run, run.details.spawned.count)]
    elif run.state in BEFORE_START:
        reasons = [*_refused(reading, run), *dict.fromkeys(_before_start(reading, run))]
    elif awaits_approval(run) and (asked := run.details.approval) is not None:
        reasons = [_asks(reading, run, asked)]
    elif run.state is RunState.HELD:
        because = f": {run.error}" if run.error else ""
        mend = f"`tokimori run resume {run.id}` lets it go on"
        reasons = [Reason(cause=Cause.HELD, text=f"a person has to say how it goes on{because}", mend=mend)]
    elif run.state is RunState.RUNNING:
        reasons = [*_silent(reading, run), *_draining(reading, run)]
    else:
        reasons = _ended(reading, run)
    if (other := reading.beside) is not None:
        text = f"run {other.id} ({other.state}) holds its key, and it does not take that back: both go on"
        held = (holder_of(other, reading.nodes),)
        mend = f"`tokimori run cancel {run.id}` ends it; unique=until_end holds the key until a run has ended"
        reasons = [*reasons, Reason(cause=Cause.BESIDE, text=text, mend=mend, holders=held)]
    return Why(job_id=run.job_id, run_id=run.id, state=run.state.value, reasons=tuple(reasons))


def _for_spawned(reading: WhyReading, run: Run, count: int) -> Reason:
    text = f"it waits for {reading.live} of the {amount(count, 'run')} that it has spawned"
    holders = tuple(HeldBy(run_id=each.id, job_id=each.job_id) for each in reading.spawned)
    mend = f"`tokimori run cancel {run.id} --family` ends it and them"
    return Reason(cause=Cause.SPAWNED, text=text, mend=mend, holders=holders, others=reading.live - len(holders))


def _asks(reading: WhyReading, run: Run, asked: Approval) -> Reason:
    """Return the reason of a run that waits for an approval."""
    zone = "UTC" if reading.job is None else reading.job.definition.time_zone
    mend = f"`tokimori run approve {run.id}` lets it begin, `tokimori run refuse {run.id}` ends it"
    return Reason(cause=Cause.APPROVAL, text=f"it waits for an approval: {approval_text(asked, zone)}", mend=mend)


def _refused(reading: WhyReading, run: Run) -> Iterator[Reason]:
    """Yield the reason of a run that was refused and has not ended, as it can't be claimed now."""
    if is_refused(run) and (asked := run.details.approval) is not None:
        zone = "UTC" if reading.job is None else reading.job.definition.time_zone
        text = f"it was {approval_text(asked, zone)}; it ends as failed when it could begin"
        yield Reason(cause=Cause.APPROVAL, text=text, mend=f"`tokimori run cancel {run.id}` ends it now")


def _silent(reading: WhyReading, run: Run) -> Iterator[Reason]:
    for node in reading.nodes:
        for pid, why, mend in silent_in(node) if node.id == run.node_id and run.pid is not None else ():
            if pid == str(run.pid):
                yield Reason(cause=Cause.SILENT, text=f"its worker process (pid {pid}) {why}", mend=mend)


def _draining(reading: WhyReading, run: Run) -> Iterator[Reason]:
    """Yield the reason if the run's worker process is to be ended because of another run in it."""
    node = next((node for node in reading.nodes if node.id == run.node_id), None)
    for entry in node.labels.get(DRAINING_LABEL, "").split("; ") if node is not None else ():
        pid, _, rest = entry.partition(" ")
        blamed, _, until = rest.partition(" ")
        if run.pid is not None and pid == str(run.pid):
            whose = "it does not end" if blamed == run.id else f"draining for run {blamed}"
            text = f"{whose}, until {until}: then its worker process is ended, with what still runs in it"
            yield Reason(cause=Cause.DRAINING, text=text, mend="`app.drain` says for how long")


def is_gone(job: Job | None, run: Run) -> bool:
    """Return whether the job of the run is gone; `job` is the one that has its id now."""
    return job is None or job.state is JobState.DELETED or job.incarnation != run.incarnation


def _before_start(reading: WhyReading, run: Run) -> Iterator[Reason]:
    job, now = reading.job, reading.now
    if job is None or is_gone(job, run):
        text = f"job {run.job_id} was deleted: a node cancels what is left of it"
        yield Reason(cause=Cause.DELETED, text=text, mend=f"`tokimori run cancel {run.id}` does it now")
        return
    is_due = run.state is not RunState.WAITING or run.due <= now
    if not is_due:
        yield _not_due(run, job)
    found = list(_reasons(reading, run, job, is_due=is_due))
    yield from found or ([_about_to_start(reading, run, job)] if is_due else [])


def _not_due(run: Run, job: Job) -> Reason:
    again = f", when its attempt {run.attempt + 1} begins" if run.attempt else ""
    text = f"it is not due until {clock_text(run.due, job.definition.time_zone)}{again}"
    return Reason(cause=Cause.NOT_DUE, text=text, mend=f"`tokimori job trigger {job.id}` runs the job now")


def _reasons(reading: WhyReading, run: Run, job: Job, *, is_due: bool) -> Iterator[Reason]:
    lane = run.lane or lane_of(job.definition)
    for reason in stops_of_people(job, reading.pauses):
        if run.lane is None or reason.cause is Cause.QUEUE_PAUSED:  # a forced run of a stopped job has a lane
            yield reason
    yield from unreadable(job)
    if run.state is RunState.BLOCKED:
        yield from _in_line(reading, run, job)
    if run.state is RunState.READY and run.lane is not None:
        yield from _apart(reading, run.lane)
    if is_due and (nobody := nobody_takes(lane, reading.nodes)) is not None:
        yield nobody


def _in_line(reading: WhyReading, run: Run, job: Job) -> Iterator[Reason]:
    definition, name = job.definition, semaphore_of(run.blocked_on)
    if name is not None:
        weight, units = dict(wanted(definition.semaphores)).get(name, 1), reading.units.get(name, Units())
        text = f"it waits for {waits_for(run)}"
        if units.rate is not None and units.used + weight <= units.limit and weight <= units.rate.units:
            yield _of_rate(name, job, units, text)
        else:
            yield _of_semaphore(name, weight, units, text)
        return
    siblings = [each for each in reading.siblings if each.incarnation == run.incarnation and each.id != run.id]
    if run.blocked_on == KEY_LINE:
        most, option, cause = definition.max_running_per_key, "--max-running-per-key", Cause.KEY
        siblings = [each for each in siblings if each.concurrency_key == run.concurrency_key]
    else:
        most, option, cause = limit_of(definition), "--max-running", Cause.PLACE
    run_now = [each for each in siblings if each.state is RunState.RUNNING]
    before = sorted((each for each in siblings if each.rank <= run.rank), key=lambda each: (each.rank, each.id))
    holders = run_now or before
    named, others = tuple(holder_of(each, reading.nodes) for each in holders[:NAMED]), max(0, len(holders) - NAMED)
    mend = f"`tokimori job update {job.id} {option} {most + 1}` lets one more run" if run_now else None
    yield Reason(cause=cause, text=f"it waits for {waits_for(run, most)}", mend=mend, holders=named, others=others)


def holder_of(run: Run, nodes: Iterable[NodeRecord]) -> HeldBy:
    """Return the run as the holder of a resource that another one waits for."""
    host = next((node.host for node in nodes if node.id == run.node_id), None)
    return HeldBy(run_id=run.id, job_id=run.job_id, state=run.state.value, host=host, pid=run.pid)


def _of_rate(name: str, job: Job, units: Units, text: str) -> Reason:
    """Return the reason that a rate delays the run, with the time at which its line goes on."""
    on = "" if units.goes_on is None else f"; its line goes on at {clock_text(units.goes_on, job.definition.time_zone)}"
    option = f"job update {job.id} --rate-limit" if name.startswith("job:") else f"lock set {name} --rate"
    if name.startswith("queue:"):
        option = f"queue set {name[6:]} --rate"
    mend = f"`tokimori {option} N/T` sets a larger one"
    full_text = f"{text}: of its rate {units.rate} {units.taken} {'is' if units.taken == 1 else 'are'} taken{on}"
    return Reason(cause=Cause.RATE, text=full_text, mend=mend)


def _of_semaphore(name: str, weight: int, units: Units, text: str) -> Reason:
    """Return the reason that units are not free. If there are enough, other runs are before it in line."""
    if units.fault is not None:
        away = f"the store of the semaphore {name} does not answer: {units.fault}"
        mend = "`tokimori lock list` says so until it does; `datasource.semaphore.url` names it"
        return Reason(cause=Cause.SEMAPHORES_AWAY, text=away, mend=mend)
    most = units.limit if units.rate is None else min(units.limit, units.rate.units)
    if weight > most:
        return too_heavy(name, weight, most)
    are = "is" if units.used == 1 else "are"
    held = f"{text} ({units.used} of {units.limit} {are} held{f', and it wants {weight}' if weight > 1 else ''})"
    fits = units.used + weight <= units.limit
    mend = f"`tokimori lock set {name} --limit {units.used + weight}` lets it in"
    behind = f"{text}, and others stand before it in its line"
    return Reason(
        cause=Cause.SEMAPHORE,
        text=behind if fits else held,
        mend=None if fits else mend,
        holders=units.holders,
        others=units.others,
    )


def _apart(reading: WhyReading, lane: Lane) -> Iterator[Reason]:
    """Yield the reason of a ready run whose semaphores are in another store, where nodes wait in its place."""
    for name, weight in units_apart(lane):
        if not reading.apart:
            text = f"it waits for the semaphore {name} in another store, which this program does not know"
            mend = "`datasource.semaphore.url`, or --semaphore-store, names it"
            yield Reason(cause=Cause.SEMAPHORES_AWAY, text=text, mend=mend)
        units = reading.units.get(name, Units())
        if units.fault is not None or units.used + weight > units.limit:
            yield _of_semaphore(name, weight, units, f"it waits for units of the semaphore {name} in another store")


def _about_to_start(reading: WhyReading, run: Run, job: Job) -> Reason:
    """Return nothing that the store knows of holds it but, perhaps, that all nodes have enough to do."""
    if run.state is RunState.WAITING:
        return doubted(reading) or unfired(reading, run.due, job)
    lane = run.lane or lane_of(job.definition)
    able = takers(lane, reading.nodes)
    used, places = Counter(each.node_id for each in reading.running), sum(node.concurrency for node in able)
    is_full = all(used[node.id] >= node.concurrency for node in able)
    if is_full or reading.many:
        several = f"{len(able)} nodes that could run it are" if len(able) > 1 else "the node that could run it is"
        full = f"it is ready, and {several} full: {places} of {places} places are taken"
        text = full if is_full else f"it is ready, and the nodes may be full: {len(reading.running)} runs or more go on"
        mend = "one more node makes more places, or a larger `node.concurrency` (`tokimori worker --concurrency`)"
        return Reason(cause=Cause.NODES_FULL, text=text, mend=mend)
    text = f"it is ready, and {_hosts(able)} could run it, which takes a moment"
    return Reason(cause=Cause.NEXT, text=text, mend=_SILENT)


_SILENT = (
    f"if it takes over {SOON:g} s the log of the node says why (a load above `node.max_load`, a store that refuses "
    "it), or the node is frozen or dead; `tokimori node list` shows the nodes"
)


def _hosts(nodes: Sequence[NodeRecord]) -> str:
    first = f"the node {nodes[0].id} on {nodes[0].host}"
    return first if len(nodes) == 1 else f"{first} and {len(nodes) - 1} more"


def doubted(reading: WhyReading) -> Reason | None:
    """Return the reason that the node which was asked does not trust its clock."""
    if not reading.doubted:
        return None
    text = "this node's clock and the store's disagree by over 5 s, and nothing is decided until they agree"
    return Reason(cause=Cause.CLOCK, text=text, mend="set the clock of the database's server right")


def unfired(reading: WhyReading, due: Moment, job: Job) -> Reason:
    """Return the reason that a due occurrence is not decided yet."""
    there = [node for node in reading.nodes if node.runs_jobs]
    since = clock_text(due, job.definition.time_zone)
    text = f"it has been due since {since}" + (f", and {_hosts(there)} has still to decide it" if there else "")
    return Reason(cause=Cause.NEXT, text=text, mend=_SILENT)


def _ended(reading: WhyReading, run: Run) -> list[Reason]:
    """Return why a run that failed is not tried again, or how one ended that never will."""
    job, again = reading.job, f"`tokimori run retry {run.id}` runs it again"
    because = f": {run.error}" if run.error else ""
    if run.state is not RunState.FAILED or run.ended is None:
        ended = run.state in ENDS and run.state is not RunState.SUCCEEDED
        return [Reason(cause=Cause.ENDED, text=f"it was {run.state}{because}", mend=again)] if ended else []
    if job is None or is_gone(job, run):
        return [Reason(cause=Cause.ENDED, text=f"it failed{because}, and its job was deleted")]
    retry = job.definition.retry
    nominal, failures, ended_at = run.nominal, run.failures, run.ended
    late = next_try(retry, nominal=nominal, failures=failures, now=ended_at, chance=_ALWAYS) is None
    if 0 < failures < retry.attempts and late:
        text = f"it failed{because}; its next try would begin over {retry.epsilon:g} s after its nominal time (epsilon)"
        mend = f"`tokimori job update {job.id} --retry-epsilon SECONDS` allows later ones, and {again}"
        reasons = [Reason(cause=Cause.EPSILON, text=text, mend=mend)]
    else:
        reasons = [Reason(cause=Cause.ENDED, text=f"it failed{because}, and is not tried again", mend=again)]
    return [*reasons, *([stop] if (stop := stopped(job)) else [])]
