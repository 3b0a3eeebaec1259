"""Signals: words that people send to a run, handed to the handlers of its function, one after the other."""

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from tokimori.apps.json_text import value_of
from tokimori.model.order import newest_signals

Act = Callable[[Any], object]
Hand = Callable[[Act, Any], None]
"""Has the act carried out with the data."""


def carry_out(act: Act, data: Any) -> None:
    """Carry out the code, with nothing between."""
    act(data)


class Signals:
    """Signals of one attempt. `hand` is called in the thread in which a signal arrives or is requested."""

    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        self._acts: dict[str, Act] = {}
        self._kept: Sequence[tuple[str, str | None]] = ()
        """Names with data as JSON, which is smaller than what it says."""
        self._lock = threading.Lock()

    def on(self, name: str, act: Act) -> None:
        """Let `act` handle signals of this name from now on, and those that came already."""
        with self._lock:
            self._acts[name] = act
            found = [data for named, data in self._kept if named == name]
            self._kept = [each for each in self._kept if each[0] != name]
            for data in found:
                self._hand(act, _value_of(data))

    def receive(self, name: str, data: str | None) -> None:
        """Receive a signal."""
        with self._lock:
            act = self._acts.get(name)
            if act is None:
                self._kept = newest_signals([*self._kept, (name, data)])
            else:
                self._hand(act, _value_of(data))


def _value_of(data: str | None) -> Any:
    return None if data is None else value_of(data)


class SignalThread:
    """A thread that calls acts one after the other, started with the first. `failed` receives their errors."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._acts: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_over = False

    def give(self, act: Callable[[], object]) -> None:
        """Call an act after the earlier ones. If the machine has no thread for it, it fails."""
        if self._thread is None:
            if self._is_over:
                return
            thread = threading.Thread(target=self._work, name="tokimori-signals", daemon=True)
            try:
                thread.start()
            except RuntimeError as fault:
                self._failed(fault)
                return
            self._thread = thread
        self._acts.put(act)

    def end(self) -> None:
        """Receive no more."""
        self._is_over = True
        if self._thread is not None:
            self._acts.put(None)

    def _work(self) -> None:
        while (act := self._acts.get()) is not None:
            try:
                act()
            except BaseException as fault:  # it is the user's code
                self._failed(fault)
