"""The bound on waiting, as a claim keeps it: no run due more than 200 minutes later overtakes (DESIGN §5)."""

from tests.contract.stores.actors import NOW, Worker, a_request, add_job, later
from tokimori.clock import MINUTE, Moment
from tokimori.model.lanes import rank_of
from tokimori.ports.store import Store


async def test_the_least_urgent_run_is_overtaken_for_200_minutes(store: Store, worker: Worker) -> None:
    """Priority 100 comes before −100 if it is due up to 200 minutes later, and never after that."""
    job = await add_job(store)
    low = await store.add_run(a_request(job, priority=-100, rank=rank_of(NOW, -100)), NOW)
    high = {}
    for minutes in (0, 100, 199, 201, 300):
        due = Moment(NOW + minutes * MINUTE)
        run = a_request(job, due=due, priority=100, rank=rank_of(due, 100))
        high[minutes] = (await store.add_run(run, NOW)).id
    await store.promote(later(400 * 60), 100)
    order = [(await worker.claim(1))[0].run.id for _ in range(6)]
    assert order == [high[0], high[100], high[199], low.id, high[201], high[300]]


async def test_waiting_in_line_does_not_change_the_order(store: Store, worker: Worker) -> None:
    """In the line of a full job the same bound holds."""
    job = await add_job(store, max_running=1)
    low = await store.add_run(a_request(job, priority=-100, rank=rank_of(NOW, -100)), NOW)
    high = {}
    for minutes in (0, 199, 201):
        due = Moment(NOW + minutes * MINUTE)
        run = a_request(job, due=due, priority=100, rank=rank_of(due, 100))
        high[minutes] = (await store.add_run(run, NOW)).id
    await store.promote(later(400 * 60), 100)
    order = []
    for _ in range(4):
        (claimed,) = await worker.claim()
        order.append(claimed.run.id)
        await worker.settle(claimed)
    assert order == [high[0], high[199], low.id, high[201]]
