"""Wiring of a node: the only module that knows stores, executors, doors and the engine."""

import asyncio
import gc
import logging
import os
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tokimori.api.connections import most_connections
from tokimori.client.opening import make_state_dir, stores_on, this_program
from tokimori.clock import Clock
from tokimori.config.secrets import keyring_of
from tokimori.config.settings import Settings
from tokimori.engine.lookout import Rhythm
from tokimori.engine.refusals import log_refusal
from tokimori.engine.trim import StreamRetention
from tokimori.errors import Refused, StoreUnavailable
from tokimori.executors.client import ClientExecutor
from tokimori.executors.executors import executors_of
from tokimori.executors.functions.attempts import handlers_of
from tokimori.executors.functions.executor import FunctionExecutor
from tokimori.executors.functions.wire import Hello
from tokimori.executors.http.addresses import networks_of
from tokimori.executors.http.callbacks import Callbacks
from tokimori.executors.http.executor import HttpExecutor
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.secrets import Hide, SecretExecutor
from tokimori.locks.session import Session
from tokimori.logs.setup import NOT_ON_STDERR
from tokimori.model.lanes import APART_LABEL
from tokimori.node.checkup import answered
from tokimori.node.functions import Functions, declare_jobs
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.node.semaphores_apart import ApartExecutor, ApartSource
from tokimori.node.stopping import Phase, Stopping, note_signals, reload_by_signals, stopped_by_signals
from tokimori.node.units import Stock
from tokimori.ports.executor import Executor
from tokimori.ports.meter import UNMETERED
from tokimori.ports.store import Store
from tokimori.ports.work_source import WorkSource
from tokimori.randomness import Randomness
from tokimori.service.claims.place import MOST_WAITING, ClaimPlace
from tokimori.service.doors.reboot import trigger_reboot
from tokimori.service.schema import StoreOnDemand, open_prepared
from tokimori.service.search.runs import parent_runs
from tokimori.service.secrets import Vault
from tokimori.service.service import Service, service_on
from tokimori.service.tasks.builds import Builds
from tokimori.traces.spans import traced

_STDOUT = 1
YOUNG = 10_000
"""Number of new objects at which the collector looks through them (Python 3.11: 700). A claim brings some 5,000,
nearly all of which are freed without it: to look through them took 7 % of what a no-op takes the node. But garbage in
cycles waits for it: with 20,000 what 1,200 broken uploads of 0.9 MB left took up to 127 MB."""
YOUNG_LOOKS = 50
"""Number of these looks after which it also looks through the objects that they have left (Python 3.11: 10)."""


def spare_the_collector() -> None:
    """Keep loaded objects from the collector, and let it look rarely: its looks hold up the loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, YOUNG_LOOKS)


log = logging.getLogger(__name__)


@asynccontextmanager
async def asked_beside(ask: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Ask the store until it has answered once, while this lasts. A refusal ends no node."""
    asking = asyncio.create_task(_ask(ask))
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _ask(ask: Callable[[], Awaitable[object]]) -> None:
    try:
        await answered(ask)
    except Exception as fault:
        log_refusal(log, f"not all that runs when this machine starts could be asked for: {fault}", fault)


if TYPE_CHECKING:
    from tokimori.metrics import Metrics
    from tokimori.node.http_door import OpenDoor


_LOOK = 0.1
"""Seconds between two looks of a stopping node at the runs of workers elsewhere."""
Announce = Callable[[str], None]
"""Shows one line to the person who started the node."""


def _hides_nothing(_: Iterable[str]) -> None:
    """Do nothing: there is no log."""


async def serve(
    settings: Settings,
    announce: Announce,
    clock: Clock,
    joined: Callable[[], None] = lambda: None,
    *,
    shows_secret: bool = False,
    hide: Hide = _hides_nothing,
    again: Callable[[], Settings] | None = None,
) -> int:
    """Run a node until TERM, INT or QUIT: the first drains, a second releases all runs. Return the exit code.

    It waits for a store that is away; a fault that only a person can mend raises `StoreError`. `joined` is called when
    it has joined, `hide` with texts that its log must not show, and `again` reads the settings anew when new code takes
    over. `shows_secret`: the announced address carries the secret.
    """
    note_signals()
    make_state_dir(settings.state_dir)
    functions, callbacks = Functions(settings, clock, os.urandom, again or (lambda: settings)), Callbacks()
    store, semaphore_store = stores_on(settings, clock, again)
    await _open_once_there(store, settings, announce)
    try:
        service = service_of(store, semaphore_store, settings=settings, clock=clock)
        executor: Executor = _executors(settings, clock, functions, callbacks, store, service=service, hide=hide)
        source: WorkSource = store
        app = await _loaded(functions)
        identity, stopping = identity_of(settings, app), Stopping(clock, settings.node.stop_grace)
        if semaphore_store is not None:
            stock = stock_of(semaphore_store, executor, stopping, clock)
            source = ApartSource(store, stock, os.urandom, service.jobs.refresh)
            executor = ApartExecutor(executor, stock, clock)
            await _look_at(semaphore_store, announce)
        rhythm, place, metrics = rhythm_of(settings), place_of(store, clock, stopping), metrics_of(settings)
        meter, random = metrics or UNMETERED, Randomness()
        node = Node(
            store, executor, clock, random, identity, rhythm=rhythm, source=source, stopping=stopping, meter=meter
        )
        _introduce(node, functions.executor)
        await executor.open(node.receive)
        try:
            _warn(store)
            # The door first: a port that is taken leaves no node behind.
            await declare_jobs(service, app)
            async with (
                functions.followed(partial(_take, node, functions), partial(declare_jobs, service)),
                _door_of(
                    node, store, semaphore_store, settings, clock, callbacks=callbacks, metrics=metrics, place=place
                ) as door,
            ):
                lines = () if door is None else door.announcement(with_secret=shows_secret)
                rest = partial(_rest, place, stopping, settings.http.drain)
                await _take_part(node, store, service, lines, announce, joined=joined, rest=rest)
            _announce_and_log(announce, f"Node {node.id} has stopped.")
        finally:
            await executor.close()
    finally:
        if semaphore_store is not None:
            await semaphore_store.close()
        await store.close()
    return 0


def _log_quietly(line: str) -> None:
    """Log lines that a person at the terminal sees elsewhere, or need not see."""
    log.info("%s", line, extra=NOT_ON_STDERR)


def _announce_and_log(announce: Announce, line: str) -> None:
    announce(line)
    _log_quietly(line)


def _warn(store: Store) -> None:
    for fault in store.faults():
        log.warning("%s", fault)


async def _loaded(functions: Functions) -> Hello | None:
    """Return the app that the settings name. A signal loads its code anew."""
    app = await functions.executor.load()
    if app is not None:
        reload_by_signals(functions.reload)
    return app


async def _open_once_there(store: Store, settings: Settings, announce: Announce) -> None:
    """Open the store as soon as it answers. Raises `Refused` once the program that the node works for is gone."""
    if not await answered(lambda: open_prepared(store), wanted=lambda: _has_program(settings), report=announce):
        raise Refused("app: the program that this node works for is gone")


def _has_program(settings: Settings) -> bool:
    """Return whether the program that has this node as its child, and reads its output, is there; True if none has."""
    if settings.app.attached is None:
        return True
    output = select.poll()
    output.register(_STDOUT, 0)
    return not output.poll(0)  # an error: nobody reads it any more


def _introduce(node: Node, functions: FunctionExecutor) -> None:
    """Connect the node with the functions' executor: it asks if they can start, and receives changes of that."""
    _log_quietly(f"Node {node.id} starts, version {node.identity.version}.")

    def able() -> None:
        unable = "" if functions.able() else functions.unable()
        identity = replace(node.identity, unable=unable, draining=functions.draining(), silent=functions.silent())
        node.become(identity)

    node.signalling, node.able = functions.signal, functions.able
    functions.call_when(gone=node.stop, able=able)


def _take(node: Node, functions: Functions, app: Hello) -> None:
    """Give the node the handlers of this app, and the concurrency of its settings."""
    handlers = tuple(handlers_of(app))
    node.become(replace(node.identity, handlers=handlers, concurrency=functions.concurrency))


def _executors(
    settings: Settings,
    clock: Clock,
    functions: Functions,
    callbacks: Callbacks,
    store: Store,
    *,
    service: Service,
    hide: Hide,
) -> Executor:
    requests = HttpExecutor(clock, networks_of(settings.targets.private_addresses), callbacks)
    builds, tasks_dir = Builds(store, os.urandom), settings.tasks_dir
    inner = executors_of(clock, settings.state_dir, functions.executor, requests, builds=builds, tasks_dir=tasks_dir)
    asking = ClientExecutor(
        SecretExecutor(inner, Vault(service.secrets), partial(parent_runs, store), clock, hide), callbacks.guests, clock
    )
    return traced(asking)


def stock_of(semaphores: StoreOnDemand, executor: Executor, stopping: Stopping, clock: Clock) -> Stock:
    """Return the units that a node has in the store of the semaphores."""
    program, opened = this_program({}), semaphores.opened
    return Stock(
        executor,
        lambda renewed: Session(
            semaphores.store, clock, os.urandom, program, renewed=renewed, prepare=opened, rests=False
        ),
        clock=clock,
        random=os.urandom,
        claims=lambda: stopping.working,
    )


async def _look_at(semaphores: StoreOnDemand, announce: Announce) -> None:
    """Check a store. One that is away does no harm; a fault that only a person can mend raises `StoreError`."""
    try:
        await semaphores.opened()
    except StoreUnavailable as fault:
        announce(f"Runs that want semaphores wait for their store: {fault}")


async def _take_part(
    node: Node,
    store: Store,
    service: Service,
    lines: Sequence[str],
    announce: Announce,
    *,
    joined: Callable[[], None],
    rest: Callable[[], Awaitable[None]],
) -> None:
    show = partial(_announce_and_log, announce)
    with stopped_by_signals(lambda: show(node.stop())):
        if await answered(node.start, wanted=lambda: node.phase is Phase.WORKING, report=announce):
            spare_the_collector()
            joined()
            show(f"Node {node.id} runs jobs on {node.identity.host}.")
            for line in lines:
                announce(line)
            _log_quietly("The node is ready.")
            who = node.identity
            async with asked_beside(
                partial(trigger_reboot, store, service, who.host, who.boot_id, who.serves, up=boottime())
            ):
                await node.run()
            await rest()


def place_of(store: Store, clock: Clock, stopping: Stopping) -> ClaimPlace:
    """Return the place where workers elsewhere claim. Most connections of the door stay for all other callers."""
    most = min(MOST_WAITING, most_connections() // 4)
    return ClaimPlace(store, clock, os.urandom, this_program({}), may_give=lambda: stopping.working, most_waiting=most)


async def _rest(place: ClaimPlace, stopping: Stopping, drain: float) -> None:
    """Wait for the runs of workers elsewhere until the grace is over, and release the others.

    The node still answers for `drain` seconds after the request to stop, as requests may still come.
    """
    while place.in_hand and stopping.phase is Phase.DRAINING and not stopping.grace_is_over():  # noqa: ASYNC110  polls
        await asyncio.sleep(_LOOK)
    await place.close()
    while stopping.drains(drain):  # noqa: ASYNC110  polls
        await asyncio.sleep(_LOOK)


def metrics_of(settings: Settings) -> "Metrics | None":
    """Return the counters of a node whose door shows metrics."""
    if not settings.http.enabled:
        return None
    from tokimori.metrics import Metrics  # noqa: PLC0415  a node without an HTTP server has nobody to read them

    return Metrics()


def _door_of(
    node: Node,
    store: Store,
    semaphores: StoreOnDemand | None,
    settings: Settings,
    clock: Clock,
    *,
    callbacks: Callbacks,
    metrics: "Metrics | None",
    place: ClaimPlace,
) -> "AbstractAsyncContextManager[OpenDoor | None]":
    """Return the HTTP door, if the settings want one: then there are `metrics` for it to show."""
    if metrics is None:
        return nullcontext()
    from tokimori.node.http_door import http_door  # noqa: PLC0415  a node without a door starts in half the time

    service = partial(service_of, settings=settings, clock=clock, node=node)
    return http_door(
        node, store, semaphores, settings, clock, service_of=service, callbacks=callbacks, metrics=metrics, place=place
    )


def service_of(
    store: Store,
    semaphores: StoreOnDemand | None,
    *,
    settings: Settings,
    clock: Clock,
    node: Node | None = None,
    place: ClaimPlace | None = None,
) -> Service:
    """Return the service on this store, of the engine or of a node's door. The node says if its time is right."""
    return service_on(
        store,
        clock,
        Randomness(),
        time_zone=settings.time_zone,
        semaphore_store=semaphores,
        cipher=keyring_of(settings.secrets, os.environ),
        trusts_time=lambda: node is None or node.trusts_its_time,
        stops=lambda: node is not None and node.phase is not Phase.WORKING,
        place=place,
    )


def identity_of(settings: Settings, app: Hello | None = None) -> Identity:
    """Return the identity of this process, with the handlers of its app. Every node carries the label `host`."""
    program = this_program({})
    apart = {} if settings.semaphore_store is None else {APART_LABEL: "yes"}
    return Identity(
        host=program.host,
        boot_id=program.boot_id,
        pid=program.pid,
        version=program.version,
        labels={"host": program.host, **settings.node.labels, **apart},
        handlers=() if app is None else tuple(handlers_of(app)),
        only_handlers=settings.app.only,
        concurrency=settings.node.concurrency,
        max_load=settings.node.max_load,
        stop_grace=settings.node.stop_grace,
        audit_kept=settings.audit.keep,
        messages=StreamRetention(days=settings.channels.keep, most=settings.channels.most),
    )


def rhythm_of(settings: Settings) -> Rhythm:
    """Return when this process looks for due jobs."""
    return Rhythm(
        interval_minutes=settings.worker.interval_minutes,
        minimum_interval_seconds=settings.worker.minimum_interval_seconds,
        update_interval_seconds=settings.schedule.update_interval_seconds,
    )
