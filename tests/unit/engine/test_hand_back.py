"""What a node does not know is handed back, though the store refuses to read some of it."""

import pytest
from msgspec.structs import replace

from tests.unit.engine.test_reap import a_node
from tests.unit.engine.world import World
from tokimori.engine.unsettled import hand_back
from tokimori.errors import StoreRefused
from tokimori.model.ids import ClaimId, Lane, NodeId, RunId, Token
from tokimori.model.policies import Retry
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.working import Claim, Claimed


async def test_a_run_that_cannot_be_read_hinders_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are handed back, and the log names the one that the store refuses."""
    world, me = World(), NodeId("me")
    await world.add("a")
    await world.fire(2)
    first, second = await world.runs("a")
    real = world.store.get_run

    async def get_run(run_id: RunId) -> Run:
        if run_id == first.id:
            raise StoreRefused("a damaged row")
        return replace(await real(run_id), state=RunState.RUNNING, node_id=me, token=Token(1))

    monkeypatch.setattr(world.store, "get_run", get_run)
    keys = [(run.id, Token(1)) for run in (first, second)]
    changes = await hand_back(world.store, keys, me, second.due)
    assert [change.run_id for change in changes] == [second.id]
    assert first.id in caplog.text


@pytest.mark.parametrize(("begun", "state"), [(False, RunState.READY), (True, RunState.FAILED)])
async def test_what_has_begun_here_is_not_begun_again_against_its_word(begun: bool, state: RunState) -> None:
    """A lost reply costs nothing; a run that the store had taken away, and gives back, counts as begun."""
    world, me = World(), NodeId("me")
    job = await world.add("a", retry=Retry(lost_attempts=0))
    await world.fire(1)
    (run,) = await world.runs("a")
    await world.store.register(a_node(me))
    claim = Claim(id=ClaimId("c"), node=me, lanes=(run.lane or Lane(""),), limit=1)
    (claimed,) = await world.store.claim(claim, run.due)
    key = run.id, claimed.run.token
    known = {key: Claimed(run=claimed.run, definition=job.definition)} if begun else {}
    (change,) = await hand_back(world.store, [key], me, run.due, known)
    assert change.state is state
