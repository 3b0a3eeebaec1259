"""The page of a run."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.access_token import Role
from tokimori.model.approval import approval_text, awaits_approval
from tokimori.model.cause import cause_in
from tokimori.model.dependents import root_of
from tokimori.model.ids import RunId
from tokimori.model.parents import ParentRun
from tokimori.model.run import Run, asked_by, first_begin, parents_of, shown_due
from tokimori.model.statistics import cost
from tokimori.model.transitions import BEFORE_START, ENDS, STANDING_STILL, RunState
from tokimori.service.runs.runs import AttemptDetails, RunDetails
from tokimori.web.log_view import log_view
from tokimori.web.pictures import BARS, MOST_COMPARED, Lane, Span, median_of, waterfall
from tokimori.web.run_rows import cause, is_stock, run_row, whole_cause
from tokimori.web.screen import Screen, Shown
from tokimori.web.screens.graph import family_of
from tokimori.web.visit import Visit
from tokimori.web.words import Time, duration, lasted

LANES_SHOWN: Final = 12
SPAWNED_SHOWN: Final = 20
_TONES: Final = {"failed": "bad", "lost": "bad", "running": "busy"}


class AttemptRow(NamedTuple):
    """An attempt of the run."""

    number: int
    outcome: str
    host: str
    pid: str
    node_id: str
    started: Time | None
    ended: Time | None
    took: str
    exit: str
    error: str
    cost: str


async def show(visit: Visit) -> Shown:
    """Return the page of a run."""
    run_id, service = visit.parts["run_id"], visit.service
    details = await service.runs.get(run_id)
    run = details.run
    given = visit.one("attempt") or ""
    number = int(given) if given.isdecimal() and len(given) < 10 else run.attempt
    output = await service.runs.output(run.id, number)
    zone = details.time_zone
    family, acts = await family_of(visit, run)
    own, good = await own_request(visit, run), await _last_good(visit, run)
    why = (await service.runs.why(run.id)).reasons if run.state in STANDING_STILL else ()
    is_said = run.error is not None and (is_stock(run.error) or any(run.error in each.text for each in why))
    return {
        "run": run_row(visit, details),
        "said": run,
        "why": why,
        "due": visit.time(first_due(run) if run.state in ENDS else shown_due(run), zone),
        "cause": cause(run) if run.state is RunState.FAILED else "",
        "cause_says": whole_cause(run) if run.state is RunState.FAILED else "",
        "good": good and (good.id, visit.time(good.started or good.due, zone)),
        "error": None if is_said or awaits_approval(run) else run.error,
        "alike": await _alike(visit, run),
        "started": None if run.started is None else visit.time(run.started, zone),
        "begun": None if run.started is None else visit.time(first_begin(run) or run.started, zone),
        "ended": None if run.ended is None else visit.time(run.ended, zone),
        "late": _late(details),
        "took": _took(details),
        "usual": await _usual(visit, run),
        "attempts": [_attempt(visit, each, zone) for each in details.attempts],
        "left_out": details.attempts_left_out,
        "number": number,
        "log": await log_view(visit, output, zone, running=run.state not in ENDS and number == run.attempt),
        "fall": _fall(visit, details),
        "family": family,
        "acts_here": (*acts_of(run, visit.reader.role, is_own=own != ""), *acts),
        "own": own,
        "approval": run.details.approval and visit.reread(approval_text(run.details.approval, zone)),
        "again": not details.is_job_deleted and run.state in ENDS,
        "spawned": await _spawned(visit, run),
        "parent": run.parent_id,
        "parents": await _parents(visit, run) if parents_of(run) else (),
        "retry_of": run.details.retry_of,
        "payload": run.payload,
        "again_command": _command(run),
        "result": run.result,
    }


async def _spawned(visit: Visit, run: Run) -> Sequence[tuple[RunId, str]]:
    """Return the first runs that it has spawned with their states; empty for one that is not there or not seen."""
    found = dict.fromkeys(run.details.spawned.ids(run.id, 0, SPAWNED_SHOWN) if run.details.spawned else (), "")
    for run_id in found:
        with suppress(NotFound):
            found[run_id] = (await visit.service.runs.summaries([run_id]))[0].run.state.value
    return list(found.items())


async def _parents(visit: Visit, run: Run) -> Sequence[ParentRun]:
    """Return the parents of a run that the reader may see."""
    seen = list[ParentRun]()
    for each in await visit.service.runs.parents(run.id):
        with suppress(NotFound):
            await visit.service.runs.get(each.id)
            seen.append(each)
    return seen


async def own_request(visit: Visit, run: Run) -> str:
    """Return why the reader may not approve a run: he asked for it, or for its family; empty if he may."""
    asked = run.details.approval
    if not awaits_approval(run) or asked is None or not asked.four_eyes:
        return ""
    by, root, reader = run.details.requested_by, root_of(run), visit.reader.access.author
    with suppress(NotFound):
        if by is None and not root.startswith("s:"):
            by = (await visit.service.runs.get(RunId(root))).run.details.requested_by
    return "you asked for it, and its job wants the approval of another" if reader and by == reader else ""


async def _last_good(visit: Visit, run: Run) -> Run | None:
    """Return the newest of the last runs of the job that ended well, for a run that failed."""
    if run.state is not RunState.FAILED:
        return None
    with suppress(InvalidInput):  # a run of no job, such as a message
        last = (await visit.service.runs.last([run.job_id], BARS, longest=0))[run.job_id]
        return next((each for each in last if each.state is RunState.SUCCEEDED), None)
    return None


async def _alike(visit: Visit, run: Run) -> str:
    """Return how many runs of the last day, with this one, have failed for its cause; empty: no other one."""
    since, until = Moment(visit.now - DAY), Moment(visit.now + SECOND)
    if run.state is not RunState.FAILED or (run.ended or run.created) < since:
        return ""
    found = await visit.lately("failures of a day", lambda: visit.service.runs.failures(since=since, until=until))
    same = next((each for each in found.causes if each.cause == cause_in(run)), None)
    if same is None or same.count < 2:
        return ""
    least, jobs = "" if found.next is None else "At least ", len(same.jobs) + same.more_jobs
    return f"{least}{same.count} runs of {jobs} job{'s' * (jobs > 1)} failed so in 24 hours."


async def _usual(visit: Visit, run: Run) -> str:
    """Return how long good runs of the job mostly take; empty if that is unknown, or it does not run."""
    if run.state is RunState.RUNNING:
        with suppress(InvalidInput):  # a run of no job, such as a message
            found = median_of((await visit.service.runs.last([run.job_id], MOST_COMPARED, longest=0))[run.job_id])
            return "" if found is None else duration(found)
    return ""


def _command(run: Run) -> str:
    """Return the command that asks for the same once more."""
    given = [] if run.payload is None else ["--payload", run.payload]
    return shlex.join(["tokimori", "job", "trigger", run.job_id, *given])


def acts_of(run: Run, role: Role, *, is_own: bool = False) -> Sequence[str]:
    """Return the acts on a run in its state. Somebody who may not answer its question can only cancel it.

    `is_own`: the reader asked for it himself, and another one has to approve it.
    """
    state, asked = run.state, run.details.approval
    if state in ENDS:
        return ("runs.retry",)
    if awaits_approval(run) and asked is not None:
        may = role.includes(Role(asked.approver))
        answers = ("runs.refuse",) if is_own else ("runs.approve", "runs.refuse")
        return (*answers, "runs.cancel") if may else ("runs.cancel",)
    if state is RunState.HELD:
        return ("runs.resume", "runs.cancel")
    return ("runs.cancel", "runs.hold") if state in BEFORE_START else ("runs.cancel",)


def _late(details: RunDetails) -> str:
    """Return how much later than due the first attempt that is known began; empty for less than a second."""
    first = next((each.attempt.started for each in details.attempts if each.attempt.started is not None), None)
    late = 0 if first is None or details.attempts_left_out else first - first_due(details.run)
    return duration(late) if late >= 1_000_000 else ""


def _took(details: RunDetails) -> str:
    """Return how long an ended run took, from the first begin to the last end; empty if that is not known."""
    first = next((each.attempt.started for each in details.attempts if each.attempt.started is not None), None)
    is_known = first is not None and details.run.ended is not None and not details.attempts_left_out
    return duration((details.run.ended or 0) - (first or 0)) if is_known and details.run.state in ENDS else ""


def first_due(run: Run) -> Moment:
    """Return when the first attempt was due: later ones have a time of their own."""
    if run.attempt <= 1:
        return run.due
    return run.nominal if asked_by(run.origin) == "schedule" else max(run.nominal, run.created)


def _attempt(visit: Visit, each: AttemptDetails, zone: str) -> AttemptRow:
    attempt = each.attempt
    cpu, memory = cost(attempt.cpu, attempt.memory)
    is_running = attempt.outcome == RunState.RUNNING.value
    return AttemptRow(
        number=attempt.number,
        outcome=attempt.outcome,
        host=each.host or "",
        pid=str(attempt.pid or ""),
        node_id=attempt.node_id or "",
        started=None if attempt.started is None else visit.time(attempt.started, zone),
        ended=None if attempt.ended is None else visit.time(attempt.ended, zone),
        took=lasted(attempt.started, attempt.ended, visit.now, is_running=is_running),
        exit=_exit(attempt.exit_code, attempt.signal),
        error="" if attempt.error is None or is_stock(attempt.error) else attempt.error,
        cost=", ".join(filter(None, (cpu and f"{cpu} CPU", memory and f"{memory} memory"))),
    )


def _exit(code: int | None, signal: int | None) -> str:
    if signal is not None:
        return f"signal {signal}"
    return "" if code is None else f"exit {code}"


class Fall(NamedTuple):
    """A waterfall with its lanes."""

    picture: object
    lanes: Sequence[Lane]


def _fall(visit: Visit, details: RunDetails) -> Fall | None:
    """Return the waterfall of a run; None for one that has not been due yet."""
    run, attempts, now = details.run, details.attempts[-LANES_SHOWN:], visit.now
    begun = [each.attempt for each in attempts if each.attempt.started is not None]
    first = min([first_due(run), *(each.started for each in begun[:1] if each.started is not None)])
    last = max([first, *((each.ended or now) for each in begun), *([now] if run.state not in ENDS else [])])
    if details.attempts_left_out and begun:
        first = begun[0].started or first
    if last <= first:
        return None
    lanes = [] if details.attempts_left_out else [_before(first, begun[0].started if begun else None, last, run.state)]
    before: Moment | None = None
    for each in begun:
        began, ended = each.started or first, each.ended or now
        spans = (
            [Span(before, began, "", f"waits {duration(began - before).removesuffix(' 00 s')}", dash=True)]
            if before
            else []
        )
        tone = _TONES.get(each.outcome, "ok")
        took = duration(ended - began)
        exit_ = _exit(each.exit_code, each.signal)
        sign = "! " if tone == "bad" else "▸ " if tone == "busy" else ""
        label = f"{sign}{exit_ if exit_ and tone == 'bad' else each.outcome}, {took}"
        lanes.append(
            Lane(f"Attempt {each.number}", [*spans, Span(began, ended, tone, label)], label, tone if sign else "")
        )
        before = ended
    begins = visit.time(first, details.time_zone).text.split()[-1].removesuffix(":00")
    return Fall(waterfall(lanes, first, last, begins), lanes)


def _before(due: Moment, began: Moment | None, last: Moment, state: RunState) -> Lane:
    end = last if began is None else began
    wait = end - due
    tone = "amber" if wait >= 1_000_000 else "faint"
    label = f"{duration(wait)} {state if began is None else 'late'}" if wait >= 1_000_000 else "on time"
    return Lane("Before it began", [Span(due, end, tone, label)], label, "amber" if tone == "amber" else "")


SCREENS: Final = (Screen("/runs/{run_id}", "runs", "run.html", show, own=True),)
