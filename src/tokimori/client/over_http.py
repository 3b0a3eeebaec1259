"""The client over the HTTP door of a node: each operation is the one of the client on a store, by name."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from tokimori.client.asynchronous import AsyncClient
from tokimori.client.door import Door, address_of
from tokimori.client.opening import this_program
from tokimori.config.settings import load_settings
from tokimori.errors import Forbidden, Refused, TokimoriError
from tokimori.locks.holdings import Held, Owner, Wanted
from tokimori.locks.session import Session
from tokimori.model.run import Run
from tokimori.schedules.zones import check_zone
from tokimori.service.definitions.arguments import PlainRequest
from tokimori.service.jobs.requesting import after, batches, read_many
from tokimori.service.operation import Member, Operation, Part, through
from tokimori.service.service import Service
from tokimori.service.shared import Caller
from tokimori.service.validation import many
from tokimori.traces.ambient import ambient, run_of_caller


def needs_the_store(what: str) -> Refused:
    """Return the error for a call that HTTP does not offer."""
    return Refused(
        f"{what}: a node does not offer this over HTTP; open the store itself, by its URL",
        field="url",
        allowed="the URL of a store, such as sqlite:///PATH or postgresql://HOST/NAME",
    )


class _NoSession:
    """Session of a client that can't lock."""

    async def acquire(self, wanted: Wanted, _owner: Owner) -> Held:
        """Raise `Refused`."""
        raise needs_the_store(f"the semaphore {wanted.name}")


class DoorVia:
    """The way to a part over HTTP: a node carries out its operations."""

    whole = False

    def __init__(self, door: Door) -> None:
        self._door = door

    def __call__(self, member: Member[Any, Any, Any], name: str) -> Callable[..., Any]:
        """Return the method, carried out by the node."""
        door = self._door

        async def asked(*args: object, **kwargs: object) -> Any:
            if isinstance(member, Operation) and not member.door:
                raise needs_the_store(name)
            return await door.call(name, member.method, args, kwargs)

        async def in_parts(job_id: str, requests: Sequence[PlainRequest], *, parent: str | None = None) -> Any:
            """Check all requests here, and send them in parts: no door reads a large body."""
            given = many("requests", requests, "requests")
            wanted, traceparent = read_many(given, parent), door.traceparent()
            common: PlainRequest = {} if traceparent is None else {"traceparent": traceparent}
            answers: list[Run] = []
            for batch in batches(wanted):
                part = cast("Sequence[PlainRequest]", [given[number] for number, _ in batch])
                try:
                    answers += await asked(job_id, [{**common, **each} for each in part], parent=parent)
                except TokimoriError as fault:
                    raise after(len(answers), wanted, fault) from None
            return answers

        return in_parts if name == "jobs.trigger_many" else asked


class OverHttp:
    """Connection of a client to the HTTP server of a node."""

    session = cast(Session, _NoSession())

    def __init__(self, door: Door) -> None:
        self._door = door

    def service(self, caller: Caller) -> Service:
        """Return the service for a caller, with the same connections."""
        door = self._door.acting_as(caller.author, caller.time_zone or None)

        def part_of(kind: type[Part[Any]]) -> Part[Any]:
            return through(kind, DoorVia(door))

        return Service(None, caller, part_of, self.service)

    async def open(self, client: AsyncClient) -> None:
        """Make ready. Raises `StoreUnavailable` if the node does not answer, and `Refused` without its secret."""
        await self._door.open()
        if client.time_zone:
            return
        try:
            zone = (await client.schedules.explain("@daily", n=1)).time_zone
        except Forbidden:  # of a token for pings, which reads nothing: what it may do names no time
            zone = "UTC"
        except BaseException:
            await self._door.close()
            raise
        client._zone = client._inside._zone = zone

    async def close(self) -> None:
        """Close all connections."""
        await self._door.close()

    async def copy_to(self, _: str) -> NoReturn:
        """Raise `Refused`."""
        raise needs_the_store("copy_to")

    async def wanted(self, *_: object) -> NoReturn:
        """Raise `Refused`."""
        raise needs_the_store("a run in a transaction of your own")

    async def answering(self, *_: object) -> NoReturn:
        """Raise `Refused`."""
        raise needs_the_store("a run in a transaction of your own")


def http_maker(url: str, time_zone: str | None, author: str | None) -> Callable[[], AsyncClient]:
    """Return a function that makes clients of the node at this address, one for each process.

    Raises `InvalidInput` and `InvalidConfig`.
    """
    given = {} if time_zone is None else {"time_zone": check_zone(time_zone)}
    loaded = load_settings(given, os.environ, cwd=Path.cwd())
    address, parent = address_of(url, loaded.settings.state_dir), run_of_caller(this_program(os.environ).run_id)
    place = ambient(os.environ)
    caller = Caller(author=author, time_zone=time_zone or "")
    return lambda: AsyncClient(OverHttp(Door(address, parent=parent, traceparent=place)), caller)
