"""From the command line to a service: settings, store, service.

Everything is imported when it is used, so that help need not wait for what only work needs.
"""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tokimori.cli.command import options

if TYPE_CHECKING:
    from tokimori.client.opening import Stores
    from tokimori.clock import Clock
    from tokimori.config.settings import Loaded
    from tokimori.ports.store import Store
    from tokimori.service.service import Service

_T = TypeVar("_T")


def load(
    flags: Mapping[str, object] | None = None,
    *,
    check_store: Callable[[str], object] | None = None,
    may_ask_elsewhere: bool = False,
) -> "Loaded":
    """Return the settings, with these flags and the global options; warnings go to stderr. Raises `InvalidConfig`.

    `may_ask_elsewhere`: the command reads files of this machine, and may ask a node elsewhere as well.
    """
    from tokimori.cli.output import print_notice
    from tokimori.config.file import CONFIG_PATH
    from tokimori.config.settings import load_settings
    from tokimori.errors import InvalidConfig, Refused

    given = options()
    if (given.server is not None or given.context is not None) and not may_ask_elsewhere:
        raise Refused(
            "server: this command works on this machine, and asks no node elsewhere",
            field="server",
            allowed="no --server and no --context",
        )
    if given.config is not None:  # what this process starts is to read the same file
        os.environ[CONFIG_PATH] = str(Path.cwd() / given.config)
    named = {"store": given.store, "datasource.semaphore.url": given.semaphore_store, **(flags or {})}
    chosen = {name: value for name, value in named.items() if value is not None}
    try:
        loaded = load_settings(chosen, os.environ, cwd=Path.cwd(), config=given.config, check_store=check_store)
    except InvalidConfig as fault:
        raise InvalidConfig([*fault.faults, *_foreign_settings(os.environ.get(CONFIG_PATH))]) from None
    for warning in loaded.warnings:
        print_notice(f"warning: {warning}")
    return loaded


def _foreign_settings(named: str | None) -> Iterator[str]:
    """Say how settings of another system become ours, if a file with such settings was named."""
    from tokimori.config.file import FILE_NAME
    from tokimori.translators.foreign_settings import foreign_system

    path = Path(named or FILE_NAME)
    try:
        system = foreign_system(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if system is not None:
        new = "settings.toml" if path.name == FILE_NAME else FILE_NAME
        yield f"{path} holds settings of {system}: `tokimori config import {path} --to {new}` makes them ours"


class Absent(Enum):
    """Manners for a store on this machine that does not exist: a wrong path must not look like an empty store."""

    REFUSED = auto()
    MADE = auto()
    EMPTY = auto()
    """Nothing is made; there are no calendars and jobs, which is all that the command would ask for."""


def in_service(act: Callable[["Service"], Awaitable[_T]], absent: Absent = Absent.REFUSED) -> _T:
    """Return the result of `act`, which gets a service on the settings' store, or that of a node (`cli/remote.py`)."""
    import asyncio

    from tokimori.cli.remote import server
    from tokimori.service.schema import open_whole

    if (url := server()) is not None:
        return asyncio.run(_at_node(url, act))
    return asyncio.run(_with_service(load(), open_whole, act, absent))


def in_bare_service(act: Callable[["Service"], Awaitable[_T]], absent: Absent = Absent.REFUSED) -> _T:
    """Act as `in_service` does, with any schema of the store."""
    import asyncio

    from tokimori.cli.remote import server

    if (url := server()) is not None:
        return asyncio.run(_at_node(url, act))
    return asyncio.run(_with_service(load(), _open, act, absent))


def in_own_service(act: Callable[["Service"], Awaitable[_T]]) -> _T:
    """Act as `in_service` does, on the store of the settings, whatever context is in use."""
    import asyncio

    from tokimori.service.schema import open_whole

    return asyncio.run(_with_service(load(), open_whole, act, Absent.REFUSED))


def with_zone(act: Callable[["Service"], Awaitable[_T]]) -> tuple[str, _T]:
    """Return the time zone of the service, and the result of `act`."""

    async def in_it(service: "Service") -> tuple[str, _T]:
        return service.time_zone, await act(service)

    return in_service(in_it)


async def _at_node(url: str, act: Callable[["Service"], Awaitable[_T]]) -> _T:
    """Return the result of `act`, whose service is that of a node."""
    from tokimori.client.client import open_async
    from tokimori.client.door import is_address
    from tokimori.errors import InvalidInput

    if not is_address(url):
        message = f"server: {url!r} is no node's address"
        raise InvalidInput(message, field="server", value=url, allowed="http://HOST:PORT or https://HOST")
    async with open_async(url, author=user_name()) as client:
        return await _answered(client._inside, act)


async def _answered(service: "Service", act: Callable[["Service"], Awaitable[_T]]) -> _T:
    """Return the result of `act`. The error for an unknown name suggests similar ones."""
    from tokimori.errors import NotFound

    try:
        return await act(service)
    except NotFound as fault:
        from tokimori.cli.suggestions import with_suggestion

        raise await with_suggestion(service, fault) from None


def _stores(loaded: "Loaded", clock: "Clock", absent: Absent) -> "Stores":
    from tokimori.client.opening import Stores, missing_file, stores_of
    from tokimori.errors import StoreError
    from tokimori.stores.open import open_store

    url = loaded.settings.job_store
    missing = missing_file(url)
    if missing is None or absent is Absent.MADE:
        return stores_of(loaded, clock)
    if absent is Absent.EMPTY:
        return Stores(open_store("memory:", clock), None)
    message = (
        f"store {missing} does not exist: `tokimori db migrate`, `serve` and `job add` make it, --store or "
        "TOKIMORI_STORE names another one"
    )
    raise StoreError(message, field="store", value=missing, allowed="a store that exists")


async def _with_service(
    loaded: "Loaded",
    opened: Callable[["Store"], Awaitable[None]],
    act: Callable[["Service"], Awaitable[_T]],
    absent: Absent,
) -> _T:
    from tokimori.cli.errors import NOTHING_CHANGED
    from tokimori.clock import SystemClock
    from tokimori.config.secrets import keyring_of
    from tokimori.errors import StoreUnavailable
    from tokimori.service.doors.audited import audited
    from tokimori.service.service import service_on
    from tokimori.traces.ambient import ambient

    clock = SystemClock()
    store, semaphore_store = _stores(loaded, clock, absent)
    try:
        await opened(store)
    except StoreUnavailable as fault:
        fault.message += f". {NOTHING_CHANGED}"
        raise
    try:
        service = service_on(
            store,
            clock,
            os.urandom,
            time_zone=loaded.settings.time_zone,
            author=user_name(),
            traceparent=ambient(os.environ),
            semaphore_store=semaphore_store,
            cipher=keyring_of(loaded.settings.secrets, os.environ),
        )
        return await _answered(audited(service), act)
    finally:
        if semaphore_store is not None:
            await semaphore_store.close()
        await store.close()


async def _open(store: "Store") -> None:
    await store.open()


def user_name() -> str | None:
    """Return the user of this process; None if the system knows no name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def with_run(text: str, act: Callable[["Service", str], Awaitable[_T]]) -> _T:
    """Return the result of `act`, which gets the service and the whole id of the run that is meant."""

    async def in_it(service: "Service") -> _T:
        return await act(service, await service.runs.whole_id(text))

    return in_service(in_it)
