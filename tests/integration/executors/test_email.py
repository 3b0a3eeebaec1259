"""E-mails to a server on this machine, over real sockets."""

import asyncio
import resource
import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.servers.post_office import PostOffice
from tokimori.clock import Moment, SystemClock
from tokimori.executors.email import EmailExecutor
from tokimori.executors.http.addresses import networks_of
from tokimori.executors.reported import short_of
from tokimori.model.email import Email, Tls
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.outcome import Cancelled, Failed, Outcome, Succeeded, TimedOut
from tokimori.ports.executor import AttemptTask, Ended, Report, StopReason

LOGIN = ("cron", "correct horse")
PAYLOAD = '{"subject": "bad has\\r\\nBcc: eve@example.org failed", "text": "Grüße\\n.\\nexit code 3\\n"}'


def a_task(office: PostOffice, timeout: float | None = 20, **fields: Any) -> AttemptTask:
    """An attempt that sends an e-mail."""
    said = {"to": ("ops@example.org",), "smtp": office.address, "sender": "cron@example.org", "tls": Tls.NONE}
    return AttemptTask(
        run_id=RunId("r1"),
        token=Token(1),
        attempt=1,
        job_id=JobId("notifier:ops"),
        target=Email(**{**said, **fields}),
        nominal=Moment(0),
        due=Moment(0),
        timeout=timeout,
        timeout_grace=10,
        kill_on_lost_lease=False,
        payload=PAYLOAD,
        secrets={"MAIL": LOGIN[1]},
    )


async def sent(task: AttemptTask, networks: tuple[str, ...] = ("127.0.0.0/8",), stop: float | None = None) -> Outcome:
    """How the attempt ended; `stop`: it is cancelled after so many seconds."""
    executor, ended = EmailExecutor(SystemClock(), networks_of(networks)), asyncio.get_running_loop().create_future()

    def hear(report: Report) -> None:
        assert isinstance(report, Ended)
        ended.set_result(report.outcome)

    await executor.open(hear)
    executor.start([task])
    try:
        async with asyncio.timeout(30):
            if stop is not None:
                await asyncio.sleep(stop)
                executor.stop(task.run_id, task.token, StopReason.CANCEL)
            outcome: Outcome = await ended
            return outcome
    finally:
        await executor.close()


async def test_an_e_mail_says_what_its_payload_says() -> None:
    """One header of each name, whatever the payload brings; the same id at each attempt."""
    async with PostOffice() as office:
        for _ in range(2):
            assert await sent(a_task(office, to=("a@example.org", "b@example.org"))) == Succeeded(None)
    first, second = office.letters
    assert (first.sender, first.to) == ("cron@example.org", ("a@example.org", "b@example.org"))
    assert first.message["Subject"] == "bad has Bcc: eve@example.org failed"
    assert first.message["Bcc"] is None
    assert first.text.replace("\r\n", "\n") == "Grüße\n.\nexit code 3\n"
    assert first.message["Message-ID"] == second.message["Message-ID"] == "<r1@example.org>"
    assert (first.message["Tokimori-Run-Id"], first.message["Auto-Submitted"]) == ("r1", "auto-generated")


async def test_what_the_server_says_is_the_outcome() -> None:
    """4xx may be better the next time, 5xx is final; who has it already does not get it again."""
    for refusals, words, final in (
        ({"MAIL": "451 come again"}, "451 come again", False),
        ({"MAIL": "550 go away"}, "550 go away", True),
        ({"DATA": "554 no spam"}, "554 no spam", True),
        ({"ops@example.org": "550 nobody"}, "550 nobody", True),
        ({"ops@example.org": "450 full"}, "450 full", False),
        ({"b@example.org": "450 full"}, "has taken the e-mail for the others", True),
    ):
        to = ("ops@example.org", *(each for each in refusals if each.startswith("b@")))
        async with PostOffice(refusals=refusals) as office:
            outcome = await sent(a_task(office, to=to))
        assert isinstance(outcome, Failed)
        assert words in (outcome.error or "")
        assert outcome.final is final, refusals


async def test_an_e_mail_for_which_there_is_no_socket_goes_back() -> None:
    """Nobody was asked to take it: its machine is short of files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with PostOffice() as office:
        await sent(a_task(office))  # what it needs is loaded
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            outcome = await sent(a_task(office))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert outcome == short_of("[Errno 24] Too many open files")


async def test_a_private_server_is_for_nodes_that_are_told_so() -> None:
    """As for requests."""
    async with PostOffice() as office:
        for smtp in (office.address, "192.0.0.192:25", "[64:ff9b:1::1]:25"):
            outcome = await sent(a_task(office, smtp=smtp), networks=())
            assert isinstance(outcome, Failed)
            assert outcome.final
            assert "targets.private_addresses" in (outcome.error or "")
    assert office.letters == []


async def test_without_encryption_nothing_is_sent() -> None:
    """Where the job does not say that there need be none."""
    async with PostOffice() as office:
        outcome = await sent(a_task(office, tls=Tls.STARTTLS))
    assert isinstance(outcome, Failed)
    assert outcome.final
    assert office.letters == []


async def test_a_silent_server_is_waited_for_as_long_as_the_job_says() -> None:
    """And an order to stop ends it at once."""
    async with PostOffice() as office:
        office.is_silent = True
        assert isinstance(await sent(a_task(office, timeout=0.3)), TimedOut)
        assert isinstance(await sent(a_task(office), stop=0.3), Cancelled)
    assert office.letters == []


async def test_a_server_that_talks_without_end_is_left() -> None:
    """All that it says would be kept, until the e-mail has no time left."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while True:
                writer.write(b"220-never mind\r\n" * 100)
                await writer.drain()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server, PostOffice() as office:
        host, port = server.sockets[0].getsockname()
        outcome = await sent(a_task(office, timeout=5, smtp=f"{host}:{port}"))
    assert isinstance(outcome, Failed)
    assert "sends too much" in (outcome.error or "")


async def test_a_server_that_does_not_even_take_the_connection_is_left() -> None:
    """By the thread, too: a node that stops would wait for it."""
    with socket.socket() as full, socket.socket() as first:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        host, port = full.getsockname()
        first.connect((host, port))  # there is no room for another one
        async with PostOffice() as office:
            task = a_task(office, smtp=f"{host}:{port}")
        assert isinstance(await sent(task, stop=0.3), Cancelled)
        for _ in range(100):
            if not _at_work():
                return
            await asyncio.sleep(0.05)
    pytest.fail("its thread waits on")


def _at_work() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("tokimori-email")]


async def test_a_silent_server_holds_up_its_own_alone() -> None:
    """Though more e-mails wait for it than are sent at a time."""
    executor, ended = EmailExecutor(SystemClock(), networks_of(("127.0.0.0/8",))), asyncio.Queue[Report]()
    await executor.open(ended.put_nowait)
    async with PostOffice() as silent, PostOffice() as office:
        silent.is_silent = True
        executor.start([replace(a_task(silent), run_id=RunId(f"s{n}")) for n in range(100)])
        executor.start([a_task(office)])
        async with asyncio.timeout(15):  # the others are given up after 20
            report = await ended.get()
        await executor.close()
    assert isinstance(report, Ended)
    assert (report.run_id, report.outcome) == ("r1", Succeeded(None))


async def test_nobody_listens() -> None:
    """It may be there the next time."""
    async with PostOffice() as office:
        task = a_task(office)
    outcome = await sent(task)
    assert isinstance(outcome, Failed)
    assert not outcome.final


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=t -keyout {key} -out {certificate}"
    name = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", *words.split(), *name], check=True, capture_output=True)
    return certificate, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
@pytest.mark.parametrize("tls", [Tls.STARTTLS, Tls.IMPLICIT])
async def test_a_password_is_said_to_who_proves_who_he_is(
    tls: Tls, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose certificate nobody vouches for gets neither the password nor the e-mail."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)
    async with PostOffice(tls=context, implicit=tls is Tls.IMPLICIT, login=LOGIN) as office:
        task = a_task(office, tls=tls, user=LOGIN[0], password="MAIL")
        outcome = await sent(task)
        assert isinstance(outcome, Failed)
        assert "is not who it says" in (outcome.error or "")
        monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
        assert await sent(task) == Succeeded(None)
    assert len(office.letters) == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
async def test_a_user_that_can_not_be_said_is_told(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Once and for good, in words that show nothing of the password."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)
    monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
    async with PostOffice(tls=context, login=LOGIN) as office:
        outcome = await sent(a_task(office, tls=Tls.STARTTLS, user="müller", password="MAIL"))
    assert isinstance(outcome, Failed)
    assert outcome.final
    assert "ASCII only" in (outcome.error or "")
