"""What attempts are told that have not begun."""

from tokimori.executors.functions.attempts import MOST, MOST_DATA, Early
from tokimori.model.ids import RunId, Token
from tokimori.model.order import MOST_SIGNAL_DATA
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
