"""Kala's API on each store, with a node that works by hand while somebody waits for an answer."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec import json

from tests.contract.stores.actors import NOW, Worker, random_bytes
from tests.contract.stores.conftest import STORES, forget
from tests.unit.api.asgi import BEARER, SECRET, Answer, Asker
from tokimori.api.app import Health, create_app
from tokimori.api.guards import Lenient
from tokimori.clock import SECOND, Moment, format_moment
from tokimori.engine.fire import decide_and_apply
from tokimori.engine.settle import change_of
from tokimori.foreign.kala.routes import kala_routes
from tokimori.foreign.kala.shapes import PREFIX
from tokimori.kala import KalaClient
from tokimori.model.job import Definition
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.target import Command
from tokimori.ports.store import Store
from tokimori.ports.working import Claimed
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.service import service_on

HEALTHY = Health(status="ok", node_id="n", store_reachable=True, version="1.2.3")
JSON = "application/json;charset=UTF-8"
NO_HEADERS: Mapping[str, str] = {}
RUN = 2
"""Seconds that each attempt takes."""


class SetClock:
    """A clock that tests set."""

    moment = NOW

    def now(self) -> Moment:
        """What it shows."""
        return self.moment

    def monotonic(self) -> float:
        """The same in seconds."""
        return self.moment / SECOND


class Server:
    """Kala's API on a store; `client` asks it. A command `false` fails, `missing` does not start.

    All else succeeds after `RUN` seconds.
    """

    def __init__(self, store: Store, runner: asyncio.Runner, *, open_below: tuple[str, ...] = ()) -> None:
        self.clock = SetClock()
        self.store = store
        self.service = service_on(store, self.clock, os.urandom, now=self._now)
        self.ran: list[str] = []
        """The names of the jobs of which an attempt has ended, in order."""
        self.pause, self.at_once = 0.005, 100
        """Seconds between two looks of the node while somebody waits, and how many runs it does in each."""
        self._runner = runner
        self.app = create_app(
            self.service,
            self.clock,
            interface="127.0.0.1",
            secret=SECRET,
            health=lambda: HEALTHY,
            pages=kala_routes(lambda _: self.service, "boss@example.com"),
            lenient=Lenient(open=open_below, nameless=(PREFIX,)),
        )
        self.node = runner.run(Worker.join(store))
        self.client = KalaClient("http://localhost", send=self._send)

    async def _now(self) -> Moment:
        return self.clock.moment

    def _send(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        answer = self.ask(method, path, body)
        return answer.status, answer.body

    def ask(
        self, method: str, path: str, body: bytes = b"", *, bare: bool = False, headers: Mapping[str, str] = NO_HEADERS
    ) -> Answer:
        """The answer to a request; the node works until it comes."""
        return self._runner.run(self._asked(method, path, body, bare, headers))

    async def _asked(self, method: str, path: str, body: bytes, bare: bool, headers: Mapping[str, str]) -> Answer:
        said = [("host", "localhost"), *({} if bare else BEARER).items(), *headers.items()]
        asker = Asker(self.app, bare=True)
        asking = asyncio.ensure_future(asker.ask(method, path, headers=said, chunks=[body], stays=True))
        while not asking.done():
            await asyncio.sleep(self.pause)
            if method == "POST" and "start" in path:
                await self._work(self.at_once)
        return asking.result()

    def post(self, path: str, value: object, headers: Mapping[str, str] = NO_HEADERS) -> Answer:
        """The answer to JSON, sent as `curl -d` does."""
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, json.encode(value), headers={**kind, **headers})

    def pass_seconds(self, n: float) -> None:
        """It is later."""
        self.clock.moment = Moment(self.clock.moment + round(n * SECOND))

    def claimed(self) -> Sequence[Claimed]:
        """The runs that the node gets, if it asks for many; they go on to run."""
        return self._runner.run(self.node.claim(100, self.clock.moment))

    def end(self, claimed: Claimed) -> None:
        """Such a run ends."""
        self._runner.run(self._settle(claimed, self.clock.moment))

    def work(self) -> None:
        """Fire what is due, and run all that is ready, children too."""
        self._runner.run(self._work(self.at_once))

    def in_(self, seconds: float) -> str:
        """The moment in so many seconds, as a schedule has it."""
        return format_moment(Moment(self.clock.moment + round(seconds * SECOND)))

    async def _work(self, most: int) -> None:
        now = self.clock.moment
        await decide_and_apply(self.store, await self.store.due(now, 100), now, random_bytes, schedule_for)
        await self.store.promote(now, 100)
        for _ in range(most):
            claimed = await self.node.claim(1, self.clock.moment)
            if not claimed:
                return
            began = self.clock.moment
            self.pass_seconds(RUN)
            await self._settle(claimed[0], began)
            await self.store.promote(self.clock.moment, 100)

    async def _settle(self, claimed: Claimed, began: Moment) -> None:
        assert claimed.definition is not None
        self.ran.append(claimed.definition.name or claimed.run.job_id)
        now, owner = self.clock.moment, self.node.id
        outcome = _outcome(claimed.definition)
        started = None if isinstance(outcome, Failed) and outcome.exit_code is None else began
        change = change_of(claimed, outcome, owner=owner, now=now, chance=0, started=started)
        await self.store.settle([change], owner, now)


def _outcome(definition: Definition) -> Outcome:
    target = definition.target
    program = target.argv[0] if isinstance(target, Command) and target.argv else "true"
    if program == "missing":
        return Failed(error="'missing' could not be started: No such file or directory")
    return Failed(error="it failed", exit_code=1) if program == "false" else Succeeded(0)


STORES_TO_TRY = [
    name if name in ("memory", "sqlite") else pytest.param(name, marks=pytest.mark.prove) for name in STORES
]


@pytest.fixture(params=STORES_TO_TRY)
def kala(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """Kala's API on an empty store."""
    store = STORES[request.param](tmp_path)
    with asyncio.Runner() as runner:
        runner.run(store.open())
        runner.run(store.migrate())
        yield Server(store, runner)
        runner.run(store.close())
    forget(request.param, tmp_path)
