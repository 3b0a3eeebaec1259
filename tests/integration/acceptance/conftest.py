"""A node at work, and a client beside it: what Kala's and Kōjō's users would have."""

import time
from collections.abc import Iterator, Sequence

import pytest

import tokimori
from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import PROGRAM
from tokimori.client.client import Client
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.views.runs import Run

PATIENCE = 40
LIVE = frozenset(RunState) - ENDS


class Workplace:
    """A node, its store and a client of it."""

    def __init__(self, program: Program, client: Client) -> None:
        self.client = client
        self.environment = {"TOKIMORI_STORE": program.environment["TOKIMORI_STORE"]}
        """What a command needs to ask for runs itself."""

    def run(self, job_id: str, **asked: object) -> Run:
        """A run that was asked for, when it has ended."""
        return self.client.runs.wait(self.client.jobs.trigger(job_id, **asked).id, PATIENCE)  # type: ignore[arg-type]

    def runs(self, job_id: str) -> Sequence[Run]:
        """The job's runs, the oldest first."""
        return list(self.client.runs.list(job_id=job_id))[::-1]

    def states(self, *job_ids: str) -> list[list[str]]:
        """The states of each job's runs, once none of them goes on: children are there when their parent has ended."""
        end = time.monotonic() + PATIENCE
        while any(run.state in LIVE for job_id in job_ids for run in self.runs(job_id)):
            assert time.monotonic() < end, [self.runs(job_id) for job_id in job_ids]
            time.sleep(0.05)
        return [[run.state.value for run in self.runs(job_id)] for job_id in job_ids]

    def until(self, run: Run, state: RunState) -> Run:
        """The run, once it is in this state."""
        end = time.monotonic() + PATIENCE
        while (found := self.client.runs.get(run.id)).state is not state:
            assert time.monotonic() < end, found
            time.sleep(0.05)
        return found


def report(words: str) -> str:
    """The text of a command that says how it ended."""
    return f"{PROGRAM} run report {words}"


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """One for all tests of a file: each has jobs of its own."""
    program = Program(tmp_path_factory.mktemp("workplace"))
    node = program.serve()
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        yield Workplace(program, client)
    assert stop(node) == 0
