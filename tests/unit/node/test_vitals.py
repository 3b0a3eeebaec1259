"""Why a node is not ready, as it is told to everybody, and to who reads its log."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.examples import NEW_YEAR, a_run
from tokimori.errors import StoreUnavailable
from tokimori.model.run import Run
from tokimori.node.node import Node
from tokimori.node.vitals import BROKEN, EVERY, SILENT, Question, Vitals, write_probe
from tokimori.service.db import Scanner
from tokimori.service.doctor.finding import Finding, failure
from tokimori.service.doctor.rules import INVARIANTS
from tokimori.testing.manual import VirtualClock


class Patient:
    """Something with vitals, and what is wrong with it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.absent: str | None = None
        self.healthy, self.cycle_age, self.fault = True, 0.0, cast("str | None", None)
        self.now = NEW_YEAR
        self.late: Sequence[tuple[Run, float]] = ()
        self.failures: Sequence[Finding] = ()
        self.store_fault: Exception | None = None
        scanner = cast(Scanner, SimpleNamespace(failures=(), look=self.answer, broken={}))
        self.scanner = cast(Any, scanner)
        self.vitals = Vitals(cast(Node, self), self.answer, [], scanner, self.clock)

    def overtime(self, before: float) -> Sequence[tuple[Run, float]]:
        """See `Node`."""
        return [each for each in self.late if each[1] < before]

    async def answer(self) -> None:
        """Answer, or fail."""
        if self.store_fault is not None:
            raise self.store_fault

    async def ask(self) -> str | None:
        """Why it is not ready, after a look."""
        self.vitals._store.again(self.clock.monotonic())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self.vitals.unready


@pytest.fixture
def patient() -> Patient:
    """A healthy one."""
    return Patient()


async def test_a_healthy_node_is_ready(patient: Patient) -> None:
    """One that has not joined, or stops, says so and nothing else."""
    assert await patient.ask() is None
    patient.absent, patient.healthy = "the node stops", False
    assert not patient.vitals.causes
    assert await patient.ask() == "the node stops"


async def test_a_store_that_is_away(patient: Patient) -> None:
    """Strangers learn nothing of its address; a lease that still holds counts for more than one bad answer."""
    patient.store_fault = StoreUnavailable("store db.example refuses")
    assert await patient.ask() is None
    patient.healthy, patient.fault = False, "store db.example refuses"
    assert await patient.ask() == "the store does not answer"


async def test_a_loop_that_stands_still(patient: Patient) -> None:
    """It is blamed only where the store answers others."""
    patient.healthy, patient.cycle_age = False, 9.0
    assert await patient.ask() == "the scheduling loop has stood still for 9 s, though the store answers"
    patient.clock.advance(EVERY)
    patient.store_fault = StoreUnavailable("away")
    assert await patient.ask() == "the store does not answer"
    patient.healthy = True
    assert await patient.ask() == "the scheduling loop has stood still for 9 s, though the store answers"


async def test_a_handler_that_does_not_end(patient: Patient, caplog: pytest.LogCaptureFixture) -> None:
    """A few seconds after it was asked to; the log names the run and its job, once, and strangers learn neither."""
    run = a_run()
    patient.late = [(run, patient.clock.monotonic() - 4)]
    assert await patient.ask() is None
    patient.late = [(run, patient.clock.monotonic() - 6)]
    assert await patient.ask() == "a handler was asked to end 6 s ago, and does not"
    assert [each.detail for each in patient.vitals.causes] == [f"run {run.id} of job {run.job_id}"]
    with caplog.at_level(logging.INFO):
        patient.vitals._log_changes()
        patient.vitals._log_changes()
        patient.late = ()
        patient.vitals._log_changes()
    assert [f"run {run.id} of job {run.job_id}" in each.message for each in caplog.records] == [True, False]
    assert caplog.messages[1] == "ready again"


async def test_a_node_that_is_drained_is_not_ready_again(patient: Patient, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so only when what was wrong is over, whether it takes runs meanwhile or not."""
    patient.healthy, patient.fault = False, "store db.example refuses"
    with caplog.at_level(logging.INFO):
        patient.vitals._log_changes()
        patient.absent = "the node takes no new runs"
        patient.vitals._log_changes()
        patient.absent = None
        patient.vitals._log_changes()
        assert [each.partition(":")[0] for each in caplog.messages] == ["not ready"]
        patient.healthy = True
        patient.vitals._log_changes()
    assert caplog.messages[1:] == ["ready again"]


async def test_what_must_always_hold(patient: Patient) -> None:
    """Each check that fails is named in words that name no job; each has such words."""
    patient.scanner.failures = (failure("fired", "due: secret-job", "look"), failure("wakes", "run x", "look"))
    told = await patient.ask()
    assert told == "; ".join(f"{BROKEN[check]}: `tokimori doctor` names it" for check in ("fired", "wakes"))
    assert BROKEN.keys() == INVARIANTS


async def test_what_gives_no_answer_is_asked_once() -> None:
    """And counts as gone after a few seconds, until it answers."""
    asked, answers = [], asyncio.Event()

    async def silent() -> None:
        asked.append(1)
        await answers.wait()

    question = Question(silent, EVERY)
    for at in range(9):
        question.again(at)
        await asyncio.sleep(0)
    assert (len(asked), question.wrong(SILENT), question.wrong(8)) == (1, None, "no answer for 8 s")
    answers.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert question.wrong(9) is None
    await question.end()


def test_the_disk_is_written_and_left_as_it_was(tmp_path: Path) -> None:
    """A block in each folder; where that fails the system's words come."""
    write_probe([tmp_path])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        write_probe([tmp_path / "none"])
