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
    """By attempt, that which was told something first in front: it is forgotten first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[RunId, Token], list[Signal]] = {}
        self._size = 0

    def add(self, key: tuple[RunId, Token], signal: Signal) -> None:
        """Keep a signal for the attempt, and the newest of those before it."""
        signals = newest_signals([*self._kept.get(key, ()), signal])
        self._size += _size_of(signals) - _size_of(self._kept.get(key, ()))
        self._kept[key] = signals
        while len(self._kept) > MOST or self._size > MOST_DATA:
            self.pop(next(iter(self._kept)))

    def pop(self, key: tuple[RunId, Token]) -> Sequence[Signal]:
        """Those of the attempt, in their order, which are not kept any longer."""
        if key not in self._kept:
            return ()
        signals = self._kept.pop(key)
        self._size -= _size_of(signals)
        return signals


def _size_of(signals: Sequence[Signal]) -> int:
    return sum(len(signal.data or "") for signal in signals)
