"""What attempts are told that have not begun, what they have cost, and what they have written at their end."""

import os
from pathlib import Path

from tests.unit.examples import a_task
from tokimori.clock import FIRST
from tokimori.executors.functions.attempts import MOST, MOST_DATA, Early, output_at_end, report_of
from tokimori.executors.functions.process import Assignment, WorkerProcess
from tokimori.executors.functions.wire import MOST_OUTPUT, FunctionGrew
from tokimori.executors.keeper.output import EDGE
from tokimori.model.ids import RunId, Token
from tokimori.model.order import MOST_SIGNAL_DATA
from tokimori.model.target import Function
from tokimori.ports.executor import Signal

LARGE = "x" * (MOST_SIGNAL_DATA // 4)


def key(n: int) -> tuple[RunId, Token]:
    """That of an attempt."""
    return RunId(f"r{n}"), Token(1)


def test_one_attempt_is_told_no_more_than_fits() -> None:
    """The newest signals, in their order, and once."""
    early = Early()
    for n in range(6):
        early.add(key(0), Signal(str(n), LARGE))
    early.add(key(0), Signal("small", None))
    assert [signal.name for signal in early.pop(key(0))] == ["2", "3", "4", "5", "small"]
    assert early.pop(key(0)) == ()


def test_all_attempts_together_have_a_bound() -> None:
    """However many there are that never begin: those that were told first are forgotten first."""
    early, fit = Early(), MOST_DATA // len(LARGE)
    for n in range(fit + 3):
        early.add(key(n), Signal("n", LARGE))
    assert [len(early.pop(key(n))) for n in range(fit + 3)] == [0, 0, 0, *[1] * fit]
    for n in range(MOST + 3):
        early.add(key(n), Signal("n", None))
    assert sum(len(early.pop(key(n))) for n in range(MOST + 3)) == MOST


def test_an_attempt_cost_no_less_than_what_ended_it() -> None:
    """A limit counts all that its process used; the process itself tells what the function used, which is less."""
    attempt = Assignment(a_task(Function(name="f")), 1)
    assert (attempt.cost(None), attempt.cost(489_324)) == (None, 489_324)
    attempt.used = 510_000
    assert (attempt.cost(None), attempt.cost(489_324), attempt.cost(600_000)) == (510_000, 510_000, 600_000)


def test_what_a_process_wrote_before_its_death_is_in_the_file_of_the_attempt(tmp_path: Path) -> None:
    """What it printed in its last second, which it reports no more, is what says why it died."""
    attempt = Assignment(task := a_task(Function(name="f")), 1)
    file = tmp_path / task.run_id / f"{task.attempt}.log"
    file.parent.mkdir()
    file.write_bytes(b"a" * EDGE + b"b" * 2 * EDGE)
    assert output_at_end(attempt, None, tmp_path, FIRST) is None  # it was never given to a process
    attempt.process = WorkerProcess(1, 0, 1, 1)
    found = output_at_end(attempt, None, tmp_path, FIRST)
    assert found is not None
    assert (found.size, found.head, found.tail) == (3 * EDGE, b"a" * EDGE, b"b" * EDGE)
    file.write_bytes(b"short")
    found = output_at_end(attempt, None, tmp_path, FIRST)
    assert found is not None
    assert (found.size, found.head, found.tail) == (5, b"short", b"")
    report_of(attempt, FunctionGrew(number=1, size=5, tail=b"short"), FIRST)
    assert output_at_end(attempt, None, tmp_path, FIRST) is None  # it was reported


def test_no_file_that_a_function_puts_in_its_place_is_read(tmp_path: Path) -> None:
    """No link, no pipe without a writer, on which a node would wait, and none that is not whole."""
    attempt = Assignment(task := a_task(Function(name="f")), 1)
    attempt.process = WorkerProcess(1, 0, 1, 1)
    file = tmp_path / task.run_id / f"{task.attempt}.log"
    assert output_at_end(attempt, None, tmp_path, FIRST) is None
    file.parent.mkdir()
    os.mkfifo(file)
    assert output_at_end(attempt, None, tmp_path, FIRST) is None
    file.unlink()
    file.symlink_to(__file__)
    assert output_at_end(attempt, None, tmp_path, FIRST) is None
    file.unlink()
    file.mkdir()
    assert output_at_end(attempt, None, tmp_path, FIRST) is None
    file.rmdir()
    file.touch()
    os.truncate(file, MOST_OUTPUT)
    assert output_at_end(attempt, None, tmp_path, FIRST) is None
