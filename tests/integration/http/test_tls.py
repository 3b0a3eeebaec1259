"""The door with TLS."""

import asyncio
import json
import logging
import shutil
import socket
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program
from tests.integration.http.site import site_of
from tests.integration.http.test_server import hello
from tokimori.api import tls
from tokimori.api.connections import Limits
from tokimori.api.server import HttpDoor
from tokimori.api.tls import tls_context
from tokimori.errors import Refused

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")

Pair = tuple[Path, Path]


def made(folder: Path, *protection: str) -> Pair:
    """A certificate for 127.0.0.1, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=tokimori"]
    name = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *words, *name, *(protection or ("-nodes",)), *files], check=True, capture_output=True)
    return certificate, key


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return made(tmp_path_factory.mktemp("tls"))


async def ask(port: int, trusted: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


async def test_with_tls_the_door_may_be_reached_by_others(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody has to say that this is insecure, and nobody warns; who speaks no TLS gets no answer."""
    door = HttpDoor(hello, interface="0.0.0.0", port=0, port_fixed=False, tls=tls_context(*pair))  # noqa: S104
    with caplog.at_level(logging.WARNING):
        await door.start()
        try:
            assert door.url.startswith("https://127.0.0.1:")
            assert (await ask(door.port, ssl.create_default_context(cafile=pair[0]))).endswith(b"hello")
            with pytest.raises(ssl.SSLCertVerificationError):
                await ask(door.port, ssl.create_default_context())
            assert await ask(door.port, None) == b""
        finally:
            await door.stop()
    assert caplog.records == []


async def test_who_does_not_say_hello_makes_room(pair: Pair) -> None:
    """A full door closes those that have begun no TLS, the longest first, for whoever does."""
    limits = Limits(most=3, head_within=600)
    door = HttpDoor(hello, interface="127.0.0.1", port=0, port_fixed=False, tls=tls_context(*pair), limits=limits)
    await door.start()
    silent = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(5)]
    try:
        asked = ask(door.port, ssl.create_default_context(cafile=pair[0]))
        assert (await asyncio.wait_for(asked, 10)).endswith(b"hello")
        assert [await asyncio.to_thread(_ended, each) for each in silent[:3]] == [True] * 3
    finally:
        for each in silent:
            each.close()
        await door.stop()


async def test_tls_begins_in_time_or_not_at_all(pair: Pair) -> None:
    """Who says nothing is not waited for longer than for the headers of a request."""
    limits = Limits(head_within=0.1)
    door = HttpDoor(hello, interface="127.0.0.1", port=0, port_fixed=False, tls=tls_context(*pair), limits=limits)
    await door.start()
    with socket.create_connection(("127.0.0.1", door.port)) as silent:
        assert await asyncio.to_thread(_ended, silent)
    await door.stop()


async def test_a_renewed_certificate_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New connections get it without a restart, one that is half written changes nothing, and no request is lost."""
    monkeypatch.setattr(tls, "EVERY", 0.05)
    certificate, key = made(tmp_path)
    (later := tmp_path / "later").mkdir()
    renewed = made(later)
    trusted = [ssl.create_default_context(cafile=certificate), ssl.create_default_context(cafile=renewed[0])]
    door = HttpDoor(hello, interface="127.0.0.1", port=0, port_fixed=False, tls=tls_context(certificate, key))
    await door.start()
    asked = True

    async def keep_asking() -> int:
        count = 0
        both = ssl.create_default_context(cadata=certificate.read_text() + renewed[0].read_text())
        while asked:
            assert (await ask(door.port, both)).endswith(b"hello")
            count += 1
        return count

    async with tls.followed(door.tls, certificate, key):
        asking = asyncio.ensure_future(keep_asking())
        await asyncio.sleep(0.2)
        renewed[0].replace(certificate)
        await asyncio.sleep(0.2)
        assert (await ask(door.port, trusted[0])).endswith(b"hello")
        renewed[1].replace(key)
        async with asyncio.timeout(20):
            while True:
                try:
                    assert (await ask(door.port, trusted[1])).endswith(b"hello")
                    break
                except ssl.SSLCertVerificationError:
                    await asyncio.sleep(0.05)
        asked = False
        assert await asking > 0
    await door.stop()


def _ended(silent: socket.socket) -> bool:
    """Whether the door has closed it."""
    silent.settimeout(10)
    try:
        return silent.recv(1) == b""
    except ConnectionResetError:
        return True


def test_files_that_are_no_certificate_and_key(pair: Pair, tmp_path: Path) -> None:
    """The error names the setting and the files; nobody is asked for a password at the terminal."""
    certificate, key = pair
    text = tmp_path / "text"
    text.write_text("no PEM")
    (locked := tmp_path / "locked").mkdir()
    protected = made(locked, "-passout", "pass:word")
    for wrong in ((key, certificate), (text, text), (protected[0], protected[1]), (certificate, protected[1])):
        with pytest.raises(Refused, match="no certificate and its key") as fault:
            tls_context(*wrong)
        assert fault.value.field == "http.tls_cert"
    with pytest.raises(Refused, match="can't be read") as fault:
        tls_context(certificate, tmp_path / "none")
    assert fault.value.field == "http.tls_key"


def test_a_node_with_tls(pair: Pair, tmp_path: Path) -> None:
    """It prints an https address, beyond the loopback too, and a context keeps the certificates that vouch for it."""
    program, (certificate, key) = Program(tmp_path), pair
    trusted = ssl.create_default_context(cafile=certificate)
    with site_of(program, "-i", "0.0.0.0", "--tls-cert", str(certificate), "--tls-key", str(key)) as site:  # noqa: S104
        assert site.url.startswith("https://")
        request = urllib.request.Request(f"{site.url}api/v2/jobs", headers={"Authorization": f"Bearer {site.secret}"})  # noqa: S310
        for _ in range(4):
            with urllib.request.urlopen(request, context=trusted) as answer:  # noqa: S310
                assert answer.status == 200
        kept = json.dumps({"id": "a", "noop": True, "payload": json.dumps("x" * 60_000)})
        request.data, request.method = kept.encode(), "POST"
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, context=trusted) as answer:  # noqa: S310  in several records of TLS
            assert "x" * 60_000 in answer.read().decode()
        program("context", "add", "prod", site.url, "--cacert", str(certificate))
        assert [job["id"] for job in program.json("--context", "prod", "job", "list")] == ["a"]
        assert "--cacert FILE" in program.run("--server", site.url, "job", "list").stderr
    assert "without TLS" not in site.log
