"""Jobs that name a class and its method, which no app declares: Kōjō's worker_uri and worker_method."""

from collections.abc import Iterator
from typing import Any

import pytest

import tokimori
from tests.integration.cli.conftest import Program, stop

WORKERS = """
import os
from os import system

class Worker:
    def add(self, first: int, second: int = 1) -> list:
        return [first + second, self.task.attempt, os.getpid()]

    def panics(self) -> None:
        raise TypeError("not that type")

    def asks(self) -> str | None:
        if self.task.attempt == 1:
            self.task.retry(after=0)
            return None
        return f"attempt {self.task.attempt}"

    async def waits(self) -> str:
        return self.task.job_id

def plain(number: int) -> int:
    return number * 2
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One beside its node, which has no app, and allows what one module defines."""
    program = Program(tmp_path_factory.mktemp("stored"))
    for module in ("workers", "others"):
        (program.home / f"{module}.py").write_text(WORKERS)
    (program.home / "tokimori.toml").write_text('app.stored = ["workers:*"]\napp.processes = 1\n')
    node = program.serve()
    try:
        yield program
    finally:
        assert stop(node) == 0


def outcome(program: Program, function: str, payload: str | None = None, code: int = 0) -> dict[str, Any]:
    """How the run of a job with this function ends."""
    job = function.replace(":", "-")
    program("job", "add", job, "--function", function)
    said = [] if payload is None else ["--payload", payload]
    found: dict[str, Any] = program.json("job", "trigger", job, "--wait", *said, code=code)
    return found


def test_worker_uri_and_worker_method(program: Program) -> None:
    """The method gets typed arguments and its task, in a worker process; functions and coroutines run so, too."""
    run = outcome(program, "workers:Worker.add", '{"first": 2}')
    assert run["result"] == f"[3,1,{run['pid']}]"
    assert outcome(program, "workers:Worker.waits")["result"] == '"workers-Worker.waits"'
    assert outcome(program, "workers:plain", '{"number": 21}')["result"] == "42"


def test_a_worker_that_raises_a_type_error(program: Program) -> None:
    """KojoFitness 42: the run has failed with the error, and the node lives on."""
    assert outcome(program, "workers:Worker.panics", code=1)["error"] == "TypeError: not that type"


def test_requests_of_a_worker(program: Program) -> None:
    """KojoFitness 45: it asks for a retry, which counts, and is called again."""
    run = outcome(program, "workers:Worker.asks")
    assert (run["result"], run["attempt"]) == ('"attempt 2"', 2)


def test_nothing_else_is_imported(program: Program) -> None:
    """What is not allowed waits, and the run names the setting; what an allowed module only imports is refused."""
    program("job", "add", "other", "--function", "others:Worker.add")
    run = program.json("job", "trigger", "other", "--payload", '{"first": 2}')["id"]
    stolen = outcome(program, "workers:system", '{"command": "touch stolen"}', code=1)
    assert stolen["error"] == (
        "InvalidInput: function: 'workers:system' can't be run: workers does not define a function or class 'system'"
    )
    assert not (program.home / "stolen").exists()
    shown = program.json("run", "show", run)
    assert shown["state"] == "ready"
    assert 'app.stored = ["others:*"] in tokimori.toml, or TOKIMORI_APP_STORED=others:*' in shown["why"][0]["mend"]


def test_from_python_toml_and_the_command_line_it_is_one_field(program: Program) -> None:
    """`function`, as of any handler; it comes out as it went in."""
    program("job", "add", "one", "--function", "workers:Worker.add")
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        client.jobs.add("three", function="workers:Worker.add")
    assert 'function = "workers:Worker.add"' in program("export", "toml")
    assert {program.json("job", "show", job)["function"] for job in ("one", "three")} == {"workers:Worker.add"}
