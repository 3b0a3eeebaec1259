"""The bound on waiting, on a whole node and a virtual clock."""

from tests.unit.examples import a_definition
from tokimori.clock import MINUTE
from tokimori.model.outcome import Outcome, Succeeded
from tokimori.model.transitions import RunState
from tokimori.ports.executor import AttemptTask
from tokimori.service.definitions.definitions import fields_of
from tokimori.testing.manual import ManualNode

BOUND = 200 * MINUTE
"""From priority 100 to −100, at a minute for each point."""


async def test_the_least_urgent_run_starts_within_the_bound() -> None:
    """Runs of priority 100, a minute each, come every minute for ever, and some always wait: −100 has its turn."""

    def work(_task: AttemptTask) -> Outcome:
        node.clock.advance(60)
        return Succeeded(0)

    node = ManualNode(work, concurrency=1)
    await node.join()
    stream = a_definition(schedule="* * * * *", max_running=0, priority=100, late_after=86400)
    await node.service.jobs.add("stream", **fields_of(stream))
    await node.service.jobs.add("patient", **fields_of(a_definition(schedule=None, priority=-100)))
    node.clock.advance(300)
    while not any(run.started for run in await node.runs()):
        await node.node.cycle()
    asked = node.clock.now()
    run = await node.service.jobs.trigger("patient")
    while (found := await node.store.get_run(run.id)).state is not RunState.SUCCEEDED:
        assert node.clock.now() < asked + 2 * BOUND
        if await node.node.cycle() > 0:
            node.clock.advance(1)
    waited = (found.started or 0) - asked
    assert BOUND <= waited <= BOUND + 10 * MINUTE
    before = [each for each in await node.runs() if each.started is not None and each.started < (found.started or 0)]
    assert len(before) > 190
    assert all(each.due <= asked + BOUND for each in before)
