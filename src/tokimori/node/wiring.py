"""Where everybody is introduced to everybody: the only place that knows stores, executors, doors and the engine."""

import asyncio
import gc
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tokimori.api.connections import most_connections
from tokimori.client.opening import make_state_dir, semaphore_store_of, this_program
from tokimori.clock import Clock
from tokimori.config.secrets import VARIABLE, keyring_of
from tokimori.config.settings import Settings
from tokimori.engine.rhythm import Rhythm
from tokimori.errors import StoreUnavailable
from tokimori.executors.executors import executors_of
from tokimori.executors.functions.executor import FunctionExecutor
from tokimori.executors.functions.process import AppSettings
from tokimori.executors.functions.wire import Hello
from tokimori.executors.http.addresses import networks_of
from tokimori.executors.http.callbacks import Callbacks
from tokimori.executors.http.executor import HttpExecutor
from tokimori.executors.secrets import Hide, SecretExecutor
from tokimori.locks.session import Session
from tokimori.model.ids import RandomBytes
from tokimori.model.lanes import APART_LABEL
from tokimori.node.apart import ApartExecutor, ApartSource
from tokimori.node.code_watch import told_of_changes
from tokimori.node.identity import Identity
from tokimori.node.node import Node
from tokimori.node.patience import answered
from tokimori.node.signals import note_signals, reload_by_signals, stopped_by_signals
from tokimori.node.starting import asked_beside
from tokimori.node.stopping import Phase, Stopping
from tokimori.node.units import Stock
from tokimori.ports.executor import Executor
from tokimori.ports.meter import UNMETERED
from tokimori.ports.store import Store
from tokimori.ports.work_source import WorkSource
from tokimori.randomness import Randomness
from tokimori.service.builds import Builds
from tokimori.service.claim_place import MOST_WAITING, Place
from tokimori.service.declared import Declared, check_vanished, declare
from tokimori.service.reboot import trigger_reboot
from tokimori.service.schema import StoreOnDemand, open_prepared
from tokimori.service.secrets import Vault
from tokimori.service.service import Service
from tokimori.stores.open import open_store
from tokimori.traces.spans import traced

if TYPE_CHECKING:
    from tokimori.metrics.metrics import Metrics
    from tokimori.node.http_door import OpenDoor

log = logging.getLogger(__name__)

_LOOK = 0.1
"""Seconds between two looks of a node that stops at what workers elsewhere still have in hand."""
_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""A file that is saved twice in a second at the same size is not told from its bytecode of before."""
Announce = Callable[[str], None]
"""Tells the person who started the node one line."""


def _hides_nothing(_: Iterable[str]) -> None:
    """Where there is no log."""


async def serve(
    settings: Settings,
    announce: Announce,
    clock: Clock,
    joined: Callable[[], None] = lambda: None,
    *,
    tells_secret: bool = False,
    hide: Hide = _hides_nothing,
) -> int:
    """Take part until told to stop: TERM, INT or QUIT drains, a second one hands back what still runs. The exit code.

    A store that is away is waited for; one that only a person can mend raises `StoreError`. `joined` is told when it
    takes part, and `hide` what its log must not show. `tells_secret`: the announced address carries the secret.
    """
    note_signals()
    make_state_dir(settings.state_dir)
    functions, callbacks = functions_of(settings, clock, os.urandom), Callbacks()
    store, semaphore_store = open_store(settings.job_store, clock), semaphore_store_of(settings, clock)
    await answered(lambda: open_prepared(store), tell=announce)
    try:
        service = service_of(store, semaphore_store, settings, clock)
        executor: Executor = _executors(settings, clock, functions, callbacks, store, service=service, hide=hide)
        source: WorkSource = store
        app = await _loaded(functions)
        identity, stopping = identity_of(settings, app), Stopping(clock, settings.node.stop_grace)
        if semaphore_store is not None:
            stock = stock_of(semaphore_store, executor, stopping, clock)
            source = ApartSource(store, stock, os.urandom, service.refresh)
            executor = ApartExecutor(executor, stock, clock)
            await _look_at(semaphore_store, announce)
        rhythm, place, metrics = rhythm_of(settings), place_of(store, clock, stopping), metrics_of(settings)
        meter, random = metrics or UNMETERED, Randomness()
        node = Node(
            store, executor, clock, random, identity, rhythm=rhythm, source=source, stopping=stopping, meter=meter
        )
        node.signalling, node.able = functions.signal, functions.able
        await executor.open(node.hear)
        functions.tell(gone=node.stop, able=node.wake)
        try:
            _warn(store)
            # The door first: a port that is taken leaves no node behind.
            await _declare(app, service, store, os.urandom)
            async with (
                _reloading(settings, functions),
                _door_of(
                    node, store, semaphore_store, settings, clock, callbacks=callbacks, metrics=metrics, place=place
                ) as door,
            ):
                told = () if door is None else door.told(with_secret=tells_secret)
                rest = partial(_rest, place, stopping, settings.http.drain)
                await _take_part(node, store, service, told, announce, joined=joined, rest=rest)
            announce(f"Node {node.id} has stopped.")
        finally:
            await executor.close()
    finally:
        if semaphore_store is not None:
            await semaphore_store.close()
        await store.close()
    return 0


def _warn(store: Store) -> None:
    for fault in store.faults():
        log.warning("%s", fault)


async def _loaded(functions: FunctionExecutor) -> Hello | None:
    """The app that the settings name. A signal loads its code anew."""
    app = await functions.load()
    if app is not None:
        reload_by_signals(functions.reload)
    return app


def _executors(
    settings: Settings,
    clock: Clock,
    functions: FunctionExecutor,
    callbacks: Callbacks,
    store: Store,
    *,
    service: Service,
    hide: Hide,
) -> Executor:
    requests = HttpExecutor(clock, networks_of(settings.targets.private_addresses), callbacks)
    builds, tasks_dir = Builds(store, os.urandom), settings.tasks_dir
    inner = executors_of(clock, settings.state_dir, functions, requests, builds=builds, tasks_dir=tasks_dir)
    return traced(SecretExecutor(inner, Vault(service.secrets), clock, hide))


def _reloading(settings: Settings, functions: FunctionExecutor) -> AbstractAsyncContextManager[None]:
    """For development: the code of an app is loaded anew whenever a file of it changes."""
    if not settings.app.reload:
        return nullcontext()
    return told_of_changes([Path.cwd(), *map(Path, settings.app.include)], functions.reload)


def functions_of(settings: Settings, clock: Clock, random: RandomBytes) -> FunctionExecutor:
    """What runs the functions of the app that the settings name. Its code gets the store's address: it may enqueue."""
    said = settings.app
    app = None
    if said.load is not None or said.attached is not None or said.stored:
        app = AppSettings(
            app=said.load or "",
            secret=said.attached or random(16).hex(),
            attached=said.attached is not None,
            state_dir=settings.state_dir,
            runs_dir=settings.state_dir / "runs",
            environ=environ_of(settings, os.environ),
            include=said.include,
            require=said.require,
            stored=said.stored,
            processes=said.processes,
            concurrency=said.concurrency,
            most_runs=said.most_runs,
            most_memory=None if said.most_memory is None else said.most_memory * 2**20,
        )
    return FunctionExecutor(clock, app)


def environ_of(settings: Settings, environ: Mapping[str, str]) -> Mapping[str, str]:
    """What functions find in their environment: that of the node with its store, and without the keys of secrets."""
    own = {name: text for name, text in environ.items() if name != VARIABLE}
    return {**own, **(_NO_BYTECODE if settings.app.reload else {}), "TOKIMORI_STORE": settings.job_store}


async def _declare(app: Hello | None, service: Service, store: Store, random: RandomBytes) -> None:
    """Put the jobs of the app, if there is one, in the store, and say what became of them."""
    if app is None:
        return
    said = Declared(app=app.app, jobs={job.id: job.fields for job in app.jobs}, vanished=check_vanished(app.vanished))
    for line in await declare(service.acting_as(f"app {app.app}"), store, random, said):
        log.warning("%s", line)


def stock_of(semaphores: StoreOnDemand, executor: Executor, stopping: Stopping, clock: Clock) -> Stock:
    """The units that a node has in the store of the semaphores."""
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
    """One that is away keeps nobody from all else; one that only a person can mend raises `StoreError`."""
    try:
        await semaphores.opened()
    except StoreUnavailable as fault:
        announce(f"Runs that want semaphores wait for their store: {fault}")


async def _take_part(
    node: Node,
    store: Store,
    service: Service,
    told: Sequence[str],
    announce: Announce,
    *,
    joined: Callable[[], None],
    rest: Callable[[], Awaitable[None]],
) -> None:
    with stopped_by_signals(lambda: announce(node.stop())):
        if await answered(node.start, wanted=lambda: node.phase is Phase.WORKING, tell=announce):
            _spare_the_collector()
            joined()
            announce(f"Node {node.id} runs jobs on {node.identity.host}.")
            for line in told:
                announce(line)
            who = node.identity
            async with asked_beside(partial(trigger_reboot, store, service, who.host, who.boot_id, who.serves)):
                await node.run()
            await rest()


def place_of(store: Store, clock: Clock, stopping: Stopping) -> Place:
    """Where workers elsewhere claim. Most of the door's connections stay for everybody else."""
    most = min(MOST_WAITING, most_connections() // 4)
    return Place(store, clock, os.urandom, this_program({}), may_give=lambda: stopping.working, most_waiting=most)


async def _rest(place: Place, stopping: Stopping, drain: float) -> None:
    """Runs in the hands of workers elsewhere get what is left of the grace, as the node's own do; then they go back.

    So long after it was told to stop, the node answers: until then somebody may send requests here.
    """
    while place.in_hand and stopping.phase is Phase.DRAINING and not stopping.grace_is_over():  # noqa: ASYNC110  polls
        await asyncio.sleep(_LOOK)
    await place.close()
    while stopping.drains(drain):  # noqa: ASYNC110  polls
        await asyncio.sleep(_LOOK)


def _spare_the_collector() -> None:
    """What is loaded by now stays: each look of the garbage collector through all of it would hold up the loop."""
    gc.collect()
    gc.freeze()


def metrics_of(settings: Settings) -> "Metrics | None":
    """What counts the work of a node whose door tells of it."""
    if not settings.http.enabled:
        return None
    from tokimori.metrics.metrics import Metrics  # noqa: PLC0415  a node without a door tells nobody

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
    place: Place,
) -> "AbstractAsyncContextManager[OpenDoor | None]":
    """The door over HTTP, where the settings want one."""
    if metrics is None:
        return nullcontext()
    from tokimori.node.http_door import http_door  # noqa: PLC0415  a node without a door starts in half the time

    service = partial(service_of, settings=settings, clock=clock, node=node)
    return http_door(
        node, store, semaphores, settings, clock, service_of=service, callbacks=callbacks, metrics=metrics, place=place
    )


def service_of(
    store: Store, semaphores: StoreOnDemand | None, settings: Settings, clock: Clock, node: Node | None = None
) -> Service:
    """The service on this store: of the engine, or of the door of a node, which says whether its time is right."""
    return Service(
        store,
        clock,
        Randomness(),
        time_zone=settings.time_zone,
        semaphore_store=semaphores,
        cipher=keyring_of(settings.secrets, os.environ),
        trusts_time=lambda: node is None or node.trusts_its_time,
        stops=lambda: node is not None and node.phase is not Phase.WORKING,
    )


def identity_of(settings: Settings, app: Hello | None = None) -> Identity:
    """Who this process is, with the handlers of its app. Every node carries the label `host`."""
    patterns = () if app is None else tuple(re.compile(pattern) for pattern in app.patterns)
    program = this_program({})
    apart = {} if settings.semaphore_store is None else {APART_LABEL: "yes"}
    return Identity(
        host=program.host,
        boot_id=program.boot_id,
        pid=program.pid,
        version=program.version,
        labels={"host": program.host, **settings.node.labels, **apart},
        handlers=() if app is None else (*app.handlers, *patterns),
        only_handlers=settings.app.only,
        concurrency=settings.node.concurrency,
        max_load=settings.node.max_load,
        stop_grace=settings.node.stop_grace,
        audit_kept=settings.audit.keep,
        messages_kept=settings.channels.keep,
        most_messages=settings.channels.most,
    )


def rhythm_of(settings: Settings) -> Rhythm:
    """When this process looks for what is due."""
    return Rhythm(
        interval_minutes=settings.worker.interval_minutes,
        minimum_interval_seconds=settings.worker.minimum_interval_seconds,
        update_interval_seconds=settings.schedule.update_interval_seconds,
    )
