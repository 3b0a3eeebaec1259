"""Notifications of a real node, to a real server of mail and a real service."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import Program, stop
from tests.integration.http.site import Site
from tests.integration.http.test_secrets import given
from tests.programs.forked import Started
from tests.servers.post_office import PostOffice

PATIENCE = 60.0
KEY = "a key of thirty-two characters!!"


class Receiver(ThreadingHTTPServer):
    """A service that keeps what it is told; `heard` is called before it answers."""

    daemon_threads = True

    def __init__(self, heard: Callable[[int], None] = lambda _: None) -> None:
        super().__init__(("127.0.0.1", 0), Hearing)
        self.told: list[tuple[dict[str, str], bytes]] = []
        self.heard = heard
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class Hearing(BaseHTTPRequestHandler):
    """What `Receiver` says."""

    def do_POST(self) -> None:
        """Keep it."""
        receiver = self.server
        assert isinstance(receiver, Receiver)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with receiver.lock:
            receiver.told.append((dict(self.headers.items()), body))
            receiver.heard(len(receiver.told))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not a word."""


@contextmanager
def receiving(heard: Callable[[int], None] = lambda _: None) -> Iterator[Receiver]:
    """One at work."""
    with Receiver(heard) as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


@contextmanager
def post_office() -> Iterator[PostOffice]:
    """One at work, on a loop of its own."""
    loop, office = asyncio.new_event_loop(), PostOffice()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(office.__aenter__(), loop).result()
    yield office
    asyncio.run_coroutine_threadsafe(office.__aexit__(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One whose messages may go to this machine."""
    found = Program(tmp_path)
    keys = {"TOKIMORI_SECRETS_KEY_FILE": str(found.home / "keys")}
    found.environment |= {"TOKIMORI_TARGETS_PRIVATE_ADDRESSES": "127.0.0.0/8", **keys}
    found("secret", "key")
    return found


def until(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_failure_is_told_by_a_signed_request_an_e_mail_and_a_command(program: Program) -> None:
    """And the recovery after it; `notifier test` tries a notifier, and says how it ended."""
    assert given(program, f"{KEY}\n", "secret", "set", "HOOK", "--jobs", "notifier:").returncode == 0
    with receiving() as receiver, post_office() as office:
        program("notifier", "add", "hook", "--url", receiver.url, "--sign-with", "HOOK")
        letters = ("--email", "ops@example.org", "--smtp", office.address, "--sender", "cron@example.org")
        program("notifier", "add", "mail", *letters, "--tls", "none", "--subject", "[{{ event }}] {{ job_id }}")
        program("notifier", "add", "file", "--command", f'printf %s "$TOKIMORI_PAYLOAD" > {program.home}/told')
        program(*("job", "add", "bad", "--command", f"test -e {program.home}/ok"), *_notify("hook", "mail", "file"))
        node = program.serve()
        try:
            program("notifier", "test", "hook")
            program("job", "trigger", "bad", "--wait", code=1)
            until(lambda: len(receiver.told) == 2 and len(office.letters) == 1 and (program.home / "told").exists())
            (program.home / "ok").touch()
            program("job", "trigger", "bad", "--wait")
            until(lambda: len(receiver.told) == 3 and len(office.letters) == 2)
        finally:
            assert stop(node) == 0
    headers, body = receiver.told[1]
    assert json.loads(body)["id"] == headers["Webhook-Id"] == headers["Tokimori-Run-Id"]
    assert headers["Webhook-Signature"] == _signature(headers, body)
    assert [each.message["Subject"] for each in office.letters] == ["[failure] bad", "[recovery] bad"]
    assert "exit code 1" in office.letters[0].text
    assert json.loads((program.home / "told").read_text())["job_id"] == "bad"


def test_an_e_mail_says_why_and_its_thread_ends_with_the_recovery(program: Program) -> None:
    """Subject, text and HTML say what failed, where, how often, by which cause, what it wrote, and what mends it."""
    assert given(program, "s3cr3t-of-ours\n", "secret", "set", "PASS").returncode == 0
    script = f"""test -e {program.home}/ok && exit 0; n=0; while [ $n -lt 40 ]; do n=$((n+1)); echo step $n; done
printf '\\033[31mno <b>room</b>\\033[0m on db-%s with %s\\n' $$ "$PASS"; exit 3"""
    with post_office() as office:
        letters = ("--email", "ops@example.org", "--smtp", office.address, "--sender", "cron@example.org")
        program("notifier", "add", "mail", *letters, "--tls", "none")
        program("job", "add", "bad", "--command", script, "--env", "PASS={{ secret.PASS }}", *_notify("mail"))
        program.environment["TOKIMORI_HTTP_PUBLIC_URL"] = "https://t.example"
        site = Site(program)
        try:
            for count in (1, 2):
                program("job", "trigger", "bad", "--wait", code=1)
                until(lambda count=count: len(office.letters) == count)  # type: ignore[misc]
            (program.home / "ok").touch()
            program("job", "trigger", "bad", "--wait")
            until(lambda: len(office.letters) == 3)
        finally:
            assert site.stop() == 0
    first, second, last = (each.message for each in office.letters)
    host = socket.gethostname()
    assert str(first["Subject"]) == f"bad failed on {host}: exit 3: no <b>room</b> on db-# with ***"
    assert str(second["Subject"]).strip().startswith(f"bad failed on {host}, 2 times in a row: exit 3: no <b>room</b>")
    assert str(last["Subject"]) == f"bad has recovered on {host}"
    assert second["In-Reply-To"] == last["In-Reply-To"] == first["Message-ID"] != second["Message-ID"]
    assert last["References"] == first["Message-ID"]
    text, page = office.letters[0].text.replace("\r\n", "\n"), first.get_body(("html",)).get_content()  # type: ignore[attr-defined]
    run = str(first["Tokimori-Run-Id"])
    assert run not in text, "the run of the notification is not what it tells of"
    for part in (
        "step 40",
        "step 12\n",
        "attempt    1 of 1",
        f"host       {host}",
        "https://t.example/runs/",
        "tokimori run retry ",
    ):
        assert part in text, part
    assert "step 10\n" not in text
    assert not {"s3cr3t-of-ours", "\033"} & set(text.split())
    assert "s3cr3t-of-ours" not in office.letters[0].content.decode()
    assert "no &lt;b&gt;room&lt;/b&gt; on db-" in page
    assert "<b>" not in page


def _notify(*names: str) -> list[str]:
    return [word for name in names for word in ("--notify", name)]


def _signature(headers: dict[str, str], body: bytes) -> str:
    signed = f"{headers['Webhook-Id']}.{headers['Webhook-Timestamp']}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(KEY.encode(), signed, hashlib.sha256).digest()).decode()


@pytest.mark.prove
def test_nodes_that_are_killed_amid_notifying_lose_nothing_and_tell_nothing_twice(program: Program) -> None:
    """Each failure has one id, whatever came twice; a receiver that looks at it has heard of each once."""
    node: list[Started] = []

    def killed(number: int) -> None:
        """Before it has the answer."""
        if number in (2, 9, 17):
            os.kill(node[-1].pid, signal.SIGKILL)

    with receiving(killed) as receiver:
        program("notifier", "add", "hook", "--url", receiver.url)
        program("job", "add", "bad", "--command", "exit 3", "--notify", "failure=hook", "--max-running", "4")
        failed = {program.json("job", "trigger", "bad")["id"] for _ in range(24)}
        for _ in range(4):
            node.append(program.serve())
            end = time.monotonic() + PATIENCE
            while node[-1].poll() is None and _heard(receiver) != failed:
                assert time.monotonic() < end, (len(_heard(receiver)), len(receiver.told))
                time.sleep(0.1)
            if node[-1].poll() is None:
                break
        until(lambda: _heard(receiver) == failed)
        time.sleep(3)
        assert stop(node[-1]) == 0
    for each in node[:-1]:
        assert each.stdout is not None
        each.stdout.close()
        each.wait()
    ids: dict[str, set[str]] = defaultdict(set)
    for headers, body in receiver.told:
        for run in json.loads(body)["runs"]:
            ids[run["run_id"]].add(headers["Tokimori-Run-Id"])
    assert ids.keys() == failed
    assert all(len(each) == 1 for each in ids.values()), "nothing has two ids"


def _heard(receiver: Receiver) -> set[Any]:
    return {run["run_id"] for _, body in list(receiver.told) for run in json.loads(body)["runs"]}
