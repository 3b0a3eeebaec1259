"""The service: all parts of one store, as somebody uses them. What a door can ask for is an operation of a part."""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, Generic, Self

from msgspec.structs import replace

from tokimori.clock import Clock
from tokimori.model.ids import RandomBytes
from tokimori.ports.secrets import Cipher
from tokimori.ports.store import Store
from tokimori.schedules.zones import check_zone
from tokimori.service.audit import Audit
from tokimori.service.calendars import Calendars
from tokimori.service.channels import Channels
from tokimori.service.claims.claims import Claims
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.db import StoreCare
from tokimori.service.events.events import Events
from tokimori.service.expectations import Expectations
from tokimori.service.jobs.jobs import Jobs
from tokimori.service.nodes import Nodes
from tokimori.service.operation import Inside, M, Operation, Part, operations_in
from tokimori.service.queues import Queues
from tokimori.service.runs.runs import Runs
from tokimori.service.schedules import Schedules
from tokimori.service.schema import StoreOnDemand
from tokimori.service.secrets import Secrets
from tokimori.service.semaphores import Semaphores
from tokimori.service.sets.sets import Sets
from tokimori.service.sets.work import work_on
from tokimori.service.shared import Caller, Shared, shared_on
from tokimori.service.store_calls import Now
from tokimori.service.tasks.tasks import Tasks
from tokimori.service.tokens import Tokens
from tokimori.service.validation import Bounds, check_author

PARTS: Final[tuple[type[Part[Any]], ...]] = (
    *(Audit, Calendars, Channels, Claims, Events, Expectations, Jobs, Nodes, Queues),
    *(Runs, Schedules, Secrets, Semaphores, Sets, StoreCare, Tasks, Tokens),
)
MOST_CALLERS: Final = 16
"""Number of other callers whose parts a service caches."""


def table() -> Mapping[str, Operation[Any, Any, Any]]:
    """Return all operations by name, such as `jobs.pause`."""
    return {f"{kind.noun}.{name}": each for kind in PARTS for name, each in operations_in(kind).items()}


class Parts(Generic[M]):
    """All parts, by noun."""

    audit: Audit[M]
    calendars: Calendars[M]
    channels: Channels[M]
    claims: Claims[M]
    events: Events[M]
    expectations: Expectations[M]
    jobs: Jobs[M]
    nodes: Nodes[M]
    queues: Queues[M]
    runs: Runs[M]
    schedules: Schedules[M]
    secrets: Secrets[M]
    semaphores: Semaphores[M]
    sets: Sets[M]
    db: StoreCare[M]
    tasks: Tasks[M]
    tokens: Tokens[M]

    def _take(self, part_of: Callable[[type[Part[Any]]], Part[Any]]) -> None:
        for kind in PARTS:
            setattr(self, kind.noun, part_of(kind))


class Serving(Parts[M]):
    """One store as a caller uses it. `remade` makes the same for another caller."""

    def __init__(
        self,
        shared: Shared | None,
        caller: Caller,
        part_of: Callable[[type[Part[Any]]], Part[Any]],
        remade: Callable[[Caller], Self],
    ) -> None:
        self._shared_or_none, self._caller, self._zone = shared, caller, caller.time_zone
        self._as = lru_cache(maxsize=MOST_CALLERS)(remade)
        self._take(part_of)

    @property
    def _shared(self) -> Shared:
        assert self._shared_or_none is not None  # noqa: S101 over HTTP nobody asks for the store itself
        return self._shared_or_none

    @property
    def time_zone(self) -> str:
        """Return the time zone of jobs that name none."""
        return self._zone

    def acting_as(self, author: str | None) -> Self:
        """Return the same service with another author for its orders. Nothing is opened."""
        check_author(author)
        return self._as(replace(self._caller, author=author))

    def in_zone(self, time_zone: str) -> Self:
        """Return the same service, where jobs that name no time zone are in this one. Raises `InvalidInput`."""
        return self._as(replace(self._caller, time_zone=check_zone(time_zone)))


class Service(Serving[Inside]):
    """One store within a node, and for the command line: moments are integers."""

    @property
    def trusts_time(self) -> bool:
        """Return if the clock of this node may decide now: it has agreed with that of the store."""
        return self._shared.trusts_time()

    def within_bounds(self, bounds: Bounds) -> Self:
        """Return the same service with these bounds of an answer: for a door, not for programs."""
        return self._as(replace(self._caller, bounds=bounds))


def service_on(
    store: Store,
    clock: Clock,
    random: RandomBytes,
    *,
    time_zone: str = "UTC",
    author: str | None = None,
    traceparent: Callable[[], str | None] = lambda: None,
    semaphore_store: StoreOnDemand | None = None,
    now: Now | None = None,
    cipher: Cipher | None = None,
    trusts_time: Callable[[], bool] = lambda: True,
    stops: Callable[[], bool] = lambda: False,
    place: ClaimPlace | None = None,
) -> Service:
    """Return the service on a store: see `Shared` and `Caller`."""
    shared = shared_on(
        store,
        clock,
        random,
        semaphore_store=semaphore_store,
        now=now,
        cipher=cipher,
        trusts_time=trusts_time,
        stops=stops,
        place=place,
    )
    return service_for(shared, Caller(author=author, time_zone=time_zone, traceparent=traceparent))


def service_for(shared: Shared, caller: Caller) -> Service:
    """Return the service for a caller, without rights and without an audit log."""
    parts = parts_for(shared, caller)
    return Service(shared, caller, lambda kind: parts[kind.noun], partial(service_for, shared))


def parts_for(shared: Shared, caller: Caller) -> Mapping[str, Part[Inside]]:
    """Return the parts for a caller, by noun."""
    store, now, random, author = shared.store, shared.now, shared.random, caller.author
    jobs: Jobs[Inside] = Jobs(shared, caller)
    runs: Runs[Inside] = Runs(shared, caller)
    audit: Audit[Inside] = Audit(store, now, random, caller.in_audit_log)
    work = work_on(shared, caller)
    made: tuple[Part[Inside], ...] = (
        *(audit, jobs, runs, shared.events, work.calendars, work.queues, work.semaphores),
        Channels(store, shared.topics, now, random, author),
        Claims(shared.place, random, caller.access_token),
        Expectations(store, now, random),
        Nodes(shared, caller, audit),
        Schedules(shared, caller),
        Secrets(store, now, random, author, shared.cipher),
        Sets(shared, caller, work),
        StoreCare(shared),
        Tasks(jobs, runs, shared, caller),
        Tokens(store, now, random, author),
    )
    return MappingProxyType({part.noun: part for part in made})
