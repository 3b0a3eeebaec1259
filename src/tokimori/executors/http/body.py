"""Body of an answer: its first and its last bytes."""

from collections.abc import Sequence

from tokimori.clock import SECOND, Clock, Moment
from tokimori.executors.http.response import result_of
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper.output import Times
from tokimori.executors.keeper.redaction import Redaction
from tokimori.model.ids import RunId
from tokimori.model.run import Output, times_since

KEPT = 64 * 1024
"""Bytes of the beginning, and of the end."""
MOST = 10 * 2**20
"""Bytes of a body that are read. Who sends more is not heard to the end."""


class Body:
    """The bytes that came, of which the first and the last are kept. `hidden` are texts that are kept nowhere."""

    def __init__(self, clock: Clock, hidden: Sequence[str] = ()) -> None:
        self.size = 0
        self._clock = clock
        self._times = Times()
        self._read = 0
        self._hiding = Redaction(text.encode() for text in hidden) if hidden else None
        self._head = bytearray()
        self._tail = bytearray()

    @property
    def full(self) -> bool:
        """Return whether no more is to be read."""
        return self._read >= MOST

    def add(self, chunk: bytes) -> None:
        """Take more bytes."""
        chunk = chunk[: MOST - self._read]
        self._read += len(chunk)
        self._keep(chunk if self._hiding is None else self._hiding.feed(chunk))

    def _keep(self, chunk: bytes) -> None:
        if chunk:
            self._times.mark(self.size, boottime())
        self.size += len(chunk)
        room = KEPT - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * KEPT:
            del self._tail[:-KEPT]

    def so_far(self, run_id: RunId, attempt: int) -> Output:
        """Return what came so far, while more is to come."""
        last = bytes(self._tail[-KEPT:])
        missing = KEPT - len(last)
        tail = bytes(self._head[-missing:]) + last if missing else last
        return Output(run_id=run_id, attempt=attempt, size=self.size, tail=tail, times=self._told())

    def output(self, run_id: RunId, attempt: int) -> Output | None:
        """Return what came, when no more will; None for nothing."""
        self._finish()
        if not self.size:
            return None
        head, tail = bytes(self._head), bytes(self._tail[-KEPT:])
        return Output(run_id=run_id, attempt=attempt, size=self.size, head=head, tail=tail, times=self._told())

    def _told(self) -> bytes:
        return times_since(Moment(self._clock.now() - int(boottime() * SECOND)), self._times.told())

    def result(self) -> str | None:
        """Return the result for children of the run, when no more will come."""
        self._finish()
        return result_of(bytes(self._head), whole=not self._tail)

    def _finish(self) -> None:
        if self._hiding is not None:
            self._keep(self._hiding.finish())
