"""What deletes waits where the store's time may have leapt."""

import pytest

from tests.unit.examples import NEW_YEAR, a_run
from tokimori.clock import DAY, HOUR, MINUTE, Moment
from tokimori.engine.duty import BELIEVED, STEADY, SureTime
from tokimori.model.ids import NodeId, RunId, uuid7
from tokimori.model.transitions import RunState
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

NODE = NodeId("n")


class Counted:
    """A duty that is always due."""

    def __init__(self) -> None:
        self.steps, self.next_at = 0, 0.0

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`."""
        self.steps += 1
        return False


@pytest.mark.parametrize(
    ("ages", "steady", "steps"),
    [
        ([], 5, 1),
        ([2 * HOUR], 5, 1),
        ([3 * DAY], 5, 0),
        ([3 * DAY, MINUTE], 5, 0),  # the last one was made by the clock that may be ahead
        ([3 * DAY], STEADY, 1),
    ],
)
async def test_nothing_is_deleted_where_the_time_may_have_leapt(ages: list[int], steady: float, steps: int) -> None:
    """Where the runs of before the last hour are over a day older, until the time has run steadily for an hour."""
    store, duty = MemoryStore(VirtualClock()), Counted()
    for number, age in enumerate(ages):
        run_id = RunId(uuid7(Moment(NEW_YEAR - age), lambda size: b"\0" * size))
        store._tables.add(a_run(id=run_id, state=RunState.WAITING, origin=f"m:{number}"))
    sure = SureTime(duty, store, lambda at: steady + at)
    await sure.step(NODE, NEW_YEAR, 0.0)
    assert (duty.steps, sure.next_at) == (steps, 0.0 if steps else BELIEVED)
    await sure.step(NODE, NEW_YEAR, STEADY)
    assert duty.steps == steps + 1
