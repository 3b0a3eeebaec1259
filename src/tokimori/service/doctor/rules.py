"""Rules about one reading of the store: each check reports what it found, or that all is well. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tokimori.clock import DAY, MINUTE, SECOND, Moment, format_moment
from tokimori.model.lanes import EVERYTHING, handler_of, queue_of
from tokimori.model.notifier import name_of
from tokimori.model.semaphores import LIMIT_LINE
from tokimori.ports.nodes import NodeState
from tokimori.service.doctor.finding import Finding, failure, fine, warning
from tokimori.service.doctor.reading import MOST_SEMAPHORES, NAMED, DoctorReading, Few
from tokimori.service.queues import sentence
from tokimori.service.why.stops import nobody_takes, queue_paused, silent_in
from tokimori.spelling import amount

LATE = MINUTE
"""Microseconds after which a due job should have been fired, unless ticks are aligned."""
CLOCKS_DIFFER, CLOCKS_DISAGREE = 1.0, 5.0
"""Seconds: the first is worth a word; at the second a node stops firing."""
SLOW = 0.5
"""Seconds for the shortest question."""
LONG_HELD = 7 * DAY
EXPIRES_SOON = 7 * DAY

Rule = Callable[[DoctorReading], Iterable[Finding]]


def findings(reading: DoctorReading) -> list[Finding]:
    """Return a line for each check that found nothing, and one for each thing that is wrong."""
    checks = CHECKS if usable(reading) else CHECKS[:FIRST]
    looked_at = _looked_at(reading)
    return [
        each
        for check, text, rule in checks
        for each in (tuple(rule(reading)) or (fine(check, text + looked_at.get(check, "")),))
    ]


def _looked_at(reading: DoctorReading) -> Mapping[str, str]:
    """Say by check how much was looked at, if all is well."""
    jobs = f" ({amount(reading.jobs.count, 'job')} looked at{', and there are more' if reading.jobs.more else ''})"
    by_check = dict.fromkeys(("ahead", "lanes", "jobs", "notifiers"), jobs)
    for check, runs in (("running", reading.running), ("wakes", reading.blocked), ("held", reading.held)):
        if len(runs) >= reading.most_runs:
            by_check[check] = f" (of the newest {reading.most_runs})"
    if len(reading.semaphores) >= MOST_SEMAPHORES:
        by_check["permits"] = f" (of the first {MOST_SEMAPHORES} semaphores)"
    return by_check


def usable(reading: DoctorReading) -> bool:
    """Return whether this program may read what is in the store."""
    schema = reading.schema
    return schema.version is not None and not schema.too_new and not schema.too_old


def listed(names: Sequence[str]) -> str:
    """Return the first few names and the number of the others."""
    others = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {others} more" if others > 0 else "")


def _store(reading: DoctorReading) -> Iterator[Finding]:
    if reading.took > SLOW:
        text = f"the store answers, and took {reading.took:.1f} s for the shortest question"
        yield warning("store", text, "look at its load, and at the way to it")


def _clock(reading: DoctorReading) -> Iterator[Finding]:
    off = abs(reading.machine_now - reading.now) / SECOND - reading.took
    if off > CLOCKS_DIFFER:
        text = f"this machine's clock and the store's differ by {off:.1f} s"
        mend = "set both by NTP: `timedatectl` says whether that is on"
        yield (failure if off > CLOCKS_DISAGREE else warning)("clock", text, mend)


def _schema(reading: DoctorReading) -> Iterator[Finding]:
    schema = reading.schema
    if schema.version is None:
        yield failure("schema", "the store has no tables yet", "`tokimori db migrate` makes them, and so does a node")
    elif schema.too_new:
        text = f"its schema is {schema.version}, and this version knows {schema.newest}"
        yield failure("schema", text, "install a newer version of Tokimori")
    elif schema.too_old:
        text = f"its schema is {schema.version}, and this version works with {schema.newest}"
        yield failure("schema", text, "`tokimori db migrate` applies what is pending")


def _promises(reading: DoctorReading) -> Iterator[Finding]:
    for fault in reading.promises:
        yield warning("promises", fault, "docs/explanation/faults.md says what it can cost")


def _nodes(reading: DoctorReading) -> Iterator[Finding]:
    alive = reading.alive
    if not alive:
        yield failure("nodes", "no node runs: nothing is fired, and nothing starts", "`tokimori system start`")
    for node in reading.silent:
        text = f"the node {node.id} (pid {node.pid} on {node.host}) did not beat for {reading.listened:g} s"
        mend = "look whether it is stopped or cut off; a living node takes over within 10 s what a dead one had"
        yield (failure if len(reading.silent) == len(alive) else warning)("nodes", text, mend)
    for node in alive:
        for pid, why, mend in silent_in(node):
            yield warning("nodes", f"the worker process {pid} of the node {node.id} on {node.host} {why}", mend)
    if len(versions := sorted({node.version for node in alive})) > 1:
        yield warning("nodes", f"nodes of {len(versions)} versions run: {', '.join(versions)}", "update the older ones")


def _due(reading: DoctorReading) -> Iterator[Finding]:
    if reading.due:
        since = min(job.next_due for job in reading.due if job.next_due is not None)
        names = [job.id for job in reading.due]
        text = f"due since {format_moment(since)} and not fired: {listed(names)}"
        mend = (
            "look in the log of a node whether its clock disagrees with the store's; "
            "with worker.interval_minutes its next tick fires them"
        )
        yield failure("fired", text, mend if reading.alive else "`tokimori system start` starts a node")


def _ahead(reading: DoctorReading) -> Iterator[Finding]:
    if reading.ahead:
        text = f"decided up to a moment that is to come, by a clock that was ahead: {listed(reading.ahead)}"
        mend = "a node puts them back within two minutes; where it does not, `tokimori job rewind ID`"
        yield failure("ahead", text, mend)


def _running(reading: DoctorReading) -> Iterator[Finding]:
    alive = {node.id for node in reading.nodes if node.state is NodeState.ALIVE}
    lost = [run for run in reading.running if run.node_id not in alive]
    if lost:
        text = f"running, but their node is gone: {listed([f'run {run.id} of {run.job_id}' for run in lost])}"
        mend = "a living node takes them over within 10 s" if reading.alive else "`tokimori system start` starts a node"
        yield failure("running", text, mend)


def _permits(reading: DoctorReading) -> Iterator[Finding]:
    if reading.semaphores_fault is not None:
        mend = "`datasource.semaphore.url` names it"
        yield failure("permits", f"the store of the semaphores can't be read: {reading.semaphores_fault}", mend)
    alive = {node.id for node in reading.programs if node.state is NodeState.ALIVE}
    for semaphore in reading.semaphores:
        gone = [
            each
            for each in semaphore.holders
            if (each.node not in alive and each.run_id is None)
            or (each.run_id is not None and not reading.apart and each.run_id not in reading.lively)
        ]
        if gone:
            who = listed([f"run {each.run_id}" if each.run_id else f"the program {each.node}" for each in gone])
            text = f"units of the semaphore {semaphore.name} are held by a run or program that does not run: {who}"
            mend = "a node releases them within 10 s; if it does not, report `tokimori lock list -o json` to us"
            yield failure("permits", text, mend)


def _wakes(reading: DoctorReading) -> Iterator[Finding]:
    """Yield blocked runs although their semaphore has room. Paused runs are left out.

    So are lanes with ready runs, one of which may be the head of the line and wait for a node.
    """
    if not reading.alive or any(pause.queue == EVERYTHING for pause in reading.pauses):
        return
    mend = "a node's next ticks serve the line; if none does, report `tokimori run why` to us"
    paused = {pause.queue for pause in reading.pauses}
    waits_for_units = [run for run in reading.blocked if run.lane is None or queue_of(run.lane) not in paused]
    waits_for_units = [run for run in waits_for_units if run.lane not in reading.queued]
    waiting = {run.blocked_on for run in waits_for_units}
    for semaphore in reading.semaphores:
        if semaphore.wakes is not None:
            continue
        if semaphore.waiting and not semaphore.used and (reading.apart or f"semaphore:{semaphore.name}" in waiting):
            text = f"{semaphore.waiting} wait for the semaphore {semaphore.name}, of which nothing is held"
            yield failure("wakes", text, mend)
    at_work = {run.job_id for run in reading.running} | reading.busy
    places = reading.jobs.places
    stuck = [
        run
        for run in waits_for_units
        if (run.blocked_on or LIMIT_LINE) == LIMIT_LINE
        and places.get(run.job_id, 0)
        and run.job_id not in at_work
        and len(reading.running) < reading.most_runs
    ]
    if stuck:
        names = [f"run {run.id} of {run.job_id}" for run in stuck]
        yield failure("wakes", f"waiting for a place of their job, of which nothing runs: {listed(names)}", mend)


def _held(reading: DoctorReading) -> Iterator[Finding]:
    long = [run for run in reading.held if run.due < reading.now - LONG_HELD]
    if long:
        text = f"due over 7 days ago, and held until a person says how they go on: {listed([run.id for run in long])}"
        yield warning("held", text, "`tokimori run resume ID` or `tokimori run cancel ID`")


def _lanes(reading: DoctorReading) -> Iterator[Finding]:
    """Yield ready runs, and jobs, whose labels or handlers no living node has."""
    if not reading.alive:
        return
    for lane in reading.lanes:
        if (nobody := nobody_takes(lane, reading.nodes)) is not None:
            what = handler_of(lane) or "commands"
            text = f"ready runs ({what}, queue {queue_of(lane)}) start nowhere: {nobody.text}"
            yield failure("lanes", text, nobody.mend or "start a node that has it")
    missing: dict[str, tuple[str, Few]] = {}
    for lane, few in reading.jobs.lanes.items():
        if lane not in reading.lanes and (nobody := nobody_takes(lane, reading.nodes)) is not None:
            missing.setdefault(nobody.text, (nobody.mend or "start a node that has it", Few()))[1].join(few)
    for text, (mend, jobs) in missing.items():
        yield warning("lanes", f"of the jobs {jobs} no run would start: {text}", mend)


def _parked(reading: DoctorReading) -> Iterator[Finding]:
    if reading.jobs.parked.count:
        text = f"parked by a failure: {reading.jobs.parked}"
        yield warning("jobs", text, "`tokimori job show ID` says by which; `tokimori job resolve ID` enables it")


def _pauses(reading: DoctorReading) -> Iterator[Finding]:
    for pause in reading.pauses:
        yield warning("pauses", sentence(pause), queue_paused(pause).mend or "")


def _alarms(reading: DoctorReading) -> Iterator[Finding]:
    if reading.alarms:
        names = listed([each.name for each in reading.alarms])
        text = f"should have ended well by now: {names}"
        yield warning("alarms", text, "`tokimori alarms` says since when; `tokimori job why ID` what holds a job")


def _notifiers(reading: DoctorReading) -> Iterator[Finding]:
    for lost in sorted(reading.lost_notifiers):
        name = name_of(lost)
        jobs = reading.jobs.notifiers[lost]
        text = f"there is no notifier {name}; these jobs name it, and notify nobody by it: {jobs}"
        yield warning("notifiers", text, f"`tokimori notifier add {name} …`, or name another one in the jobs")


def _tokens(reading: DoctorReading) -> Iterator[Finding]:
    for token in reading.tokens:
        if token.expires is None or token.expires > reading.now + EXPIRES_SOON:
            continue
        over, at = token.is_over(reading.now), format_moment(Moment(token.expires))
        text = f"the token {token.name} {'expired' if over else 'expires'} at {at}"
        again = f"`tokimori token revoke {token.name}`" + (" removes it" if over else ", and create another one")
        yield warning("tokens", text, again)


CHECKS: tuple[tuple[str, str, Rule], ...] = (
    ("store", "the store answers", _store),
    ("clock", "this machine's clock and the store's agree", _clock),
    ("schema", "its tables are those of this version", _schema),
    ("promises", "it keeps every promise", _promises),
    ("nodes", "nodes run, and beat", _nodes),
    ("fired", "whatever is due was fired", _due),
    ("ahead", "no job is ahead of the time", _ahead),
    ("running", "every run that runs has a living node", _running),
    ("permits", "every unit that is held has a living holder", _permits),
    ("wakes", "nobody waits for what is free", _wakes),
    ("held", "no run has been held for long", _held),
    ("lanes", "for each enabled job there is a node", _lanes),
    ("alarms", "nothing is overdue", _alarms),
    ("jobs", "no job is parked", _parked),
    ("notifiers", "each notifier that a job names exists", _notifiers),
    ("pauses", "no queue is paused", _pauses),
    ("tokens", "no token expires within 7 days", _tokens),
)
"""Each check: its name, what it says if it finds nothing, and its rule."""
INVARIANTS = frozenset({"fired", "running", "permits", "wakes", "held"})
"""Checks that a node makes itself, again and again: what must always hold."""
FIRST = 4
"""Number of these checks that look at nothing but the schema."""
