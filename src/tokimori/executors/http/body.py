"""What is kept of an answer's body: its first and its last bytes."""

from tokimori.executors.http.response import result_of
from tokimori.model.ids import RunId
from tokimori.model.run import Output

KEPT = 64 * 1024
"""Bytes of the beginning, and of the end."""
MOST = 10 * 2**20
"""Bytes of a body that are read. Who sends more is not heard to the end."""


class Body:
    """The bytes that came, of which the first and the last are kept."""

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()

    @property
    def full(self) -> bool:
        """Whether no more is to be read."""
        return self.size >= MOST

    def add(self, chunk: bytes) -> None:
        """Take more bytes."""
        chunk = chunk[: MOST - self.size]
        self.size += len(chunk)
        room = KEPT - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * KEPT:
            del self._tail[:-KEPT]

    def so_far(self, run_id: RunId, attempt: int) -> Output:
        """What came, while more is to come."""
        last = bytes(self._tail[-KEPT:])
        missing = KEPT - len(last)
        tail = bytes(self._head[-missing:]) + last if missing else last
        return Output(run_id=run_id, attempt=attempt, size=self.size, tail=tail)

    def output(self, run_id: RunId, attempt: int) -> Output | None:
        """What came, when no more will; None for nothing."""
        if not self.size:
            return None
        head, tail = bytes(self._head), bytes(self._tail[-KEPT:])
        return Output(run_id=run_id, attempt=attempt, size=self.size, head=head, tail=tail)

    def result(self) -> str | None:
        """What it hands on to children of the run."""
        return result_of(bytes(self._head), whole=not self._tail)
