"""The stores that the settings name, and the identity of the program that opens them."""

import logging
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tokimori.clock import Clock, SystemClock
from tokimori.config.settings import DEFAULT, Loaded, Settings, load_settings, rereading
from tokimori.config.value import check_linux
from tokimori.errors import StoreError
from tokimori.locks.membership import Program
from tokimori.locks.session import Session
from tokimori.model.ids import RandomBytes, RunId, Token
from tokimori.model.semaphores import permits_in
from tokimori.ownership import others_reach
from tokimori.ports.store import Store
from tokimori.service.schema import StoreOnDemand
from tokimori.stores.open import file_of, open_store

log = logging.getLogger(__name__)
Anew = Callable[[], Settings | None] | None
"""Returns the settings anew; None if nothing has changed."""


class Stores(NamedTuple):
    """The store of jobs, and the store of semaphores; None if semaphores are kept with the jobs."""

    job: Store
    semaphore: StoreOnDemand | None = None


BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def load_store(
    url: str | None, time_zone: str | None, semaphore_store: str | None
) -> tuple[Loaded, Callable[[], Stores]]:
    """Return the settings, over which these arguments have precedence, and a function that makes the stores.

    Nothing is connected yet. Raises `InvalidConfig`, `InvalidInput` for a URL that names no store, and `StoreError`
    if its driver is not installed.
    """
    flags = {"store": url, "time_zone": time_zone, "datasource.semaphore.url": semaphore_store}
    given = {name: value for name, value in flags.items() if value is not None}
    read = partial(load_settings, given, os.environ, cwd=Path.cwd())
    loaded = read()
    for warning in loaded.warnings:
        log.warning("%s", warning)
    stores_of(loaded, SystemClock())  # only reads the URLs; each process makes its own stores later
    return loaded, lambda: stores_of(loaded, SystemClock(), lambda: read().settings)


def this_program(environment: Mapping[str, str]) -> Program:
    """Return the identity of this process. The environment says which run has started it, if one has."""
    run_id, token = environment.get("TOKIMORI_RUN_ID"), environment.get("TOKIMORI_TOKEN", "")
    from importlib.metadata import version  # noqa: PLC0415  it loads 20 modules, and most commands say no version

    return Program(
        host=socket.gethostname(),
        boot_id=BOOT_ID.read_text().strip() if BOOT_ID.exists() else "",
        pid=os.getpid(),
        version=version("tokimori"),
        run_id=RunId(run_id) if run_id else None,
        token=Token(int(token)) if token.isdecimal() else None,
        permits=permits_in(environment.get("TOKIMORI_PERMITS", "")),
    )


def stores_of(loaded: Loaded, clock: Clock, read: Callable[[], Settings] | None = None) -> Stores:
    """Return the stores, not yet connected. Makes the folder of the default store. `read` reads the settings anew.

    Raises `InvalidInput`, `StoreError`, and `Refused` for a file on a system where it can't be shared.
    """
    if loaded.settings.job_store.lower().startswith("sqlite:"):
        check_linux("an SQLite store")
    if loaded.origins["store"] == DEFAULT:
        make_state_dir(loaded.settings.state_dir)
    return stores_on(loaded.settings, clock, read)


def stores_on(settings: Settings, clock: Clock, read: Callable[[], Settings] | None = None) -> Stores:
    """Return the stores that these settings name, as `stores_of` does."""
    anew, other = (None if read is None else rereading(os.environ, read) for _ in range(2))
    again = None if anew is None else lambda: None if (found := anew()) is None else found.job_store
    return Stores(open_store(settings.job_store, clock, again), semaphore_store_of(settings, clock, other))


def semaphore_store_of(settings: Settings, clock: Clock, anew: Anew = None) -> StoreOnDemand | None:
    """Return the store of semaphores, where they have one of their own."""
    again = None if anew is None else lambda: None if (found := anew()) is None else found.semaphore_store
    url = settings.semaphore_store
    return None if url is None else StoreOnDemand(open_store(url, clock, again))


def session_on(
    stores: Stores,
    clock: Clock,
    random: RandomBytes,
    program: Program,
    renewed: Callable[[float], None] = lambda _sent: None,
) -> Session:
    """Return a session of the program in the store of the semaphores."""
    if stores.semaphore is None:
        return Session(stores.job, clock, random, program, renewed=renewed)
    return Session(stores.semaphore.store, clock, random, program, renewed=renewed, prepare=stores.semaphore.opened)


def missing_file(url: str) -> str | None:
    """Return the file of an SQLite store, if it does not exist. Raises `StoreError` if nobody can say so."""
    file = file_of(url) if url.lower().startswith("sqlite:") else None
    try:
        return None if file is None or Path(file).exists() else file
    except OSError as fault:
        message = f"store {file} can't be reached: {fault.strerror}"
        allowed = "a file in a folder that this user may enter"
        raise StoreError(message, field="store", value=file, allowed=allowed) from None


def make_state_dir(folder: Path) -> None:
    """Make the folder for output and the default store. Raises `StoreError`, also if other users may write there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reached = others_reach(folder, most=1)
    except OSError as fault:
        raise StoreError(
            f"state_dir: the folder {folder} can't be made: {fault.strerror}",
            field="state_dir",
            value=str(folder),
            allowed="a folder that can be written",
        ) from None
    if reached is not None:
        message = f"state_dir: {reached}; or name another folder"
        raise StoreError(
            message, field="state_dir", value=str(folder), allowed="a folder that only its owner may write"
        )
