"""From the settings to the store that they name, and who it is that opens it."""

import logging
import os
import socket
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from tokimori.clock import Clock, SystemClock
from tokimori.config.settings import DEFAULT, Loaded, load_settings
from tokimori.errors import StoreError
from tokimori.locks.session import Program
from tokimori.model.ids import RunId, Token
from tokimori.ports.store import Store
from tokimori.stores.open import open_store

log = logging.getLogger(__name__)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def load_store(url: str | None, time_zone: str | None) -> tuple[Loaded, Callable[[], Store]]:
    """The settings, where these two stand above the environment and the configuration file; and what makes the store.

    Nothing is connected yet. Raises `InvalidConfig`, `InvalidInput` for a URL that names no store, and `StoreError`
    where its driver is not installed.
    """
    flags = {"store": url, "time_zone": time_zone}
    given = {name: value for name, value in flags.items() if value is not None}
    loaded = load_settings(given, os.environ, cwd=Path.cwd())
    for warning in loaded.warnings:
        log.warning("%s", warning)
    open_store(loaded.settings.store, SystemClock())  # only reads the URL; each process makes its own store later
    return loaded, lambda: store_of(loaded, SystemClock())


def this_program(environment: Mapping[str, str]) -> Program:
    """Who this process is; the environment says of which run's command it is a part."""
    run_id, token = environment.get("TOKIMORI_RUN_ID"), environment.get("TOKIMORI_TOKEN", "")
    return Program(
        host=socket.gethostname(),
        boot_id=BOOT_ID.read_text().strip(),
        pid=os.getpid(),
        version=version("tokimori"),
        run=(RunId(run_id), Token(int(token))) if run_id and token.isdecimal() else None,
    )


def store_of(loaded: Loaded, clock: Clock) -> Store:
    """The store, not yet connected; the folder of the default one is made. Raises `InvalidInput` and `StoreError`."""
    if loaded.origins["store"] == DEFAULT:
        make_state_dir(loaded.settings.state_dir)
    return open_store(loaded.settings.store, clock)


def make_state_dir(folder: Path) -> None:
    """Make the folder where output and the default store are kept. Raises `StoreError`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise StoreError(
            f"state_dir: the folder {folder} can't be made: {fault.strerror}",
            field="state_dir",
            value=str(folder),
            allowed="a folder that can be written",
        ) from None
