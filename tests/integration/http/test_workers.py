"""Workers in any language, at the door of a real node."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of

WORKERS = Path(__file__).parents[3] / "examples" / "workers"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One on a store of its own."""
    return Program(tmp_path)


class Said(NamedTuple):
    """An answer."""

    status: int
    json: Any


class Curl:
    """A worker that says word by word what it wants."""

    def __init__(self, site: Site) -> None:
        self.port = int(site.url.rstrip("/").rpartition(":")[2])
        self.headers = {"Authorization": f"Bearer {site.secret}", "Content-Type": "application/json"}

    def __call__(self, path: str, **body: object) -> Said:
        """The answer to a word below the claims."""
        return self.ask("POST", f"/api/v2/claims{path}", json.dumps(body))

    def ask(self, method: str, path: str, body: str | None = None) -> Said:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, self.headers)
            answer = connection.getresponse()
            return Said(answer.status, json.loads(answer.read()))
        finally:
            connection.close()

    def run(self, run_id: str) -> Any:
        return self.ask("GET", f"/api/v2/runs/{run_id}").json


def until(what: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until it is so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


@contextmanager
def worker_of(program: Program, site: Site, *command: str) -> Iterator["subprocess.Popen[str]"]:
    """A worker of the examples at work, as its first lines say."""
    header = program.home / "header"
    header.write_text(program("node", "address", "--header"))
    worker = subprocess.Popen(
        [*command, site.url.rstrip("/"), str(header)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield worker
    finally:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(worker.pid, signal.SIGKILL)
        worker.communicate()


def test_a_worker_in_shell_and_curl(program: Program) -> None:
    """The example takes runs, hands on what it made of their payload, and the job knows nothing of it."""
    with site_of(program) as site, worker_of(program, site, "sh", str(WORKERS / "worker.sh")):
        program("job", "add", "shout", "--function", "shout")
        curl = Curl(site)
        for word in ('"hello"', '["say", "hi"]'):
            run = program.json("job", "trigger", "shout", "--payload", word)
            until(lambda run=run: curl.run(run["id"])["state"] == "succeeded")  # type: ignore[misc]
            ended = curl.run(run["id"])
            assert (ended["result"], ended["worker"]) == (word.upper(), "worker.sh")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_worker_in_node(program: Program) -> None:
    """The example works on several runs at a time, fails what it can't do, and ends by itself when it is asked to."""
    with site_of(program) as site, worker_of(program, site, "node", str(WORKERS / "worker.mjs")) as worker:
        program("job", "add", "add", "--function", "add")
        curl = Curl(site)
        runs = [program.json("job", "trigger", "add", "--payload", f"[{n}, 2]")["id"] for n in range(3)]
        bad = program.json("job", "trigger", "add", "--payload", '"x"')["id"]
        until(lambda: all(curl.run(run)["ended"] for run in (*runs, bad)))
        assert [curl.run(run)["result"] for run in runs] == ["2", "3", "4"]
        assert (curl.run(bad)["state"], "not a list" in curl.run(bad)["error"]) == ("failed", True)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=20) == 0


def test_a_node_that_is_killed_loses_nothing(program: Program) -> None:
    """Its worker's run is taken over as lost, and the late word of the worker is `claim_lost` and changes nothing."""
    with site_of(program) as other:
        program("job", "add", "a", "--function", "f")
        run = program.json("job", "trigger", "a")["id"]
        first = Site(program)
        claimed = Curl(first)("", types=["f"], alive_time=600).json[0]
        assert claimed["run_id"] == run
        elsewhere = Curl(other)(f"/{run}/finish", token=claimed["token"])
        assert (elsewhere.status, elsewhere.json["error"]["code"]) == (409, "refused")
        first.node.kill()
        first.node.communicate()
        until(lambda: Curl(other).run(run)["lost"] == 1)
        late = Curl(other)(f"/{run}/finish", token=claimed["token"], result="late")
        assert (late.status, late.json["error"]["code"]) == (409, "claim_lost")
        again = Curl(other)("", types=["f"], wait=20).json[0]
        assert (again["run_id"], again["attempt"]) == (run, 2)
        assert Curl(other)(f"/{run}/finish", token=claimed["token"]).json["error"]["code"] == "claim_lost"
        assert Curl(other)(f"/{run}/finish", token=again["token"], result="ours").status == 200
        assert Curl(other).run(run)["result"] == "ours"


def test_a_node_that_stops_waits_for_its_workers(program: Program) -> None:
    """Asked to stop, it gives out nothing, answers who waits, and goes when its workers have said their words."""
    site = Site(program)
    program("job", "add", "a", "--function", "f")
    run = program.json("job", "trigger", "a")["id"]
    curl = Curl(site)
    claimed = curl("", types=["f"]).json[0]
    site.node.send_signal(signal.SIGTERM)
    until(lambda: curl("", types=["f"]).status == 409)
    assert "stops" in curl("", types=["f"]).json["error"]["message"]
    assert site.node.poll() is None
    assert curl(f"/{run}/heartbeat", token=claimed["token"]).status == 200
    assert curl(f"/{run}/finish", token=claimed["token"]).json == {"run_id": run, "state": "succeeded"}
    assert site.node.wait(timeout=20) == 0
    site.node.communicate()


def test_a_node_that_is_hurried_hands_its_workers_runs_back(program: Program) -> None:
    """Asked twice, it does not wait: what workers have in hand is ready again, and has lost nothing."""
    site = Site(program)
    program("job", "add", "a", "--function", "f")
    run = program.json("job", "trigger", "a")["id"]
    assert len(Curl(site)("", types=["f"]).json) == 1
    site.node.send_signal(signal.SIGTERM)
    until(lambda: Curl(site)("", types=["f"]).status == 409)
    site.node.send_signal(signal.SIGTERM)
    assert site.node.wait(timeout=20) == 0
    site.node.communicate()
    left = program.json("run", "show", run)
    assert (left["state"], left["lost"], left["failures"]) == ("ready", 0, 0)
    assert program.json("node", "list") == [] or all(each["state"] != "alive" for each in program.json("node", "list"))


def test_who_goes_while_it_waits_takes_nothing(program: Program) -> None:
    """A worker whose connection ends while it waits gets no run; the next one does, at once."""
    with site_of(program) as site:
        program("job", "add", "a", "--function", "f")
        curl = Curl(site)
        connection = HTTPConnection("127.0.0.1", curl.port, timeout=60)
        connection.request("POST", "/api/v2/claims", json.dumps({"types": ["f"], "wait": 60}), curl.headers)
        time.sleep(1)
        connection.close()
        time.sleep(1)
        run = program.json("job", "trigger", "a")["id"]
        began = time.monotonic()
        (claimed,) = curl("", types=["f"], wait=10).json
        assert claimed["run_id"] == run
        assert time.monotonic() - began < 5
        curl(f"/{run}/finish", token=claimed["token"])


@pytest.mark.prove
def test_many_who_wait_hinder_nobody(program: Program) -> None:
    """A hundred wait, the next one is refused at once, and the door answers all others meanwhile."""
    with site_of(program) as site:
        curl = Curl(site)
        waiting = []
        for _ in range(101):
            connection = HTTPConnection("127.0.0.1", curl.port, timeout=60)
            connection.request("POST", "/api/v2/claims", json.dumps({"types": ["f"], "wait": 6}), curl.headers)
            waiting.append(connection)
        refused = curl("", types=["f"], wait=6)
        assert (refused.status, refused.json["error"]["code"]) == (409, "refused")
        began = time.monotonic()
        assert curl.ask("GET", "/api/v2/jobs").status == 200
        assert time.monotonic() - began < 2
        statuses = sorted(connection.getresponse().status for connection in waiting)
        assert statuses == [200] * 100 + [409]
        for connection in waiting:
            connection.close()


def test_nobody_claims_without_the_secret(program: Program) -> None:
    """A worker that does not bring it is answered 401, and gets nothing."""
    with site_of(program) as site:
        curl = Curl(site)
        curl.headers = {"Content-Type": "application/json"}
        assert curl("", types=["f"]).status == 401
