"""Semaphores in another store than jobs, through every door: a node, the command line, the client and HTTP."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest

import tokimori
from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import PROGRAM, Started

PATIENCE = 30.0
"""Seconds after which a test gives up."""
APART = "TOKIMORI_DATASOURCE_SEMAPHORE_URL"


@pytest.fixture
def apart(program: Program) -> Program:
    """One whose semaphores are in a second file."""
    program.environment[APART] = f"sqlite://{program.home}/semaphores.db"
    return program


@pytest.fixture
def node(apart: Program) -> Iterator[Started]:
    """A node at work."""
    serving = apart.serve()
    yield serving
    assert stop(serving) == 0


def until(holds: Callable[[], bool]) -> None:
    """Wait."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def state(program: Program, run_id: str) -> str:
    """Of the run."""
    return str(program.json("run", "show", run_id)["state"])


@pytest.mark.usefixtures("node")
def test_a_run_waits_for_a_program(apart: Program) -> None:
    """`tokimori lock` and runs share the units in the other store; the waiting run says so."""
    apart("job", "add", "j", "--semaphore", "table", "--", "true")
    gate = apart.home / "gate"
    holder = apart.start("lock", "table", "--", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    until(lambda: any(each["used"] for each in apart.json("lock", "list")))
    run = apart.json("job", "trigger", "j")["id"]
    until(lambda: apart.json("run", "show", run)["waits_for"] is not None)
    shown = apart.json("run", "show", run)
    assert (shown["state"], shown["waits_for"]) == ("ready", "units of the semaphores in another store: table")
    (reason,) = apart.json("run", "why", run)["reasons"]
    assert (reason["cause"], [each["pid"] for each in reason["holders"]]) == ("semaphore", [holder.pid])
    gate.touch()
    assert holder.wait(PATIENCE) == 0
    until(lambda: state(apart, run) == "succeeded")
    del apart.environment[APART]
    assert apart.json("lock", "list") == []


@pytest.mark.usefixtures("node")
def test_a_command_enters_what_its_run_holds(apart: Program) -> None:
    """A run whose command locks what the run holds does not wait for itself."""
    line = [
        str(PROGRAM),
        "lock",
        "table",
        "--wait",
        "5",
        "--",
        "sh",
        "-c",
        "echo $TOKIMORI_LOCK_TOKEN $TOKIMORI_PERMITS",
    ]
    settings = [f"{name}={value}" for name, value in apart.environment.items() if name.startswith("TOKIMORI_")]
    environment = [part for pair in settings for part in ("--env", pair)]
    apart("job", "add", "j", "--semaphore", "table", *environment, "--", *line)
    run = apart.json("job", "trigger", "j")["id"]
    until(lambda: state(apart, run) in {"succeeded", "failed"})
    token, permits = apart("run", "logs", run).split()
    assert permits == f"table:1:{token}"


def test_the_flag_and_the_client_name_it_too(program: Program) -> None:
    """`--semaphore-store` is what the setting is, and so is the argument of `tokimori.open`."""
    url = f"sqlite://{program.home}/semaphores.db"
    program("--semaphore-store", url, "lock", "set", "api", "--limit", "5")
    assert [each["name"] for each in program.json("--semaphore-store", url, "lock", "list")] == ["api"]
    assert program.json("lock", "list") == []
    with tokimori.open(f"sqlite://{program.database}", semaphore_store=url) as client:
        assert client.semaphores.get("api").limit == 5
        with client.semaphore("api", weight=2):
            assert client.semaphores.get("api").used == 2
        client.jobs.add("j", noop=True, semaphores=["api:5"])
    with tokimori.open(f"sqlite://{program.database}") as client:
        assert client.semaphores.list() == []


def test_over_http(apart: Program) -> None:
    """`/api/v2/semaphores` of a node is about the other store."""
    serving = subprocess.Popen(
        [str(PROGRAM), "serve", "-i", "127.0.0.1"],
        cwd=apart.home,
        env=apart.environment,
        text=True,
        stdout=subprocess.PIPE,
    )
    try:
        assert serving.stdout is not None
        page = next(line for line in serving.stdout if "Its page is at" in line)
        secret = (apart.home / "state" / "secret").read_text().strip()
        body = json.dumps({"limit": 3}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
        place = f"{page.split()[-1]}api/v2/semaphores/api"
        put = urllib.request.Request(place, body, headers, method="PUT")  # noqa: S310
        with urllib.request.urlopen(put) as answer:  # noqa: S310
            assert json.load(answer)["limit"] == 3
        assert [each["name"] for each in apart.json("lock", "list")] == ["api"]
    finally:
        stop(serving)
    del apart.environment[APART]
    assert apart.json("lock", "list") == []


def test_without_the_other_store_all_else_goes_on(apart: Program) -> None:
    """Commands that want nothing of it work, a node serves what wants nothing of it, and who asks is told."""
    apart.environment[APART] = "redis://127.0.0.1:1/0"
    apart("job", "add", "free", "--", "true")
    apart("job", "add", "bound", "--semaphore", "table", "--", "true")
    serving = apart.serve()
    try:
        bound, free = (apart.json("job", "trigger", name)["id"] for name in ("bound", "free"))
        until(lambda: state(apart, free) == "succeeded")
        assert state(apart, bound) == "ready"
        assert apart.error("lock", "list")["code"] == "store_unavailable"
    finally:
        assert stop(serving) == 0


def test_a_bad_setting_is_named(program: Program) -> None:
    """`config check` says which setting, what is wrong with it and what is allowed."""
    (program.home / "tokimori.toml").write_text('[datasource.semaphore]\nurl = "ftp://x"\n')
    fault = program.error("config", "check")
    assert "datasource.semaphore.url: ftp: not the URL of a store; allowed: sqlite:///" in fault["message"]
