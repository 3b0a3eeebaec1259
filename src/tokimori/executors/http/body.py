"""Body of an answer: its first and its last bytes."""

from collections.abc import Sequence
from http import HTTPStatus

from msgspec import Struct

from tokimori.clock import SECOND, Clock, Moment
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper.output import Times
from tokimori.executors.keeper.redaction import Redaction
from tokimori.executors.reported import MOST_TEXT
from tokimori.model.ids import RunId
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.run import Output, times_since


class Answer(Struct, frozen=True):
    """The head of a service's answer; `location` is where a redirect leads."""

    status: int
    location: str | None = None


class Later(Struct, frozen=True):
    """The service will say how the run ended."""


def meaning_of(
    answer: Answer, expect: Sequence[int], *, may_say_later: bool, result: str | None = None
) -> Outcome | Later:
    """Return the outcome. `expect`: the statuses that are a success, by default all 2xx.

    A service that answers 5xx may do better the next time. One that answers anything else has understood the request,
    and will not take it: that is final. Redirects are not followed, because they lead wherever the service likes.
    `result` is what a success hands on.
    """
    status = answer.status
    if status == HTTPStatus.ACCEPTED and may_say_later:
        return Later()
    if status in expect or (not expect and 200 <= status <= 299):
        return Succeeded(None, result)
    words = f"the answer was {_named(status)}"
    if 300 <= status <= 399 and answer.location is not None:
        where = answer.location if len(answer.location) <= 500 else f"{answer.location[:500]}…"
        words = f"{words}, and redirects are not followed: it leads to {where!r}"
    if expect:
        words = f"{words}; expected: {', '.join(map(str, expect))}"
    return Failed(words, final=status < 500)


def result_of(body: bytes, *, whole: bool) -> str | None:
    """Return the result for the run's children: the body as text, if that is not too long."""
    if not whole or not body or len(body) > MOST_TEXT:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


KEPT = 64 * 1024
"""Bytes of the beginning, and of the end."""
MOST = 10 * 2**20
"""Bytes of a body that are read. Who sends more is not heard to the end."""


class Body:
    """Received bytes, of which the first and the last are stored. `hidden` are texts that are never stored."""

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
        """Return whether the limit of the body is reached."""
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
        """Return the output so far, while more may follow."""
        last = bytes(self._tail[-KEPT:])
        missing = KEPT - len(last)
        tail = bytes(self._head[-missing:]) + last if missing else last
        return Output(run_id=run_id, attempt=attempt, size=self.size, tail=tail, times=self._told())

    def output(self, run_id: RunId, attempt: int) -> Output | None:
        """Return the whole output at the end; None if it is empty."""
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
