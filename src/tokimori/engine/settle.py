"""Settle: from an executor's report, or a dead node's run, to the change that the store writes."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from tokimori.clock import SECOND, Moment
from tokimori.model.approval import is_refused
from tokimori.model.attempt_notes import Notes, details_after, payload_for, unbegun_once_more
from tokimori.model.cause import cause_and_line
from tokimori.model.ids import JobId, NodeId
from tokimori.model.outcome import Hold, Outcome, RetryAt, RetryIn, Spawns, Succeeded
from tokimori.model.policies import OnExhausted, Retry
from tokimori.model.run import NEVER, NO_DETAILS, Attempt, Details, Output, Run, Spawned, Step
from tokimori.model.settle import WORDS, Settlement, after_asking, asked_retry, settle
from tokimori.model.target import Noop
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.working import Change, Claimed

_ASKS_FOR_ANOTHER = (RetryAt, RetryIn)
LONGEST_RESULT = 64 * 1024
SPAWNED_TOGETHER = 500
"""Runs that are made in one transaction when a function has spawned them."""
_FAILED: Final = RunState.FAILED
_SUCCEEDED: Final = RunState.SUCCEEDED
_PUT_OFF = ("released", "retry", "expired", "hold")


def change_of(
    claimed: Claimed,
    outcome: Outcome,
    *,
    owner: NodeId,
    now: Moment,
    chance: float,
    started: Moment | None = None,
    pid: int | None = None,
    output: Output | None = None,
    notes: Notes | None = None,
    cpu: int | None = None,
    memory: int | None = None,
) -> Change:
    """Return the change for an attempt that ended at `now`. `chance` in [0, 1) picks the jitter of a retry.

    If `started` is None, the living node that releases the run knows that the attempt never began.
    """
    run = claimed.run
    retry = Retry() if claimed.definition is None else claimed.definition.retry
    if started is not None and type(outcome) in _ASKS_FOR_ANOTHER:  # else its node put it off, not the attempt
        outcome, retry = asked_retry(run, outcome, retry, now), after_asking(outcome, retry)
    settlement = settle(run, outcome, retry, now, chance, begun=started is not None)
    if settlement.error is not None:
        settlement = replace(settlement, error=storable(settlement.error))
    result = _result(claimed, outcome) if type(outcome) is Succeeded else None
    began = started is not None or notes is not None
    details = details_after(run, claimed.definition, notes, settlement.state) if began else _put_off(run, outcome)
    if settlement.state is not _SUCCEEDED and run.details.as_stored is None:
        details = _noted(run, details, settlement, started, output)
    is_in_run = run.attempt == 1 and settlement.state is _SUCCEEDED  # a first success is in the run itself
    change = Change(  # the first ones by position: Python gathers more than 15 keywords in a dictionary (0.6 µs)
        run.id,
        run.job_id,
        run.incarnation,
        owner,
        run.token,
        settlement.state,
        settlement.due,
        settlement.rank,
        settlement.failures,
        settlement.lost,
        now,
        started,
        pid,
        settlement.exit_code,
        settlement.signal,
        settlement.error,
        output=output,
        result=None if result is None else storable(result),
        details=details,
        parks=settlement.state is _FAILED and _parks(claimed) and not is_refused(run),
        cpu=cpu,
        memory=memory,
    )
    if type(outcome) is Spawns and settlement.state is RunState.WAITING:
        return _spawning(claimed, change, outcome)
    if (run.details.then or run.details.awaited) and settlement.state in ENDS:
        change = replace(change, then=run.details.then, family=run.parent_id if run.details.awaited else None)
    return change if is_in_run else replace(change, attempt=_attempt(run, change, settlement.outcome))


def _spawning(claimed: Claimed, change: Change, outcome: Spawns) -> Change:
    """Return the change with which the run begins to wait for the runs that it has spawned."""
    run, timeout = claimed.run, None if claimed.definition is None else claimed.definition.timeout
    until = None if timeout is None else Moment((change.started or change.ended) + round(timeout * SECOND))
    first, later = outcome.children[:SPAWNED_TOGETHER], outcome.children[SPAWNED_TOGETHER:]
    spawned = Spawned(change.ended, len(outcome.children), run.due, until, len(later))
    details = replace(change.details or run.details, spawned=spawned)
    return replace(change, then=steps_of(run, spawned, 0, first), later=later, details=details)


def steps_of(run: Run, spawned: Spawned, first: int, children: Sequence[tuple[JobId, str | None]]) -> tuple[Step, ...]:
    """Return the steps that a run has spawned from this place on."""
    ids = spawned.ids(run.id, first, len(children))
    return tuple(Step(id=each, job=job, payload=text) for each, (job, text) in zip(ids, children, strict=True))


def _noted(
    run: Run, details: Details | None, settlement: Settlement, started: Moment | None, output: Output | None
) -> Details | None:
    """Return the facts with why the run has failed, or, if it may begin again, when the first of its attempts began.

    A run that waits for those it has spawned does not begin again. And an older node changes no facts of a run that has
    unknown ones: it could not note how many are left to be spawned.
    """
    if settlement.state is _FAILED:
        end = (settlement.outcome, settlement.exit_code, settlement.signal, settlement.error or "")
        cause, line = (each and storable(each) for each in cause_and_line(*end, output))
        if is_refused(run):
            cause, line = (cause or "").removeprefix("failed: "), None
        return replace(details or run.details, cause=cause, line=line)
    is_last = settlement.state in ENDS or settlement.due == NEVER
    if is_last or started is None or run.details.begun is not None:
        return details
    return replace(details or run.details, begun=started)


def _put_off(run: Run, outcome: Outcome) -> Details | None:
    """Return the changed facts of a run after an attempt that never began, or None if they stay as they are."""
    details = unbegun_once_more(run) if WORDS[type(outcome)] in _PUT_OFF else None
    return replace(details, approval=outcome.approval) if details and isinstance(outcome, Hold) else details


def _result(claimed: Claimed, outcome: Succeeded) -> str | None:
    """Return the result. That of a job which only waits for approval is its payload, if that is small enough."""
    if outcome.result is not None or claimed.run.details is NO_DETAILS:
        return outcome.result
    definition = claimed.definition
    if claimed.run.details.approval is None or definition is None:
        return outcome.result
    given = payload_for(claimed.run, definition) if isinstance(definition.target, Noop) else None
    return given if given is not None and len(given) <= LONGEST_RESULT else None


def _parks(claimed: Claimed) -> bool:
    definition = claimed.definition
    return definition is not None and definition.on_exhausted is OnExhausted.PARK


def storable(text: str) -> str:
    """Return the text without NULs and halves of surrogate pairs: no database holds them."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\0")


def _attempt(run: Run, change: Change, outcome: str) -> Attempt | None:
    """Return the row of the attempt. None: the attempt never began."""
    if change.started is None and outcome in _PUT_OFF:
        return None
    return Attempt(
        run_id=run.id,
        number=run.attempt,
        token=run.token,
        node_id=change.owner,
        outcome=outcome,
        pid=change.pid,
        started=change.started,
        ended=change.ended,
        exit_code=change.exit_code,
        signal=change.signal,
        error=change.error,
        cpu=change.cpu,
        memory=change.memory,
    )
