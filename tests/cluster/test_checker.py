"""The checker finds each broken promise, and nothing in a history that keeps them all."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from tests.cluster.checker import FaultKind, History, Ledger, WrittenLine, check, take_overs
from tests.unit.examples import a_run, seconds
from tokimori.model.ids import JobId, NodeId, RunId, Token
from tokimori.model.run import Attempt, Run, Skip, SkipReason
from tokimori.model.transitions import RunState

NODE = NodeId("node")
FIRST, SECOND_RUN = RunId("first"), RunId("second")


def ended(run_id: RunId, at: float, **changes: object) -> Run:
    """A run of the occurrence at this second that began with it and succeeded."""
    terms = {"state": RunState.SUCCEEDED, "attempt": 1, "started": seconds(at), "ended": seconds(at + 1)}
    return a_run(**{"id": run_id, "nominal": seconds(at), **terms, **changes})


def line(run_id: RunId, nominal: float, **changes: object) -> WrittenLine:
    """What its first attempt wrote."""
    terms = {"attempt": 1, "began": seconds(nominal), "ended": seconds(nominal + 1)}
    return WrittenLine(**{"run_id": run_id, "nominal": seconds(nominal), **terms, **changes})  # type: ignore[arg-type]


def attempt(number: int, outcome: str, at: float) -> Attempt:
    """An attempt at the second run that ended at this second."""
    return Attempt(
        run_id=SECOND_RUN, number=number, token=Token(number), node_id=NODE, outcome=outcome, ended=seconds(at)
    )


LEDGER = Ledger(
    job_id=JobId("job"),
    expected=[seconds(1), seconds(2)],
    tolerated=[seconds(3)],
    runs=[ended(FIRST, 1), ended(SECOND_RUN, 2, attempt=2, started=seconds(10))],
    skips=[],
    writes_lines=True,
)
LOST = [attempt(1, "lost", 9), attempt(2, "succeeded", 11)]
LINES = [
    line(FIRST, 1),
    line(SECOND_RUN, 2, ended=None),
    line(SECOND_RUN, 2, attempt=2, began=seconds(10), ended=seconds(11)),
]
GOOD = History(ledgers=[LEDGER], attempts={SECOND_RUN: LOST}, lines=LINES, silences={NODE: [seconds(2.5)]})


def told(history: History) -> set[FaultKind]:
    """Which promises were broken."""
    return {fault.kind for fault in check(history)}


def ledger(**changes: object) -> History:
    """The good history with another ledger."""
    return replace(GOOD, ledgers=[replace(LEDGER, **changes)])  # type: ignore[arg-type]


def first(**changes: object) -> History:
    """The good history with another first run."""
    return ledger(runs=[msgspec.structs.replace(LEDGER.runs[0], **changes), LEDGER.runs[1]])


def lines(*more: WrittenLine, without: Sequence[WrittenLine] = ()) -> History:
    """The good history with other lines."""
    return replace(GOOD, lines=[each for each in LINES if each not in without] + list(more))


def attempts(*rows: Attempt) -> History:
    """The good history with other attempts at the second run."""
    return replace(GOOD, attempts={SECOND_RUN: rows})


def test_nothing_is_wrong_with_a_good_history() -> None:
    """A run that was taken over from a dead node in time is no fault."""
    assert check(GOOD) == []
    assert [one.seconds for one in take_overs(GOOD)] == [7.5]


def test_an_attempt_that_never_began_is_no_fault() -> None:
    """A node that never heard of its claim hands it back: the run is at its second attempt, and began once."""
    history = replace(first(attempt=2), lines=lines(line(FIRST, 1, attempt=2), without=[LINES[0]]).lines)
    assert check(history) == []


SKIP = Skip(first=seconds(1), last=seconds(1), count=1, reason=SkipReason.MISFIRE)
BAD = {
    "an occurrence that is no run": (ledger(expected=[seconds(n) for n in (1, 2, 3)]), FaultKind.MISSED),
    "a skip": (ledger(skips=[SKIP]), FaultKind.MISSED),
    "two runs of an occurrence": (
        ledger(runs=[*LEDGER.runs, ended(RunId("third"), 1)]),
        FaultKind.DOUBLED,
    ),
    "a run of no occurrence": (ledger(expected=[seconds(2)]), FaultKind.OTHER),
    "a run that failed": (first(state=RunState.FAILED), FaultKind.OTHER),
    "a run that has not ended": (first(state=RunState.RUNNING), FaultKind.OTHER),
    "a run that began early": (first(started=seconds(0.9)), FaultKind.EARLY),
    "a line from before its time": (
        lines(line(FIRST, 1, began=seconds(0.9)), without=[LINES[0]]),
        FaultKind.EARLY,
    ),
    "a run that wrote nothing": (lines(without=[LINES[0]]), FaultKind.MISSED),
    "a run that never wrote its end": (
        lines(line(FIRST, 1, ended=None), without=[LINES[0]]),
        FaultKind.MISSED,
    ),
    "a line of a run that nobody knows": (lines(line(RunId("ghost"), 1)), FaultKind.OTHER),
    "an attempt that began twice": (lines(line(FIRST, 1, began=seconds(1.5))), FaultKind.DOUBLED),
    "an attempt after a good one": (lines(line(FIRST, 1, attempt=2, began=seconds(3))), FaultKind.DOUBLED),
    "an attempt that nobody gave back": (attempts(attempt(1, "failed", 9), LOST[1]), FaultKind.DOUBLED),
    "a second start in a run that does not know": (first(attempt=2), FaultKind.DOUBLED),
    "a token that did not grow": (
        attempts(LOST[0], msgspec.structs.replace(LOST[1], token=Token(1))),
        FaultKind.OTHER,
    ),
    "two attempts at once though none was lost": (
        replace(
            lines(line(SECOND_RUN, 2, ended=seconds(10.5)), without=[LINES[1]]),
            attempts={SECOND_RUN: [attempt(1, "released", 9), LOST[1]]},
        ),
        FaultKind.DOUBLED,
    ),
    "a node that is alive after it has stopped": (replace(GOOD, alive=[NODE]), FaultKind.OTHER),
    "a take-over that is late": (replace(GOOD, silences={NODE: [seconds(-0.1)]}), FaultKind.TAKE_OVER),
    "a take-over from a node that was not silent": (replace(GOOD, silences={}), FaultKind.TAKE_OVER),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_found(case: str) -> None:
    """And it is said which promise was broken."""
    history, kind = BAD[case]
    assert kind in told(history)


def test_what_was_due_as_the_schedule_ended_may_have_run() -> None:
    """Between asking for an edit and its acknowledgement both definitions are right."""
    third = RunId("third")
    history = ledger(runs=[*LEDGER.runs, ended(third, 3)])
    assert check(replace(history, lines=[*LINES, line(third, 3)])) == []


def test_two_attempts_at_once_are_right_after_a_loss() -> None:
    """A frozen node's process goes on beside the run's next attempt: that is what `lost` says."""
    assert check(lines(line(SECOND_RUN, 2, ended=seconds(10.5)), without=[LINES[1]])) == []
