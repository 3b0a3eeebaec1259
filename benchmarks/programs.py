"""Peers as programs of their own: what is called, and which of them this machine has not."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.postgres_peers.program import Drained

ROOT = Path(__file__).parents[1]
NODE = ROOT / "benchmarks/node_modules/.bin/node"
PATIENCE = 900.0
"""Seconds that a peer may take."""


@dataclass(frozen=True, slots=True)
class Program:
    """A peer's program, to be called with a verb, a URL, a number of runs and, for some verbs, a moment."""

    runner: Path
    arguments: Sequence[str]

    def command(self, verb: str, url: str, runs: int, *at: int) -> list[str]:
        """How it is started, in `ROOT`."""
        return [str(self.runner), *self.arguments, verb, url, str(runs), *map(str, at)]

    def call(self, verb: str, url: str, runs: int, *at: int) -> str:
        """What it prints."""
        command = self.command(verb, url, runs, *at)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, f"{command} failed: {done.stderr}"
        return done.stdout

    def drained(self, url: str, runs: int) -> Drained:
        """What it says of its drain."""
        seconds, cpu = self.call("drain", url, runs).split()
        return Drained(float(seconds), float(cpu))


def python_program(module: str, *arguments: str, runner: Path = Path(sys.executable)) -> Program:
    """A module of this folder."""
    return Program(runner, ("-m", f"benchmarks.{module}", *arguments))


def node_program(file: str, *arguments: str) -> Program:
    """A file of this folder."""
    return Program(NODE, (f"benchmarks/{file}", *arguments))


def absent(programs: Mapping[str, Program]) -> Mapping[str, str]:
    """The peers that are not installed, and why."""
    return {
        name: f"{program.runner.relative_to(ROOT)} is missing; `make bench` installs it (Node: where there is npm)"
        for name, program in programs.items()
        if not program.runner.exists()
    }
