"""Values that all parts of the service share, made once for a store, and their caller: each part is made of both."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from tokimori.clock import Clock
from tokimori.model.access_token import Role
from tokimori.model.ids import RandomBytes
from tokimori.ports.secrets import Cipher
from tokimori.ports.store import Store
from tokimori.service.access import Judge
from tokimori.service.channels import Topics
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.events.events import Events, events_of
from tokimori.service.long_work import Aside
from tokimori.service.operation import Inside
from tokimori.service.schema import StoreOnDemand
from tokimori.service.store_calls import Now, StoreTime, known_job
from tokimori.service.validation import OF_A_PROGRAM, Bounds
from tokimori.service.view_cache import Foreseen, KnownDurations
from tokimori.service.waits import Waits


class Shared(Struct, frozen=True, kw_only=True):
    """A store with its time, its caches and its feed of events.

    `now` returns the time by which jobs fire; `clock` only measures durations. Semaphores may be in a store of their
    own (`semaphore_store`). `cipher` encrypts secrets. `trusts_time` returns whether the node's clock may decide now.
    `place` serves claims of workers, if there is one.
    """

    store: Store
    clock: Clock
    random: RandomBytes
    now: Now
    semaphore_store: StoreOnDemand | None
    cipher: Cipher | None
    trusts_time: Callable[[], bool]
    place: ClaimPlace | None
    aside: Aside
    foreseen: Foreseen
    durations: KnownDurations
    topics: Topics
    events: Events[Inside]
    waits: Waits

    @property
    def apart(self) -> bool:
        """Return if semaphores are in a store of their own."""
        return self.semaphore_store is not None

    async def store_of_semaphores(self) -> Store:
        """Return the store that keeps semaphores. It is opened when it is first needed."""
        return self.store if self.semaphore_store is None else await self.semaphore_store.opened()


class Caller(Struct, frozen=True, kw_only=True):
    """A person or program that uses the service. `author` is recorded with every order.

    `parent` returns the parent of runs whose request names none, `traceparent` the program's place in a trace. `judge`
    refuses jobs that a caller of this `role` may not make. `access_token` is the name of the caller's token.
    """

    author: str | None = None
    time_zone: str = "UTC"
    parent: Callable[[], str | None] = lambda: None
    traceparent: Callable[[], str | None] = lambda: None
    judge: Judge | None = None
    role: Role = Role.ADMIN
    bounds: Bounds = OF_A_PROGRAM
    access_token: str | None = None
    recorded_as: str | None = None

    @property
    def in_audit_log(self) -> str | None:
        """Return the caller's name in the audit log, by default the author."""
        return self.recorded_as or self.author


def shared_on(
    store: Store,
    clock: Clock,
    random: RandomBytes,
    *,
    semaphore_store: StoreOnDemand | None = None,
    now: Now | None = None,
    cipher: Cipher | None = None,
    trusts_time: Callable[[], bool] = lambda: True,
    stops: Callable[[], bool] = lambda: False,
    place: ClaimPlace | None = None,
) -> Shared:
    """Return what parts on a store share, by default with its time; `stops` returns whether its node stops."""
    time: Now = StoreTime(store.now, clock) if now is None else now
    return Shared(
        store=store,
        clock=clock,
        random=random,
        now=time,
        semaphore_store=semaphore_store,
        cipher=cipher,
        trusts_time=trusts_time,
        place=place,
        aside=Aside(),
        foreseen=Foreseen(store.mark),
        durations=KnownDurations(),
        topics=Topics(store, random),
        waits=Waits(store, stops),
        events=events_of(store, clock, random, now=time, job_of=partial(known_job, store), stops=stops),
    )
