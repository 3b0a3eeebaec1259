"""What attempts are told that have not begun, and what they have cost."""

from tests.unit.examples import a_task
from tokimori.executors.functions.attempts import MOST, MOST_DATA, Early
from tokimori.executors.functions.process import Assignment
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
