"""Approvals: runs that begin only if a person lets them. Pure."""

from msgspec.structs import replace

from tokimori.clock import SECOND, Moment
from tokimori.model.job import Definition
from tokimori.model.outcome import Expired, Failed, Hold
from tokimori.model.policies import Approval
from tokimori.model.run import NO_DETAILS, Details, Run, expired
from tokimori.model.transitions import RunState
from tokimori.schedules.zones import clock_text

ASKS = "it waits for an approval"


def in_place_of_begin(run: Run, definition: Definition, now: Moment, ahead: int = 0) -> Expired | Failed | Hold | None:
    """Return what becomes of a claimed run that may not begin now, if the clock may be so far ahead; None: it may."""
    if run.details is NO_DETAILS and not definition.approval:
        return None
    if (why := expired(run, Moment(now - ahead))) is not None:
        return Expired(why)
    answer = run.details.approval
    if answer is not None and answer.approved is False:
        return Failed(answer.refusal, final=True)
    if not definition.approval or (answer is not None and answer.approved):
        return None
    return Hold(ASKS, approval_asked(definition, now))


def approval_asked(definition: Definition, now: Moment) -> Approval:
    """Return the question that a run of the job asks now."""
    within = definition.approve_within
    until = None if within is None else Moment(now + round(within * SECOND))
    return Approval(approver=definition.approver, four_eyes=definition.four_eyes, asked=now, until=until)


def asked_until(details: Details | None) -> Moment | None:
    """Return by when a question without an answer has to be answered; None: it has all the time."""
    asked = None if details is None else details.approval
    return None if asked is None or asked.approved is not None else asked.until


def awaits_approval(run: Run) -> bool:
    """Return if the run waits for somebody who approves or refuses it."""
    asked = run.details.approval
    return run.state is RunState.HELD and asked is not None and asked.approved is None


def is_refused(run: Run) -> bool:
    """Return if somebody has refused the run, or nobody has approved it in time."""
    asked = run.details.approval
    return asked is not None and asked.approved is False


def answered(details: Details, *, approved: bool, by: str | None, at: Moment, reason: str | None) -> Details:
    """Return the facts of a run after the answer to its question."""
    if details.approval is None:
        return details
    return replace(details, approval=replace(details.approval, approved=approved, by=by, at=at, reason=reason))


def unanswered(run: Run, now: Moment) -> Details | None:
    """Return the facts of a run that nobody has approved in time; None if there is still time."""
    until = asked_until(run.details)
    if until is None or until > now or not awaits_approval(run):
        return None
    return answered(run.details, approved=False, by=None, at=now, reason="nobody has approved it in time")


def approval_text(asked: Approval, zone: str) -> str:
    """Return the question, or its answer, in words with the times of this zone."""
    if asked.approved is None:
        others = ", but whoever asked for the run may not approve it" if asked.four_eyes else ""
        return f"the role {asked.approver} may answer{_time(', until', asked.until, zone)}{others}"
    by, at = f" by {asked.by}" if asked.by else "", _time(" at", asked.at, zone)
    why = f": {asked.reason}" if asked.reason else ""
    return f"{'approved' if asked.approved else 'refused'}{by}{at}{why}"


def _time(word: str, moment: Moment | None, zone: str) -> str:
    return "" if moment is None else f"{word} {clock_text(Moment(moment - moment % SECOND), zone)}"
