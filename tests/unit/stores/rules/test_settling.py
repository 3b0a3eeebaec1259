"""Settles: whose change of a run holds."""

import pytest
from msgspec.structs import replace

from tests.unit.examples import a_run
from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId, NodeId, RunId, Token
from tokimori.model.run import Details
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeState
from tokimori.ports.working import Change, Verdict
from tokimori.stores.rules.settling import SettleFacts, ending, judge, judged, settled_run

OWNER, OTHER = NodeId("owner"), NodeId("other")
HELD = SettleFacts(state="running", node_id=OWNER, token=Token(2), settled_by=None, settled_token=None)


def a_change(**terms: object) -> Change:
    """What the owner would write as the end of a run that it holds."""
    known = {
        "run_id": RunId("run"),
        "job_id": JobId("job"),
        "incarnation": Incarnation(1),
        "owner": OWNER,
        "token": Token(2),
        "state": RunState.SUCCEEDED,
        "due": Moment(0),
        "rank": 0,
        "failures": 0,
        "lost": 0,
        "ended": Moment(0),
    }
    return Change(**{**known, **terms})  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [None, NodeState.DEAD, NodeState.LEFT])
def test_what_no_living_node_owns_any_living_one_settles(state: NodeState | None) -> None:
    """A run whose owner is dead, has left, or was forgotten is taken over; one whose owner lives is not."""
    nodes = {OTHER: NodeState.ALIVE} | ({} if state is None else {OWNER: state})
    assert judge(a_change(), HELD, OTHER, nodes) is Verdict.APPLIED
    assert judge(a_change(), HELD, OTHER, nodes | {OWNER: NodeState.ALIVE}) is Verdict.LOST


@pytest.mark.parametrize("state", [None, NodeState.DEAD, NodeState.LEFT])
def test_who_does_not_live_settles_nothing(state: NodeState | None) -> None:
    """Not even what it owns, nor what a dead node owns."""
    nodes = {} if state is None else {OWNER: state}
    assert judge(a_change(), HELD, OWNER, nodes) is Verdict.LOST
    assert judge(a_change(owner=OTHER), replace(HELD, node_id=OTHER), OWNER, nodes) is Verdict.LOST


@pytest.mark.parametrize(
    "standing",
    [
        None,
        replace(HELD, state=""),
        replace(HELD, node_id=OTHER),
        replace(HELD, token=Token(1)),
        replace(HELD, token=Token(3)),
        replace(HELD, state="", settled_by=OTHER, settled_token=Token(2)),
        replace(HELD, state="", settled_by=OWNER, settled_token=Token(1)),
    ],
)
def test_a_change_holds_only_where_the_run_is_as_it_was_claimed(standing: SettleFacts | None) -> None:
    """Running, with that owner and that token."""
    nodes = {OWNER: NodeState.ALIVE}
    assert judge(a_change(), standing, OWNER, nodes) is Verdict.LOST
    assert judge(a_change(), HELD, OWNER, nodes) is Verdict.APPLIED


def test_what_was_settled_before_is_known_also_from_the_dead() -> None:
    """A settle that is asked again was applied, whatever became of its node meanwhile."""
    settled = replace(HELD, state="", settled_by=OWNER, settled_token=Token(2))
    assert judge(a_change(), settled, OWNER, {OWNER: NodeState.DEAD}) is Verdict.ALREADY_APPLIED


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.CANCELLED])
def test_an_end_without_failure_stays_what_it_is(state: RunState) -> None:
    """Neither an order to cancel nor the deletion of the job changes it."""
    change = a_change(state=state, error="said")
    assert ending(change, cancel="ordered", job_exists=False) == (state, "said")


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.SKIPPED, RunState.WAITING, RunState.READY, RunState.HELD])
def test_an_order_to_cancel_wins_over_everything_else(state: RunState) -> None:
    """With the words of the order."""
    change = a_change(state=state, error="said")
    assert ending(change, cancel="ordered", job_exists=True) == (RunState.CANCELLED, "ordered")
    assert ending(change, cancel=None, job_exists=True) == (state, "said")


@pytest.mark.parametrize(("state", "goes_on"), [(RunState.FAILED, False), (RunState.WAITING, True)])
def test_without_its_job_a_run_does_not_go_on(state: RunState, *, goes_on: bool) -> None:
    """What would go on is cancelled; what ends, ends as it would."""
    after = ending(a_change(state=state, error="said"), cancel=None, job_exists=False)
    assert after == ((RunState.CANCELLED, "the job was deleted") if goes_on else (state, "said"))


def test_each_change_is_judged_after_those_before_it() -> None:
    """One that is refused changes nothing for the next of its run; one that holds is not written twice."""
    stale, fresh = a_change(token=Token(1)), a_change()
    nodes = {OWNER: NodeState.ALIVE}
    verdicts = judged([stale, fresh, fresh, stale], {RunId("run"): HELD}, OWNER, nodes)
    assert verdicts == [Verdict.LOST, Verdict.APPLIED, Verdict.ALREADY_APPLIED, Verdict.LOST]


def test_what_a_change_says_is_written() -> None:
    """All of it, to the run; what it does not know of the start and the details stays."""
    run = a_run(state=RunState.RUNNING, started=Moment(3), pid=4, details=Details(tzdata="before"))
    told = {"due": Moment(11), "rank": 12, "failures": 13, "lost": 14, "exit_code": 15, "signal": 16}
    change = a_change(**told, ended=Moment(17), result="result")
    after = settled_run(run, change, RunState.SUCCEEDED, "said")
    assert {name: getattr(after, name) for name in told} == told
    assert (after.state, after.error, after.ended, after.result) == (RunState.SUCCEEDED, "said", 17, "result")
    assert (after.started, after.pid, after.details) == (3, 4, run.details)


def test_a_change_may_know_more_than_the_run() -> None:
    """Its start, its process and its details take the place of the run's; what goes on has neither end nor result."""
    run = a_run(state=RunState.RUNNING, started=Moment(3), pid=4, details=Details(tzdata="before"))
    change = a_change(started=Moment(5), pid=6, details=Details(tzdata="after"), ended=Moment(17), result="result")
    after = settled_run(run, change, RunState.WAITING, None)
    assert (after.started, after.pid, after.details) == (5, 6, Details(tzdata="after"))
    assert (after.state, after.ended, after.result) == (RunState.WAITING, None, None)
