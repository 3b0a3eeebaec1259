"""Peers as programs of their own: what is called, and which of them this machine has not."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.postgres_peers.program import Drained

ROOT = Path(__file__).parents[1]
NODE = ROOT / "benchmarks/node_modules/.bin/node"
PATIENCE = 900.0
"""Seconds that a peer may take."""


@dataclass(frozen=True, slots=True)
class Program:
    """A peer's program, to be called with a verb, a URL, a number of runs and, for some verbs, a moment.

    A drain is shared by so many `processes`.
    """

    runner: Path
    arguments: Sequence[str]
    processes: int = 1

    def in_processes(self, processes: int) -> "Program":
        """The same, its drains shared by so many."""
        return replace(self, processes=processes)

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
        if self.processes > 1:
            return self._shared(url, runs)
        seconds, cpu = self.call("drain", url, runs).split()
        return Drained(float(seconds), float(cpu))

    def _shared(self, url: str, runs: int) -> Drained:
        """Several begin together; the last one tells how long it took."""
        command = self.command("share", url, runs)
        workers = [
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(self.processes)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "up\n", f"{command} failed"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        told = [worker.communicate(timeout=PATIENCE)[0].split() for worker in workers]
        called = sum(int(calls) for _, _, calls in told)
        assert called == runs, f"{called} no-ops were called for {runs} runs"
        return Drained(max(float(seconds) for seconds, _, _ in told), sum(float(cpu) for _, cpu, _ in told))


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
