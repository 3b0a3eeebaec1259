"""The README, taken at its word."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program, stop
from tests.integration.manual.reading import Reader, blocks
from tests.programs.forked import ROOT

README = ROOT / "README.md"


@pytest.mark.timeout(180)
def test_every_command_does_what_it_says(tmp_path: Path) -> None:
    """Each command and each block of Python is typed in its order, in a fresh folder, and prints what stands there."""
    with Reader(tmp_path, {}) as reader:
        assert reader.read(README) > 5


@pytest.mark.parametrize(
    "last_line", ["app.run()\n", pytest.param("tokimori.Worker(app, config=dict).run()\n", marks=pytest.mark.prove)]
)
def test_the_function_of_the_readme_is_a_program(tmp_path: Path, last_line: str) -> None:
    """Its file with such a last line is a worker of its app."""
    program = Program(tmp_path)
    text = next(each.text for each in blocks(README) if each.title == "reports.py")
    (program.home / "reports.py").write_text(text + last_line)
    environment = {**program.environment, "TOKIMORI_HTTP_PORT": "0"}
    command = [sys.executable, "reports.py"]
    node = subprocess.Popen(command, cwd=program.home, env=environment, stdout=subprocess.DEVNULL, text=True)
    try:
        until(lambda: program.run("job", "show", "weekly").returncode == 0 and program.json("node", "list"))
        run = program.json("job", "trigger", "weekly", "--wait", "--payload", '{"region": "north"}')
        assert program("run", "logs", run["id"]) == "a report of north\n"
    finally:
        assert stop(node) == 0


def test_it_is_short_and_leads_on() -> None:
    """It has 6 KB at most, each file and each target of make that it names is there."""
    text = README.read_text()
    assert len(text.encode()) <= 6 * 1024
    links = re.findall(r"\]\(([^)#]+)", text)
    assert len(links) > 20
    assert [each for each in links if not (ROOT / each).is_file()] == []
    makefile = (ROOT / "Makefile").read_text()
    wanted = set(re.findall(r"\bmake (\w+)", text))
    assert wanted >= {"run", "test", "prove", "manual"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in wanted)
