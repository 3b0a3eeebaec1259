"""Requests to a service on this machine, over real sockets."""

import asyncio
import resource
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web

from tokimori.clock import Moment, SystemClock
from tokimori.executors.http import session as sessions
from tokimori.executors.http.addresses import networks_of
from tokimori.executors.http.callbacks import CallbackResult, Callbacks
from tokimori.executors.http.executor import HttpExecutor
from tokimori.executors.http.request import KEPT, MOST
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.on_loop import LEASE_IS_OVER
from tokimori.executors.reported import short_of
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.lease import LEASE
from tokimori.model.outcome import Cancelled, Failed, Released, Succeeded, TimedOut
from tokimori.model.target import Http
from tokimori.ports.executor import AttemptTask, Ended, Grew, Report, StopReason

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
TOKEN = Token(1)


class Office:
    """An executor and a service; `url` is where that listens."""

    def __init__(self, executor: HttpExecutor, callbacks: Callbacks, url: str) -> None:
        self.executor = executor
        self.callbacks = callbacks
        self.url = url
        self.reports: list[Report] = []
        self._news = asyncio.Event()

    def accept(self, report: Report) -> None:
        """What the executor tells."""
        self.reports.append(report)
        self._news.set()

    def start(self, run: str = "r", *, timeout: float | None = None, bound: bool = False, **fields: Any) -> None:
        """Send a request."""
        task = AttemptTask(
            run_id=RunId(run),
            token=TOKEN,
            attempt=1,
            job_id=JobId("j"),
            target=Http(**{"url": self.url, **fields}),
            nominal=Moment(0),
            due=Moment(0),
            timeout=timeout,
            timeout_grace=10,
            kill_on_lost_lease=bound,
        )
        self.executor.start([task])

    async def end(self, run: str = "r", patience: float = 20) -> Ended:
        """How it ended."""
        async with asyncio.timeout(patience):
            while True:
                for report in self.reports:
                    if isinstance(report, Ended) and report.run_id == run:
                        return report
                self._news.clear()
                await self._news.wait()

    async def ask(self, **fields: Any) -> Ended:
        """Send a request, and how it ended."""
        self.start(**fields)
        return await self.end()


@asynccontextmanager
async def office(handler: Handler, networks: tuple[str, ...] = ("127.0.0.0/8", "::1")) -> AsyncIterator[Office]:
    """A service that answers with the handler."""
    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    callbacks = Callbacks()
    callbacks.open("http://127.0.0.1:1", "s" * 43)
    executor = HttpExecutor(SystemClock(), networks_of(networks), callbacks)
    found = Office(executor, callbacks, f"http://127.0.0.1:{runner.addresses[0][1]}/")
    await executor.open(found.accept)
    try:
        yield found
    finally:
        await executor.close()
        await runner.cleanup()


def answering(status: int, text: str = "", **headers: str) -> Handler:
    """A service that always answers the same."""

    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers=headers)

    return handler


async def silent(_request: web.BaseRequest) -> web.StreamResponse:
    """A service that takes an hour."""
    await asyncio.sleep(3600)
    raise AssertionError


async def test_an_answer_becomes_the_output_and_the_result() -> None:
    """What a service says is kept, and handed on to the run's children."""
    async with office(answering(201, "made")) as found:
        ended = await found.ask(method="POST", body="x")
    assert ended.outcome == Succeeded(None, "made")
    assert ended.output is not None and (ended.output.size, ended.output.head) == (4, b"made")
    assert ended.started is not None and ended.started <= ended.at


@pytest.mark.parametrize("times", [1, 2])
async def test_what_cannot_be_loaded_now_is_loaded_for_the_next_request(
    monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """A lack of files at the first request costs that one no attempt, and is no end of the node."""
    faults = [OSError(24, "Too many open files")] * times

    def imported(name: str) -> ModuleType:
        if faults:
            raise faults.pop()
        return import_module(name)

    monkeypatch.setattr("tokimori.executors.http.executor.import_module", imported)
    outcomes = []
    async with office(answering(200)) as found:
        for run in ("first", "second"):
            found.start(run)
            outcomes.append((await found.end(run)).outcome)
    back = short_of("[Errno 24] Too many open files")
    assert outcomes == [*[back] * times, *[Succeeded()] * (2 - times)]


async def test_a_request_for_which_there_is_no_socket_goes_back() -> None:
    """It was not sent: its machine is short of files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with office(answering(200)) as found:
        await found.executor._opened()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            ended = await found.ask()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (ended.outcome, ended.started) == (short_of("[Errno 24] Too many open files"), None)
        found.start("again")
        assert (await found.end("again")).outcome == Succeeded()


@pytest.mark.parametrize(("status", "final"), [(404, True), (400, True), (500, False), (503, False), (304, True)])
async def test_a_failure_says_whether_trying_again_helps(status: int, final: bool) -> None:
    """4xx is final, 5xx is not, and what the service wrote is kept."""
    async with office(answering(status, "" if status == 304 else "sorry")) as found:
        ended = await found.ask()
    assert isinstance(ended.outcome, Failed) and ended.outcome.final is final
    assert str(status) in ended.outcome.error
    assert status == 304 or (ended.output is not None and ended.output.head == b"sorry")


async def test_expected_statuses_are_the_only_successes() -> None:
    """Where the job says which."""
    async with office(answering(404)) as found:
        assert isinstance((await found.ask(expect=(404,))).outcome, Succeeded)
    async with office(answering(200)) as found:
        refused = (await found.ask(expect=(404, 410))).outcome
    assert isinstance(refused, Failed) and refused.final and "404, 410" in refused.error


async def test_a_service_that_is_not_there_is_tried_again() -> None:
    """A connection that is refused, or cut in the midst of an answer, is no final failure."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with office(silent) as found:
        refused = (await found.ask(url=f"http://127.0.0.1:{port}/")).outcome
    assert isinstance(refused, Failed) and not refused.final

    async def cut(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"begun")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with office(cut) as found:
        broken = (await found.ask()).outcome
    assert isinstance(broken, Failed) and not broken.final


async def test_a_request_takes_no_longer_than_its_time() -> None:
    """A silent service, and one whose answer has no end: the time-out is for all of it."""
    async with office(silent) as found:
        assert (await found.ask(timeout=0.3)).outcome == TimedOut("it took longer than 0.3 s")

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"drop ")
            await asyncio.sleep(0.05)

    async with office(slow) as found:
        ended = await found.ask(timeout=1.5)
    assert isinstance(ended.outcome, TimedOut)
    assert ended.output is not None and ended.output.head.startswith(b"drop drop ")
    assert any(isinstance(report, Grew) for report in found.reports), "a slow answer is shown while it comes"


async def test_a_redirect_is_not_followed() -> None:
    """It leads where the service likes: the job's owner has to say so."""
    asked = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async with office(handler) as found:
        outcome = (await found.ask()).outcome
    assert isinstance(outcome, Failed) and outcome.final and "/elsewhere" in outcome.error
    assert asked == ["/"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "192.0.0.192", "[64:ff9b:1::1]"])
async def test_addresses_that_are_not_public_are_refused(host: str) -> None:
    """Written as numbers or as a name; the service hears nothing, and another permission does not help."""
    asked = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response()

    async with office(handler, networks=("10.0.0.0/8",)) as found:
        outcome = (await found.ask(url=found.url.replace("127.0.0.1", host))).outcome
    assert isinstance(outcome, Failed) and outcome.final
    assert "targets.private_addresses" in outcome.error
    assert not asked


async def test_a_name_that_changes_its_address_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the address to which the connection goes, whatever the name said when it was asked before."""
    port = 0
    said = iter(["1.1.1.1", "127.0.0.1"])

    async def rebind(_self: object, host: str, _port: int = 0, family: int = 0) -> list[dict[str, Any]]:
        return [{"hostname": host, "host": next(said), "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}]

    async with office(answering(200), networks=()) as found:
        port = int(found.url.rstrip("/").rpartition(":")[2])
        monkeypatch.setattr(sessions.Resolver, "resolve", rebind)
        next(said)
        outcome = (await found.ask(url=f"http://rebind.example:{port}/")).outcome
    assert isinstance(outcome, Failed) and outcome.final and "127.0.0.1" in outcome.error


async def test_names_that_nobody_answers_for_hold_up_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of them as a node on two cores has runs at a time, but for one."""
    answers, look_up = threading.Event(), sessions._look_up

    def looked_up(host: str, port: int, family: socket.AddressFamily) -> list[tuple[int, int, str]]:
        if host.endswith(".silent"):
            answers.wait(30)
            raise OSError("no answer")
        return look_up(host, port, family)

    monkeypatch.setattr(sessions, "_look_up", looked_up)
    async with office(answering(200)) as found:
        for n in range(31):
            found.start(f"r{n}", url=f"http://n{n}.silent/")
        found.start(url=found.url.replace("127.0.0.1", "localhost"))
        try:
            assert (await found.end(patience=5)).outcome == Succeeded(None, None)
        finally:
            answers.set()
        assert {type((await found.end(f"r{n}")).outcome) for n in range(31)} == {Failed}


async def test_of_a_large_answer_the_ends_are_kept() -> None:
    """It is a success, and neither memory nor the store hold more than 64 KiB of each end; 10 MiB are read."""

    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"a" * KEPT + b"b" * (MOST + 1_000_000))

    async with office(handler) as found:
        ended = await found.ask()
    assert ended.outcome == Succeeded(None, None)
    assert ended.output is not None and ended.output.size == MOST
    assert (ended.output.head, ended.output.tail) == (b"a" * KEPT, b"b" * KEPT)


@pytest.mark.parametrize("headers", [{"X-Long": "x" * 100_000}, {f"X-{n}": "1" for n in range(2_000)}])
async def test_headers_of_an_answer_have_a_bound(headers: dict[str, str]) -> None:
    """Who sends more, or longer ones, is not understood."""
    async with office(answering(200, **headers)) as found:
        outcome = (await found.ask()).outcome
    assert isinstance(outcome, Failed)
    assert len(outcome.error) < 1_000


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (StopReason.CANCEL, Cancelled("cancelled")),
        (StopReason.RELEASE, Released("its node stopped it")),
        (StopReason.DISOWN, Released("it is no longer its node's")),
    ],
)
async def test_who_stops_a_run_closes_its_request(reason: StopReason, outcome: object) -> None:
    """The service sees the end of the connection at once."""
    begun, gone = asyncio.Event(), asyncio.Event()

    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        begun.set()
        try:
            return await silent(_request)
        finally:
            gone.set()

    async with office(handler) as found:
        found.start()
        await asyncio.wait_for(begun.wait(), 20)
        found.executor.stop(RunId("r"), TOKEN, reason)
        assert (await found.end()).outcome == outcome
        assert isinstance(found.reports[-1], Ended)
        found.executor.stop(RunId("r"), TOKEN, reason)
        await asyncio.wait_for(gone.wait(), 20)


async def test_a_lost_lease_ends_what_must_not_run_twice() -> None:
    """And only that; a lease that is renewed ends nothing."""
    async with office(silent) as found:
        found.executor.renew(boottime())
        found.start("bound", bound=True)
        found.start("free")
        found.executor.renew(boottime() - LEASE + 0.2)
        assert (await found.end("bound")).outcome == LEASE_IS_OVER
        assert not [report for report in found.reports if report.run_id == "free"]


async def test_a_node_that_goes_leaves_nothing_open() -> None:
    """Whatever still runs is handed back."""
    async with office(silent) as found:
        found.start()
        await asyncio.sleep(0)
    assert [report.outcome for report in found.reports if isinstance(report, Ended)] == [
        Released("its node stopped it")
    ]


# Callbacks


def later() -> tuple[Handler, "asyncio.Queue[tuple[str, str]]"]:
    """A service that answers 202, and what it was given to answer with: signature and path."""
    given: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        given.put_nowait((request.headers["Tokimori-Signature"], request.headers["Tokimori-Callback"]))
        return web.Response(status=202, text="later")

    return handler, given


async def test_a_service_says_later_how_it_ended() -> None:
    """The run goes on after 202, a forged callback changes nothing, and the signed one decides."""
    handler, given = later()
    async with office(handler) as found:
        found.start(callback_within=60)
        signature, address = await asyncio.wait_for(given.get(), 20)
        assert address == "http://127.0.0.1:1/callbacks/r/1"
        forged = found.callbacks.accept("r", "1", "0" * 64, b'{"outcome":"succeeded"}')
        assert forged is CallbackResult.FORGED
        assert not [report for report in found.reports if isinstance(report, Ended)]
        assert found.callbacks.accept("r", "1", signature, b'{"outcome":"failed","error":"no"}') is CallbackResult.TAKEN
        assert (await found.end()).outcome == Failed("no")
        assert found.callbacks.accept("r", "1", signature, b'{"outcome":"succeeded"}') is CallbackResult.LATE


async def test_a_callback_may_come_before_the_answer() -> None:
    """A service that calls back while it is still being asked has said how it ended."""
    given: asyncio.Queue[str] = asyncio.Queue()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        given.put_nowait(request.headers["Tokimori-Signature"])
        return await silent(request)

    async with office(handler) as found:
        found.start(callback_within=60)
        signature = await asyncio.wait_for(given.get(), 20)
        found.callbacks.accept("r", "1", signature, b'{"outcome":"succeeded","result":"early"}')
        assert (await found.end()).outcome == Succeeded(None, "early")


async def test_a_service_that_never_calls_back_is_not_waited_for() -> None:
    """The deadline ends the run; what comes after that is too late."""
    handler, given = later()
    async with office(handler) as found:
        ended = await found.ask(callback_within=0.3)
        assert ended.outcome == TimedOut("the service did not say within 0.3 s how it ended")
        assert ended.output is not None and ended.output.head == b"later"
        signature, _ = given.get_nowait()
        assert found.callbacks.accept("r", "1", signature, b'{"outcome":"succeeded"}') is CallbackResult.LATE


async def test_without_a_callback_202_is_a_success() -> None:
    """Services that answer so and never call back are many; only a job that says so waits."""
    async with office(answering(202)) as found:
        assert isinstance((await found.ask()).outcome, Succeeded)
