"""What running attempts write is kept in the store."""

from collections.abc import Iterable
from math import inf

from tests.unit.examples import a_definition, a_run, seconds
from tokimori.engine.save import Saver
from tokimori.engine.work import Work
from tokimori.model.ids import NodeId
from tokimori.model.run import Output
from tokimori.model.transitions import RunState
from tokimori.ports.executor import Grew
from tokimori.ports.working import Claimed
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

NODE = NodeId("node")


class Kept(MemoryStore):
    """A store that notes what it is to keep."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.kept: list[list[Output]] = []

    async def save_outputs(self, outputs: Iterable[Output]) -> None:
        """See `Working.save_outputs`."""
        self.kept.append(list(outputs))


async def test_the_newest_output_of_each_attempt_is_saved_once() -> None:
    """A step is due as soon as anything was written, saves the newest of it, and then there is none due."""
    work, store = Work(8), Kept()
    saver = Saver(store, work)
    run = a_run(state=RunState.RUNNING, node_id=NODE)
    work.accept([Claimed(run=run, definition=a_definition())], NODE, seconds(0))
    work.next_tasks()
    assert saver.next_at == inf
    for size in (1, 2):
        output = Output(run_id=run.id, attempt=1, size=size, tail=b"x" * size)
        work.take(Grew(run_id=run.id, token=run.token, output=output), NODE, 0.0)
    assert saver.next_at == -inf
    assert not await saver.step(NODE, seconds(1), 1.0)
    assert [[each.size for each in kept] for kept in store.kept] == [[2]]
    assert saver.next_at == inf
    await saver.step(NODE, seconds(2), 2.0)
    assert len(store.kept) == 1
