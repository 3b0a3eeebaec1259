"""Programs claim in a store where no node runs."""

import os

import pytest

from tokimori.clock import MINUTE, Clock, Moment
from tokimori.errors import ClaimLost
from tokimori.locks.membership import Program
from tokimori.model.transitions import RunState
from tokimori.ports.store import Store
from tokimori.service.claims.claims import Claims
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.claims.timekeeping import Timekeeper
from tokimori.service.operation import Inside
from tokimori.service.service import service_on
from tokimori.testing.manual import VirtualClock


def place_on(store: Store, clock: Clock, pid: int) -> ClaimPlace:
    """The place of a program."""
    program = Program(host="h", boot_id="b", pid=pid, version="0")
    return ClaimPlace(store, clock, os.urandom, program, timekeeper=Timekeeper(store, clock, os.urandom))


async def test_who_says_nothing_loses_its_slot(store: Store) -> None:
    """Past slots come one at a time, the oldest first; a silent program's goes to another one, and its word is void."""
    now = await store.now()
    clocks = [VirtualClock(now), VirtualClock(now)]
    service = service_on(store, clocks[0], os.urandom)
    since = Moment(now - now % MINUTE - 2 * MINUTE)
    await service.jobs.add_since("a", since, schedule="* * * * *", function="f", misfire="all", on_overlap="queue")
    places = [place_on(store, clock, pid) for pid, clock in enumerate(clocks)]
    silent, other = (Claims[Inside](place, os.urandom) for place in places)

    (first,) = await silent.claim(None, queue="default", alive_time=300)
    assert (first.nominal, first.type) == (since, "f")
    assert await other.claim(None) == []
    clocks[0].advance(300)
    await places[0]._membership.cycle()
    assert (await store.get_run(first.run_id)).lost == 1
    (again,) = await other.claim(["f"])
    assert (again.run_id, again.attempt, again.token) == (first.run_id, 2, 2)
    with pytest.raises(ClaimLost):
        await silent.finish(first.run_id, first.token)
    assert await other.finish(again.run_id, again.token) is RunState.SUCCEEDED
    (following,) = await other.claim(["f"])
    assert following.nominal == since + MINUTE
    for place in places:
        await place.close()
