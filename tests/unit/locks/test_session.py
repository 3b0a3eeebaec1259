"""A program's session on a memory store, in virtual time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest

from tests.simulation.virtual_time import LoopClock, let_pass, run_virtually
from tests.unit.locks.world import Member, a_store
from tokimori.clock import Moment
from tokimori.errors import NotGranted, PermitLost, Refused, StoreUnavailable
from tokimori.locks.membership import IDLE
from tokimori.model.lease import LEASE, TICK_IDLE
from tokimori.ports.nodes import NodeState
from tokimori.ports.semaphores import Answer, Grant, UnitRequest
from tokimori.stores.memory.store import MemoryStore

TAKE_OVER = 10.0
"""Seconds within which a dead holder's units come back."""


def virtually(test: Callable[[MemoryStore], Awaitable[None]]) -> Callable[[], None]:
    """Run the test on a loop of its own, on which nobody waits."""

    @wraps(test)
    def run() -> None:
        async def main() -> None:
            await test(a_store())

        run_virtually(main())

    del run.__wrapped__  # pytest would take its parameters for fixtures
    return run


def seconds() -> float:
    """Since the test began."""
    return asyncio.get_running_loop().time()


async def _later(pause: float, answer: Awaitable[Answer]) -> Answer:
    await let_pass(pause)
    return await answer


async def _done(answer: Answer) -> Answer:
    return answer


async def used(store: MemoryStore, name: str = "table") -> int:
    """How many units are held."""
    return (await store.get_semaphore(name)).used


@virtually
async def test_two_programs_exclude_each_other(store: MemoryStore) -> None:
    """The second gets the unit when the first gives it back, at once, under a larger token."""
    a, b = Member(store), Member(store)
    first = await a.acquire()
    waiting = asyncio.ensure_future(b.acquire())
    await asyncio.wait([waiting], timeout=3)
    assert not waiting.done()
    await a.release()
    second = await waiting
    assert seconds() < 3.6
    assert second.token is not None and first.token is not None
    assert second.token > first.token
    await b.release()
    assert await used(store) == 0


@virtually
async def test_a_program_is_a_node_that_runs_no_jobs(store: MemoryStore) -> None:
    """It joins with its first wish, beats, and leaves when it is closed."""
    a = Member(store, pid=42)
    assert await store.list_nodes() == []
    await a.acquire()
    await let_pass(11)
    (node,) = await store.list_nodes()
    assert (node.pid, node.is_program, node.runs_jobs, node.state) == (42, True, False, NodeState.ALIVE)
    assert node.beat >= 11 / TICK_IDLE - 1
    assert a.renewals == sorted(a.renewals)
    await a.session.close()
    assert await store.list_nodes() == []
    assert await used(store) == 0


@virtually
async def test_who_was_not_served_in_time_stands_in_no_line(store: MemoryStore) -> None:
    """It is told so after its wait, and whoever comes next is not behind it."""
    a, b, c = Member(store), Member(store), Member(store)
    await a.acquire()
    with pytest.raises(NotGranted, match="too few of its units were free"):
        await b.acquire(wait=3)
    assert 3 <= seconds() < 3.1
    with pytest.raises(NotGranted):
        await b.acquire(wait=0)
    assert seconds() < 3.1
    await let_pass(0.1)
    assert (await store.get_semaphore("table")).waiting == 0
    waiting = asyncio.ensure_future(c.acquire())
    await let_pass(0.1)
    with pytest.raises(NotGranted, match="1 stood before it in line"):
        await b.acquire(wait=0)
    waiting.cancel()


@virtually
async def test_who_gives_up_stands_in_no_line(store: MemoryStore) -> None:
    """A task that is cancelled while it waits leaves nothing behind."""
    a, b = Member(store), Member(store)
    await a.acquire()
    waiting = asyncio.ensure_future(b.acquire())
    await asyncio.wait([waiting], timeout=1)
    waiting.cancel()
    await let_pass(0.1)
    assert waiting.cancelled()
    assert (await store.get_semaphore("table")).waiting == 0


@virtually
async def test_an_owner_takes_again_what_it_holds(store: MemoryStore) -> None:
    """Another task of the same program waits; the units are given back with the outermost block."""
    a = Member(store)
    first = await a.acquire()
    assert await a.acquire() is first
    other = asyncio.ensure_future(a.acquire(owner="bob"))
    await a.release()
    await asyncio.wait([other], timeout=2)
    assert not other.done()
    await a.release()
    await other


@virtually
async def test_programs_are_served_in_their_order(store: MemoryStore) -> None:
    """Who came first is served first, whoever asks more often."""
    members = [Member(store) for _ in range(6)]
    await members[0].acquire()
    served: list[int] = []

    async def take(n: int) -> None:
        await let_pass(n / 100)
        await members[n].acquire()
        served.append(n)
        await let_pass(0.3)
        await members[n].release()

    taking = [asyncio.ensure_future(take(n)) for n in range(1, 6)]
    await let_pass(1)
    await members[0].release()
    await asyncio.gather(*taking)
    assert served == [1, 2, 3, 4, 5]


@virtually
async def test_a_limit_is_a_limit(store: MemoryStore) -> None:
    """Never more units than the semaphore has are held, and none is left unused while somebody waits."""
    holding = most = 0

    async def take(member: Member) -> None:
        nonlocal holding, most
        await member.acquire("api", limit=3)
        holding += 1
        most = max(most, holding)
        await let_pass(1)
        holding -= 1
        await member.release("api")

    await asyncio.gather(*(take(Member(store)) for _ in range(12)))
    assert most == 3
    assert seconds() < 4 + 12 * 0.5
    assert await used(store, "api") == 0


@virtually
async def test_the_units_of_a_dead_program_come_back(store: MemoryStore) -> None:
    """Within 10 s of its last sign of life, where only programs are left; also to one that came later."""
    for lived in (4.0, 4.1, 5.0, 5.9, 6.0):
        dead, waits = Member(store), Member(store)
        await dead.acquire()
        await let_pass(0.7)
        waiting = asyncio.ensure_future(waits.acquire())
        await let_pass(lived - 0.7)
        dead.link.away = True
        began = seconds()
        await waiting
        assert LEASE < seconds() - began <= TAKE_OVER
        await waits.session.close()


@virtually
async def test_a_holder_learns_that_it_may_have_lost(store: MemoryStore) -> None:
    """After 5 s without the store, before anybody else can hold it; the flag stays, and the exit is an error."""
    a = Member(store)
    held = await a.acquire()
    await let_pass(3.9)
    a.link.away = True
    await let_pass(LEASE - 2)
    assert (held.lost, a.lost) == (False, [])
    await let_pass(2)
    assert (held.lost, a.lost) == (True, ["table"])
    a.link.away = False
    await let_pass(3)
    assert (held.lost, a.lost) == (True, ["table"])
    with pytest.raises(PermitLost) as lost:
        await a.release()
    assert lost.value.exit_code == 4
    assert a.lost == ["table"]
    await let_pass(1)
    assert await used(store) == 0


@virtually
async def test_a_program_that_was_declared_dead_has_lost_everything(store: MemoryStore) -> None:
    """It learns so with its next beat, and begins anew; what it gives back then frees nobody else's unit."""
    a, b = Member(store), Member(store)
    held = await a.acquire()
    waiting = asyncio.ensure_future(b.acquire())
    await let_pass(1)
    a.link.away = True
    await waiting
    assert held.lost
    a.link.away = False
    await let_pass(3)
    with pytest.raises(PermitLost):
        await a.release()
    assert await used(store) == 1
    again = asyncio.ensure_future(a.acquire())
    await let_pass(1)
    assert not again.done()
    await b.release()
    await again


@virtually
async def test_who_was_frozen_beyond_its_lease_has_lost(store: MemoryStore) -> None:
    """Though its next beat is answered, and nobody has looked between: others may have held it."""
    a = Member(store)
    held = await a.acquire()
    await let_pass(1)
    a.clock.skipped += LEASE
    await let_pass(2)
    assert a.lost == ["table"]
    assert held.lost


@virtually
async def test_the_store_has_the_last_word(store: MemoryStore) -> None:
    """What it has given away is lost, even before its holder could know."""
    a, b = Member(store), Member(store)
    held = await a.acquire()
    await b.acquire("other")
    (beat,) = [node.beat for node in await store.list_nodes() if node.id == a.session.id]
    assert await store.bury(a.session.id, beat, b.session.id, b.session.now)
    assert not held.lost
    with pytest.raises(PermitLost):
        await a.release()


@virtually
async def test_a_grant_that_comes_late_waits_for_a_beat(store: MemoryStore) -> None:
    """While the lease has run out nobody holds anything: the grant counts when the store has answered a beat."""
    a = Member(store)
    await a.acquire("other")
    a.link.lose_call["tick"] = 14

    async def acquire(wish: UnitRequest, now: Moment) -> Answer:
        return await _later(2, store.acquire(wish, now))

    a.link.acquire = acquire  # type: ignore[attr-defined]
    await let_pass(4)
    held = await a.acquire()
    assert seconds() > 8
    assert not held.lost


@virtually
async def test_a_grant_of_a_life_that_is_over_is_none(store: MemoryStore) -> None:
    """Its reply comes after the program was declared dead and has begun anew: it asks again."""
    a, b = Member(store), Member(store)
    await a.acquire("other")
    await b.acquire("another")
    slow = [True]

    async def acquire(wish: UnitRequest, now: Moment) -> Answer:
        answer = await store.acquire(wish, now)
        return await _later(14, _done(answer)) if slow and slow.pop() else answer

    a.link.acquire = acquire  # type: ignore[attr-defined]
    a.link.lose_call["tick"] = 20
    late = asyncio.ensure_future(a.acquire())
    await let_pass(13)
    await a.acquire("third", owner="bob")
    held = await late
    assert not held.lost
    assert (await store.get_semaphore("table")).used == 1


@virtually
async def test_a_grant_whose_reply_was_lost_is_held(store: MemoryStore) -> None:
    """Asked again by the same id it is the same grant: nobody waits for itself."""
    a = Member(store)
    a.link.lose_reply["acquire"] = 2
    held = await a.acquire(wait=5)
    assert not held.lost
    assert (await store.get_semaphore("table")).used == 1
    await a.release()


@virtually
async def test_what_could_not_be_given_back_is_given_back_later(store: MemoryStore) -> None:
    """The block ends at once; the store hears of it as soon as it answers again."""
    a, b = Member(store), Member(store)
    await a.acquire()
    a.link.lose_call["release"] = 2
    await a.release()
    assert await used(store) == 1
    held = await asyncio.wait_for(b.acquire(), 2)
    assert (held.lost, await used(store)) == (False, 1)


@virtually
async def test_a_wish_that_comes_late_is_given_back_too(store: MemoryStore) -> None:
    """A question that its program gave up may still reach the store: what it gets does not stay with nobody."""
    a = Member(store)
    late: list[asyncio.Task[Answer]] = []

    async def acquire(wish: UnitRequest, now: Moment) -> Answer:
        if not late:
            late.append(asyncio.ensure_future(_later(2, store.acquire(wish, now))))
        raise StoreUnavailable("the connection broke")

    a.link.acquire = acquire  # type: ignore[attr-defined]
    with pytest.raises(NotGranted, match="the store did not answer"):
        await a.acquire(wait=1)
    assert isinstance(await late[0], Grant)
    await let_pass(1)
    assert await used(store) == 0


@virtually
async def test_a_store_that_is_away_at_first_is_an_error(store: MemoryStore) -> None:
    """Who never reached the store is told so instead of waiting."""
    a = Member(store)
    a.link.away = True
    with pytest.raises(StoreUnavailable):
        await a.acquire()
    a.link.away = False
    await a.acquire()
    assert await used(store) == 1


@virtually
async def test_the_store_may_be_away_while_somebody_waits(store: MemoryStore) -> None:
    """A place in line lives through a restart of the store."""
    a, b = Member(store), Member(store)
    await a.acquire()
    waiting = asyncio.ensure_future(b.acquire())
    await let_pass(1)
    b.link.away = True
    await let_pass(3)
    b.link.away = False
    await a.release()
    async with asyncio.timeout(TAKE_OVER):
        assert not (await waiting).lost


@virtually
async def test_another_limit_is_refused(store: MemoryStore) -> None:
    """Who states a limit means that one, and no weight is above it."""
    a, b = Member(store), Member(store)
    await a.acquire("api", limit=5)
    with pytest.raises(Refused, match="limit"):
        await b.acquire("api", limit=4)
    with pytest.raises(Refused, match="never fit"):
        await b.acquire("api", weight=6)
    assert (await store.get_semaphore("api")).waiting == 0


@virtually
async def test_an_idle_program_leaves(store: MemoryStore) -> None:
    """After a minute without a lock it is no node any more, and joins again with the next one."""
    a = Member(store)
    await a.acquire()
    await let_pass(2 * IDLE)
    assert len(await store.list_nodes()) == 1
    await a.release()
    await let_pass(IDLE + 2 * TICK_IDLE)
    assert await store.list_nodes() == []
    await a.acquire()
    assert len(await store.list_nodes()) == 1


@virtually
async def test_the_line_goes_by_the_stores_clock(store: MemoryStore) -> None:
    """A program whose clock is an hour slow does not come before those that came before it."""
    a, right, slow = Member(store), Member(store), Member(store, offset=-3600)
    await a.acquire()
    first = asyncio.ensure_future(right.acquire())
    await let_pass(1)
    second = asyncio.ensure_future(slow.acquire())
    await let_pass(1)
    await a.release()
    await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
    assert (first.done(), second.done()) == (True, False)
    second.cancel()


@pytest.mark.parametrize("has_rank", [False, True])
def test_a_place_by_a_clock_that_was_ahead_is_not_behind_all_who_come_later(has_rank: bool) -> None:
    """The store's clock is two days ahead while a program comes into the line, then right: it is served in its turn.

    So it is with a place of its own, as a node has one for its runs.
    """
    run_virtually(served_in_turn(has_rank=has_rank))


async def served_in_turn(*, has_rank: bool) -> None:
    """See the test."""
    clock = LoopClock(2 * 86_400)
    store = MemoryStore(clock)
    a, early, late = Member(store), Member(store), Member(store)
    await a.acquire()
    first = asyncio.ensure_future(early.acquire(rank=a.session.now if has_rank else None))
    await let_pass(1)
    clock.offset = 0
    await let_pass(10)
    second = asyncio.ensure_future(late.acquire())
    await let_pass(1)
    assert (await store.get_semaphore("table")).waiting == 2, "the old place is given up"
    await a.release()
    await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
    assert (first.done(), second.done(), await used(store)) == (True, False, 1)
    await early.release()
    await second


@virtually
async def test_an_observer_that_was_frozen_condemns_nobody(store: MemoryStore) -> None:
    """What it did not see it does not count, though its own clock went on."""
    a, b = Member(store), Member(store)
    await a.acquire()
    waiting = asyncio.ensure_future(b.acquire())
    await let_pass(4.1)
    a.link.lose_call["tick"] = 5
    b.clock.skipped += 8
    await let_pass(6)
    assert not waiting.done()
    waiting.cancel()


@virtually
async def test_an_observer_that_was_late_condemns_nobody(store: MemoryStore) -> None:
    """Who could not look for a while counts the silence of others from when it looks again."""
    a, b = Member(store), Member(store)
    await a.acquire()
    waiting = asyncio.ensure_future(b.acquire())
    await let_pass(5)
    a.link.away = b.link.away = True
    await let_pass(8)
    b.link.away = False
    await let_pass(1)
    a.link.away = False
    await let_pass(8)
    assert not waiting.done()
    waiting.cancel()


@virtually
async def test_an_outage_is_told_once(store: MemoryStore) -> None:
    """However often the store is asked meanwhile, by however many; and again when it is the next one."""
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    handler.setLevel(logging.WARNING)
    logger = logging.getLogger("tokimori.locks.membership")
    logger.addHandler(handler)
    try:
        a, b = Member(store), Member(store)
        await a.acquire()
        waiting = [asyncio.ensure_future(b.acquire(owner=owner)) for owner in ("x", "y")]
        for _ in range(2):
            await let_pass(1)
            b.link.away = True
            await let_pass(4)
            b.link.away = False
            await let_pass(4)
    finally:
        logger.removeHandler(handler)
        for each in waiting:
            each.cancel()
    assert [text for text in told if "is away" in text] == [
        "the store of the semaphores is away: acquire: nobody answers"
    ] * 2
