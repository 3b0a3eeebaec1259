"""Early signals: what attempts were told that have not begun. It has a bound: signals may be large, and nobody come."""

from collections.abc import Sequence

from tokimori.model.ids import RunId, Token
from tokimori.model.order import newest_signals
from tokimori.ports.executor import Signal

MOST = 1_000
"""So many attempts that have not begun may be told something."""
MOST_DATA = 2**24
"""So many characters of data they are told together."""


class Early:
    """By attempt (`kept`), that which was told something first in front: it is forgotten first."""

    def __init__(self) -> None:
        self.kept: dict[tuple[RunId, Token], list[Signal]] = {}
        self._size = 0

    def add(self, key: tuple[RunId, Token], signal: Signal) -> None:
        """Keep a signal for the attempt, and the newest of those before it."""
        signals = newest_signals([*self.kept.get(key, ()), signal])
        self._size += _size_of(signals) - _size_of(self.kept.get(key, ()))
        self.kept[key] = signals
        while len(self.kept) > MOST or self._size > MOST_DATA:
            self.pop(next(iter(self.kept)))

    def pop(self, key: tuple[RunId, Token]) -> Sequence[Signal]:
        """Remove and return the signals of the attempt, in their order."""
        if key not in self.kept:
            return ()
        signals = self.kept.pop(key)
        self._size -= _size_of(signals)
        return signals


def _size_of(signals: Sequence[Signal]) -> int:
    return sum(len(signal.data or "") for signal in signals)
