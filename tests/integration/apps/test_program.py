"""A program that ends with `app.run()` is the node of its app."""

import subprocess
import sys

import pytest

from tests.integration.apps.conftest import AppProgram
from tests.integration.cli.conftest import stop
from tokimori.apps.app import App
from tokimori.errors import Refused

RUNS = """
if __name__ == "__main__":
    print("once", flush=True)
    app.run("--no-http")
"""


@pytest.mark.parametrize("started", [("jobs.py",), pytest.param(("-m", "jobs"), marks=pytest.mark.prove)])
def test_a_program_becomes_the_node_of_its_app(program: AppProgram, started: tuple[str, ...]) -> None:
    """In the same process, with worker processes that import its file and do not run what is for the program alone."""
    program.app.write_text(program.app.read_text() + RUNS)
    node = subprocess.Popen(
        [sys.executable, *started], cwd=program.home, env=program.environment, text=True, stdout=subprocess.PIPE
    )
    assert node.stdout is not None
    assert node.stdout.readline() == "once\n"
    assert "runs jobs" in node.stdout.readline()
    assert program.outcome("double", '{"number": 21}')["result"] == "42"
    (found,) = [each for each in program.json("node", "list") if each["state"] == "alive"]
    assert found["pid"] == node.pid
    assert stop(node) == 0


def test_an_app_that_the_program_does_not_name_is_refused() -> None:
    """Its worker processes would look for it in vain."""
    with pytest.raises(Refused, match="must be called from the module that defines"):
        App("nameless").run()
