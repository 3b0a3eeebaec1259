"""Jobs that send requests, run by real nodes; services that call back through their doors."""

import json
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import tokimori
from tests.integration.cli.conftest import Program, lent
from tests.integration.http.site import Site, site_of
from tokimori.model.settle import NEVER_AGAIN

PATIENCE = 60.0


class Service(ThreadingHTTPServer):
    """A service that answers with the status that its path names, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.asked: Queue[dict[str, str]] = Queue()
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.is_slow = threading.Event()


class Answering(BaseHTTPRequestHandler):
    """What `Service` says."""

    def do_GET(self) -> None:
        """Answer."""
        service = self.server
        assert isinstance(service, Service)
        service.asked.put(dict(self.headers.items()))
        if service.is_slow.is_set():
            time.sleep(PATIENCE)
        self.send_response(int(self.path.strip("/")))
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"heard")

    def log_message(self, *_: object) -> None:
        """Not a word."""


@pytest.fixture
def service() -> Iterator[Service]:
    """One at work."""
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One whose requests may go to this machine."""
    found = Program(tmp_path)
    found.environment["TOKIMORI_TARGETS_PRIVATE_ADDRESSES"] = "127.0.0.0/8"
    return found


def say(given: dict[str, str], *, signature: str | None = None, body: object = None, **other: Any) -> tuple[int, Any]:
    """Call back: the status and what the node answers."""
    request = urllib.request.Request(  # noqa: S310 - the address of a node
        other.get("url", given["Tokimori-Callback"]),
        data=json.dumps(body or {"outcome": "succeeded"}).encode(),
        headers={"Tokimori-Signature": given["Tokimori-Signature"] if signature is None else signature},
        method=other.get("method", "POST"),
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - see above
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def state(program: Program, run: str) -> str:
    """The state of a run."""
    return str(program.json("run", "show", run)["state"])


def test_a_callback_is_let_in_by_its_signature_alone(program: Program, service: Service) -> None:
    """It ends its run and opens nothing else; a forged one, one for another run and a late one change nothing."""
    program("job", "add", "j", "--url", f"{service.url}/202", "--callback-within", "60")
    with site_of(program) as site:
        runs = [program.json("job", "trigger", "j")["id"] for _ in range(2)]
        given = {each["Tokimori-Run-Id"]: each for each in (service.asked.get(timeout=PATIENCE) for _ in runs)}
        first, second = (given[run] for run in runs)
        assert say(first, signature="0" * 64)[0] == 401
        assert say(first, signature="")[0] == 401
        assert say(first, signature=second["Tokimori-Signature"])[0] == 401
        assert say(first, signature=site.secret)[0] == 401, "the node's secret is no signature"
        assert say(first, url=f"{first['Tokimori-Callback']}1")[0] == 401
        assert say(first, body={"outcome": "great"})[0] == 422
        assert [state(program, run) for run in runs] == ["running", "running"]

        assert say(first, body={"outcome": "succeeded", "result": "r"}) == (
            200,
            {"run_id": runs[0], "state": "succeeded"},
        )
        assert state(program, runs[0]) == "succeeded", "what is answered is written"
        assert say(first, body={"outcome": "succeeded", "result": "r"})[0] == 200, "the reply may have been lost"
        assert say(first, body={"outcome": "failed", "error": "no"})[0] == 410
        assert state(program, runs[1]) == "running"
        program("run", "cancel", runs[1])
        until(lambda: state(program, runs[1]) == "cancelled")
        assert say(second)[0] == 410
        _opens_nothing_else(site, first)


def _opens_nothing_else(site: Site, given: dict[str, str]) -> None:
    """A signature is no secret of the door, and the path of callbacks leads nowhere else."""
    signature = given["Tokimori-Signature"]
    for path in ("api/v2/jobs", "callbacks/../api/v2/jobs", "callbacks/"):
        for headers in ({"Authorization": f"Bearer {signature}"}, {"Tokimori-Signature": signature}):
            request = urllib.request.Request(f"{site.url}{path}", headers=headers)  # noqa: S310 - the address of a node
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=30)  # noqa: S310 - see above
            assert refused.value.code in (401, 405)
            refused.value.close()


def test_a_failure_is_retried_as_the_job_says(program: Program, service: Service) -> None:
    """A 5xx uses the attempts up, a 4xx is final, and what the service wrote is the output."""
    for status in (503, 404):
        program("job", "add", f"j{status}", "--url", f"{service.url}/{status}", "--attempts", "3")
    with site_of(program):
        for status, attempts in ((503, 3), (404, 1)):
            run = program.json("job", "trigger", f"j{status}", "--wait", "--timeout", "60", code=1)
            assert (run["state"], run["attempt"]) == ("failed", attempts)
            assert str(status) in run["error"]
            assert program("run", "logs", run["id"]) == "heard"
            tokens = [service.asked.get(timeout=1)["Tokimori-Token"] for _ in range(attempts)]
            assert tokens == [str(token) for token in range(1, attempts + 1)]


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.prove)])
def test_private_addresses_are_for_nodes_that_are_told_so(program: Program, service: Service, store: str) -> None:
    """Without the setting nothing of this machine is asked, and the run says which setting it is."""
    del program.environment["TOKIMORI_TARGETS_PRIVATE_ADDRESSES"]
    with lent(program, store), site_of(program):
        program("job", "add", "j", "--url", f"{service.url}/200", "--attempts", "3")
        run = program.json("job", "trigger", "j", "--wait", "--timeout", "60", code=1)
    assert (run["state"], run["attempt"]) == ("failed", 1)
    assert "targets.private_addresses" in run["error"]
    assert service.asked.empty()


def test_the_run_of_a_node_that_is_killed_goes_on_elsewhere(program: Program, service: Service) -> None:
    """Another node asks the service anew, with a larger token; the old callback is refused."""
    program("job", "add", "j", "--url", f"{service.url}/202", "--callback-within", "120")
    node = Site(program)
    other = Program(program.home)
    other.environment = {**program.environment, "TOKIMORI_STATE_DIR": str(program.home / "other")}
    try:
        run = program.json("job", "trigger", "j")["id"]
        old = service.asked.get(timeout=PATIENCE)
        with site_of(other):
            node.node.send_signal(signal.SIGKILL)
            new = service.asked.get(timeout=PATIENCE)
            assert (new["Tokimori-Run-Id"], new["Tokimori-Token"], new["Tokimori-Attempt"]) == (run, "2", "2")
            port = new["Tokimori-Callback"].split("/")[2]
            stale = "/".join((*old["Tokimori-Callback"].split("/")[:2], port, *old["Tokimori-Callback"].split("/")[3:]))
            assert say(old, url=stale)[0] == 401, "the other node has a secret of its own"
            assert say(new) == (200, {"run_id": run, "state": "succeeded"})
    finally:
        node.node.kill()
        node.node.communicate()


@pytest.mark.parametrize("status", ["202", "200"])
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.prove)])
def test_what_must_not_happen_twice_is_asked_for_once(
    program: Program, service: Service, store: str, status: str
) -> None:
    """A request of a killed node is not sent again where no attempt may be lost: before its answer, nor after a 202."""
    if status == "200":
        service.is_slow.set()
    with lent(program, store):
        program("job", "add", "j", "--url", f"{service.url}/{status}", "--lost-attempts", "0", "--attempts", "3")
        node = Site(program)
        try:
            run = program.json("job", "trigger", "j")["id"]
            service.asked.get(timeout=PATIENCE)
        finally:
            node.node.send_signal(signal.SIGKILL)
            node.node.communicate()
        with site_of(program):
            with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
                ended = client.runs.wait(run, PATIENCE)
            assert (ended.state, ended.attempt, ended.lost) == ("failed", 1, 1)
            assert ended.error is not None and NEVER_AGAIN in ended.error
        assert service.asked.empty()


def test_secrets_in_headers_are_not_shown_by_the_way(program: Program) -> None:
    """`job show` masks them, `--json` is asked for them; others are shown."""
    program(
        "job",
        "add",
        "j",
        "--url",
        "https://a.example/",
        "--header",
        "Authorization: Bearer abc",
        "--header",
        "X-Team: b",
    )
    shown = program("job", "show", "j")
    assert "abc" not in shown and "X-Team=b" in shown
    assert program.json("job", "show", "j")["headers"] == {"Authorization": "Bearer abc", "X-Team": "b"}


def until(holds: Any) -> None:
    """Wait until it does."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
