"""Other users of the machine at the door of a real node, and where its secret is to be seen."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import Program, stop
from tests.integration.http.site import Site, site_of
from tests.programs.forked import PROGRAM

GIVEN = "given-0123456789-given-0123456789-given-012"
ATTACK = r"""
import glob, http.client, json, os, sys, time, urllib.parse
url, pid, state, canary = sys.argv[1:]
port = urllib.parse.urlsplit(url).port
http.client.HTTPConnection("127.0.0.1", port).connect()  # this imports all, while the interpreter is in reach
os.setgroups([]); os.setgid(65534); os.setuid(65534)

def ask(method, path, body=None, **headers):
    began = time.monotonic()
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    asked.request(method, path, body, headers)
    answer = asked.getresponse()
    return answer.status, answer.read().decode(), time.monotonic() - began

job = json.dumps({"id": "evil", "command": f"id > {canary}"})
kind = {"Content-Type": "application/json"}
answers = [
    ask("POST", "/api/v2/jobs", job, **kind),
    ask("POST", "/api/v2/jobs", job, **kind, Authorization="Bearer " + "a" * 43),
    ask("POST", "/api/v2/jobs", job, **kind, Cookie=f"tokimori-{port}=" + "a" * 64),
    ask("POST", "/api/v2/jobs?secret=" + "a" * 43, job, **kind),
    ask("POST", "/api/v2/jobs", job, **kind, **{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "root"}),
    ask("POST", "//api/v2/jobs", job, **kind),
    ask("POST", "/healthz/../api/v2/jobs", job, **kind),
    ask("POST", "/api/v2/jobs/own/trigger", "{}", **kind),
    ask("POST", "/api/v2/pause", "{}", **kind),
    ask("DELETE", "/api/v2/jobs/own"),
    *(ask("GET", path) for path in ("/", "/?job=own", "/api/v2/jobs", "/api/v2/runs", "/static/console.js")),
    ask("GET", "/?schedule=" + urllib.parse.quote("* * * * *;" * 200)),
    ask("GET", "/?secret=" + "a" * 8_000),
]
read = []
for path in [f"{state}/secret", *glob.glob(f"{state}/*"), f"/proc/{pid}/environ", f"/proc/{pid}/mem"]:
    try:
        read.append(open(path).read())
    except OSError:
        pass
try:
    read += [open(path).read() for path in glob.glob(f"{state}/doors/*")]
except OSError:
    pass
try:
    os.unlink(f"{state}/secret")
    read.append("removed the secret")
except OSError:
    pass
seen = [open(path).read() for path in (f"/proc/{pid}/cmdline",)]
print(json.dumps({"answers": answers, "read": read, "seen": seen, "well": ask("GET", "/healthz")[0]}))
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One at home in a folder."""
    return Program(tmp_path)


@pytest.fixture
def house() -> Iterator[Program]:
    """A program whose folders everybody may look into, its state folder too, as systemd makes it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "state").mkdir(mode=0o755)
        yield Program(Path(folder))


def ask(url: str, secret: str = "", **headers: str) -> int:
    """The status of the answer."""
    bearer = {"Authorization": f"Bearer {secret}"} if secret else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={**bearer, **headers})) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def refusal(program: Program, *arguments: str) -> Any:
    """The error as which a node ends, behind the lines of its log."""
    ended = program.run("--json", *arguments)
    assert ended.returncode == 2, ended.stderr
    return json.loads(ended.stderr.splitlines()[-1])["error"]


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_of_the_machine_gets_nothing(house: Program) -> None:
    """Beside a node of root: nothing is read, nothing runs, nothing is changed, and no answer takes over 500 ms."""
    house("job", "add", "own", "--command", "true")
    canary = house.home / "canary"
    with site_of(house) as site:
        done = subprocess.run(
            [sys.executable, "-c", ATTACK, site.url, str(site.node.pid), str(house.home / "state"), str(canary)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert [status for status, _, _ in found["answers"]] == [401] * len(found["answers"])
        assert all("own" not in text.replace("known", "") for _, text, _ in found["answers"])
        assert found["read"] == []
        assert site.secret not in "".join(found["seen"])
        assert found["well"] == 200
        assert sorted(took for _, _, took in found["answers"])[-1] < 0.5
        assert ask(f"{site.url}api/v2/jobs", site.secret) == 200
        assert [job["id"] for job in house.json("job", "list")] == ["own"]
        assert house.json("run", "list") == [] and house.json("queue", "list")[0]["pauses"] == []
    assert not canary.exists()


def test_the_secret_is_in_no_log(program: Program) -> None:
    """However talkative: neither in the node's log, nor where the answer to `serve` goes to a file."""
    program.environment["TOKIMORI_LOG_LEVEL"] = "debug"
    with site_of(program) as site:
        for path in ("", "?secret=wrong", f"?secret={site.secret}", "nowhere", f"nowhere?secret={site.secret}"):
            ask(f"{site.url}{path}", Accept="text/html")
            ask(f"{site.url}{path}", site.secret)
        assert program("node", "address").split() == [site.entry]
        assert program.json("node", "address") == [site.entry]
        assert program("node", "address", "--header") == f"Authorization: Bearer {site.secret}\n"
    assert "wrong secret" in site.log
    assert site.secret not in site.log
    assert program.run("node", "address").returncode == 3


def test_a_node_that_writes_to_a_file_names_the_command(program: Program) -> None:
    """In the background, or with its output in a file that others may read, it keeps the secret to itself."""
    pid = int(program("serve", "--daemon", "-p", "0"))
    try:
        (entry,) = program("node", "address").split()
        secret = entry.partition("?secret=")[2]
        told = (program.home / "state" / "tokimori.log").read_text()
        assert "tokimori node address" in told and secret not in told
        assert ask(entry.partition("?")[0], secret) == 200
    finally:
        os.kill(pid, 15)
    written = program.home / "out"
    with written.open("w") as out:
        node = subprocess.Popen(
            [str(PROGRAM), "serve", "-p", "0"],
            cwd=program.home,
            env=program.environment,
            text=True,
            stdout=out,
            stderr=subprocess.PIPE,
        )
    try:
        while "node address" not in written.read_text():
            assert node.poll() is None
        assert secret not in written.read_text()
    finally:
        stop(node)


@pytest.mark.parametrize(("given", "on_terminal"), [(False, True), (True, True), (False, False)])
def test_a_secret_is_printed_on_a_terminal_alone(program: Program, given: bool, on_terminal: bool) -> None:
    """Not into a pipe, as runit, s6 and others keep it in a log; nor is one printed that somebody has given."""
    program.environment |= {"TOKIMORI_HTTP_SECRET": GIVEN} if given else {}
    reading, writing = os.openpty() if on_terminal else os.pipe()
    node = subprocess.Popen(
        [str(PROGRAM), "serve", "-p", "0"], cwd=program.home, env=program.environment, text=True, stdout=writing
    )
    os.close(writing)
    told = b""
    try:
        while b"?secret=" not in told and b"logs a browser in" not in told:
            told += os.read(reading, 4096)
        secret = GIVEN if given else (program.home / "state" / "secret").read_text().strip()
        assert (secret in told.decode()) is (on_terminal and not given)
    finally:
        stop(node)
        os.close(reading)


def test_nodes_of_one_folder_share_the_secret(program: Program) -> None:
    """Both addresses are printed; a killed node's is not, and a new node keeps the secret."""
    with site_of(program) as one:
        with site_of(program) as two:
            assert one.secret == two.secret and one.url != two.url
            assert set(program("node", "address").split()) == {one.entry, two.entry}
        gone = Site(program)
        gone.node.kill()
        gone.node.communicate()
        assert program("node", "address").split() == [one.entry]


def test_a_secret_that_others_know_starts_no_node(program: Program) -> None:
    """The error names the file, and what to do; done, the node starts with another one."""
    with site_of(program) as site:
        pass
    file = program.home / "state" / "secret"
    file.chmod(0o644)
    fault = refusal(program, "serve")
    assert (fault["code"], fault["field"], fault["value"]) == ("refused", "secret", str(file))
    assert f"rm {file}" in fault["message"]
    assert program.error("node", "address")["field"] == "secret"
    file.unlink()
    with site_of(program) as other:
        assert other.secret != site.secret
        assert (ask(other.url, site.secret), ask(other.url, other.secret)) == (401, 200)


def test_beyond_the_machine_only_on_purpose(program: Program) -> None:
    """Without TLS a node listens on the loopback, unless somebody says that it may be read along; the secret stays."""
    fault = refusal(program, "serve", "-i", "0.0.0.0")  # noqa: S104
    assert (fault["code"], fault["field"], fault["value"]) == ("refused", "http.interface", "0.0.0.0")  # noqa: S104
    assert "--insecure" in fault["message"] and "http.insecure = true" in fault["message"]
    with site_of(program, "-i", "0.0.0.0", "--insecure") as site:  # noqa: S104
        assert (ask(site.url), ask(site.url, site.secret)) == (401, 200)
        assert "without TLS" in site.log
    program.environment["TOKIMORI_HTTP_INSECURE"] = "true"
    program.environment["TOKIMORI_HTTP_INTERFACE"] = "0.0.0.0"  # noqa: S104
    with site_of(program) as site:
        assert ask(site.url) == 401
