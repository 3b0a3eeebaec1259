"""What shells complete, asked as a shell asks: with the script that `tokimori completion` prints."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM

ASKS: Mapping[str, str] = MappingProxyType(
    {
        "bash": 'source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tokimori_completion tokimori;'
        ' printf "%s\\n" "${COMPREPLY[@]}"',
        "zsh": "compdef() { :; }; compadd() { print -l -- ${(P)@[-1]} }; _describe() { print -l -- ${(P)@[-2]} };"
        ' source "$1"; words=(${=2}); CURRENT=${#words}; _tokimori_completion',
        "fish": "source $argv[2]; complete -C $argv[3]",
    }
)
"""What each shell is told: the script is its first argument, the line so far its second."""


@pytest.mark.parametrize("shell", ASKS)
def test_a_shell_completes_ids_and_zones(shell: str, program: Program) -> None:
    """Of jobs and of runs, by their beginnings, and names of zones; as it completes commands and options."""
    if (found := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    program("job", "add", "nightly", "--noop")
    program("job", "add", "other", "--noop")
    run = program.json("job", "trigger", "nightly")["id"]
    script = program.home / "script"
    script.write_text(program("completion", shell))
    path = f"{PROGRAM.parent}{os.pathsep}{program.environment['PATH']}"

    def completed(line: str) -> str:
        start = [found, "-c", ASKS[shell], shell] if shell != "fish" else [found, "-c", ASKS[shell], "--", shell]
        asked = subprocess.run(
            [*start, str(script), line],
            env={**program.environment, "PATH": path},
            cwd=program.home,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert asked.returncode == 0, asked.stderr
        return asked.stdout

    assert completed("tokimori job show ni").split()[0].startswith("nightly")
    assert "other" not in completed("tokimori job show ni")
    assert run in completed(f"tokimori run show {run[:6]}")
    assert "Europe/Paris" in completed("tokimori job add x --timezone europe/pa")
    assert "schedule" in completed("tokimori sche")
    assert "--schedule" in completed("tokimori job add x --sch")
