"""Events at real nodes: streams over sockets, nodes that die, and thousands who listen."""

import json
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of

LISTENERS = 5_000


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program at home, with a job that ends at once."""
    program = Program(tmp_path)
    program("job", "add", "a", "--noop")
    program("job", "add", "b", "--command", "exit 3")
    return program


class Stream:
    """A stream of events, as curl and browsers read it."""

    def __init__(self, site: Site, query: str = "", last: str | None = None) -> None:
        where = urlsplit(site.url)
        self._connection = HTTPConnection(str(where.hostname), where.port, timeout=30)
        headers = {"Authorization": f"Bearer {site.secret}", "Accept": "text/event-stream"}
        headers |= {} if last is None else {"Last-Event-ID": last}
        self._connection.request("GET", f"/api/v2/events{query}", headers=headers)
        self.answer: HTTPResponse = self._connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.last = last

    def next(self) -> dict[str, Any] | None:
        """The next event; None: the stream has ended."""
        data = None
        while line := self.answer.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                self.last = value
            if name == "data":
                data = value
            if not line.strip() and data is not None:
                event: dict[str, Any] = json.loads(data)
                return event
        return None

    def begin(self) -> "Stream":
        """Read the first block, which says where it begins."""
        while not self.last:
            name, _, value = self.answer.readline().decode().strip().partition(": ")
            self.last = value if name == "id" else None
        return self

    def close(self) -> None:
        """Go."""
        self.answer.close()
        self._connection.close()


@contextmanager
def listening(site: Site, query: str = "", last: str | None = None) -> Iterator[Stream]:
    """A stream that ends."""
    stream = Stream(site, query, last)
    try:
        yield stream
    finally:
        stream.close()


def test_a_stream_tells_of_runs_as_they_end(program: Program) -> None:
    """Within seconds, in order, with what became of each; and a filter leaves others out."""
    with site_of(program) as site, listening(site) as all_of_them, listening(site, "?state=failed") as failed:
        all_of_them.begin()
        failed.begin()
        first = program.json("job", "trigger", "a")["id"]
        assert (event := all_of_them.next()) is not None
        assert (event["event"], event["run_id"]) == ("run.succeeded", first)
        second = program.json("job", "trigger", "b")["id"]
        assert [stream.next()["run_id"] for stream in (all_of_them, failed)] == [second, second]  # type: ignore[index]


def test_another_node_goes_on_where_one_was_killed(program: Program) -> None:
    """Who brings the last id to another node misses nothing of what ended before, meanwhile and after."""
    killed = Site(program)
    with site_of(program) as other:
        with listening(killed) as stream:
            stream.begin()
            known = program.json("job", "trigger", "a")["id"]
            assert (stream.next() or {})["run_id"] == known
            os.kill(killed.node.pid, signal.SIGKILL)
            killed.node.communicate()
            assert stream.next() is None
        meanwhile = program.json("job", "trigger", "a", "--wait", "--timeout", "60")["id"]
        with listening(other, last=stream.last) as resumed:
            told = set[str]()
            while meanwhile not in told:
                told.add((resumed.next() or {})["run_id"])
            later = program.json("job", "trigger", "a")["id"]
            while later not in told:
                told.add((resumed.next() or {})["run_id"])


def test_a_node_that_stops_ends_its_streams(program: Program) -> None:
    """Within two seconds, while it drains."""
    program("job", "add", "slow", "--command", "sleep 8")
    with site_of(program) as site, listening(site) as stream:
        stream.begin()
        run = program.json("job", "trigger", "slow")["id"]
        while program.json("run", "show", run)["state"] != "running":
            time.sleep(0.1)
        began = time.monotonic()
        site.node.send_signal(signal.SIGTERM)
        assert stream.next() is None
        assert time.monotonic() - began < 4


def test_a_stream_tells_of_what_is_changed(program: Program) -> None:
    """What people change through any door, and what the node parks by itself; runs alone for who asks for them."""
    program("job", "add", "c", "--command", "exit 3", "--on-exhausted", "park")
    with site_of(program) as site, listening(site, "?kind=definitions") as stream:
        stream.begin()
        program("job", "pause", "a", "--reason", "repairs")
        paused = stream.next() or {}
        assert [paused[name] for name in ("event", "kind", "job_id", "reason")] == [
            "job.paused",
            "change",
            "a",
            "repairs",
        ]
        program("job", "trigger", "c")
        parked = stream.next() or {}
        assert (parked["event"], parked["job_id"], parked["by"]) == ("job.parked", "c", "tokimori")
        with listening(site, "?kind=definitions", last=paused["position"]) as resumed:
            assert (resumed.next() or {})["id"] == parked["id"]
        program("--server", site.entry, "job", "delete", "a")
        assert (stream.next() or {})["event"] == "job.deleted"


def test_the_command_line_tells_of_runs(program: Program) -> None:
    """Of the last hour, from the store and from a node; with -f a line for each as it ends."""
    with site_of(program) as site:
        run = program.json("job", "trigger", "a", "--wait", "--timeout", "60")["id"]
        program.run("job", "trigger", "b", "--wait", "--timeout", "60")
        for where in ((), ("--server", site.entry)):
            found = program.json("events", *where)
            assert [each["event"] for each in found] == ["run.succeeded", "run.failed"]
            assert found[0]["run_id"] == run
            assert program.json("events", "--state", "succeeded", "--job-prefix", "b", *where) == []
            assert program.json("events", "--after", found[0]["position"], "--job", "b", *where)[0]["job_id"] == "b"
        assert program.error("events", "--after", "x")["field"] == "after"
        assert program.error("events", "--after", "1", "--since", "1h")["field"] == "since"


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_thousands_who_listen_cost_one_reader(program: Program) -> None:
    """A node with 5,000 idle streams reads the store as often as with one, and tells all of them of an end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * LISTENERS:
        pytest.skip(f"ulimit -n is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * LISTENERS), hard))
    try:
        program.environment["TOKIMORI_HTTP_STREAMS"] = str(LISTENERS)
        with site_of(program) as site:
            before = _memory(site)
            sockets = [_open(site) for _ in range(LISTENERS)]
            each = (_memory(site) - before) / LISTENERS
            busy = _processor(site)
            time.sleep(10)
            busy = (_processor(site) - busy) / 10
            run = _trigger(site).encode()
            began = time.monotonic()
            for listener in sockets:
                while run not in listener.recv(65_536):
                    pass
            took = time.monotonic() - began
            for listener in sockets:
                listener.close()
        print(f"{each / 1024:.0f} KiB a stream, {busy:.0%} of a core while idle, an end reached all in {took:.1f} s")
        assert each < 100 * 1024
        assert took < 15
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _open(site: Site) -> socket.socket:
    """A stream that has begun."""
    where = urlsplit(site.url)
    opened = socket.create_connection((str(where.hostname), where.port or 0), timeout=60)
    said = f"GET /api/v2/events HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {site.secret}\r\n"
    opened.sendall(f"{said}Accept: text/event-stream\r\n\r\n".encode())
    answer = b""
    while b"\nid: " not in answer:
        part = opened.recv(65_536)
        assert part, answer
        answer += part
    return opened


def _trigger(site: Site) -> str:
    """The id of a run of the job `a`; the program itself can't be started beside so many files."""
    where = urlsplit(site.url)
    connection = HTTPConnection(str(where.hostname), where.port, timeout=60)
    headers = {"Authorization": f"Bearer {site.secret}", "Content-Type": "application/json"}
    connection.request("POST", "/api/v2/runs", json.dumps({"job_id": "a"}), headers)
    run_id: str = json.loads(connection.getresponse().read())["id"]
    connection.close()
    return run_id


def _memory(site: Site) -> int:
    pages = int(Path(f"/proc/{site.node.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _processor(site: Site) -> float:
    words = Path(f"/proc/{site.node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
