"""Request of an attempt: its target with the facts of the run, and its body. Pure."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from urllib.parse import quote, quote_plus

from msgspec import Struct

from tokimori.clock import SECOND, Clock, Moment
from tokimori.errors import InvalidInput
from tokimori.executors.facts import facts_of
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper.output import Times
from tokimori.executors.keeper.redaction import Redaction
from tokimori.executors.reported import MOST_TEXT
from tokimori.model.cause import HEADER
from tokimori.model.ids import RunId
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.run import Output, times_since
from tokimori.model.target import MOST_HEADER, Http
from tokimori.model.templates import PARENT, SECRETS, rendered
from tokimori.ports.executor import AttemptTask

_TAKES_BODY = frozenset({"POST", "PUT", "PATCH"})
_IN_BASE64 = "whsec_"
_NO_TIME = Moment(0)
"""Where nothing is signed."""
_NO_LINE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OWN_HEADERS = {
    "Tokimori-Job-Id": "job_id",
    "Tokimori-Run-Id": "run_id",
    "Tokimori-Attempt": "attempt",
    "Tokimori-Token": "token",
    "Tokimori-Nominal-Time": "nominal_time",
    "Tokimori-Due-Time": "due_time",
    "Tokimori-Parent-Run-Id": "parent_run_id",
    "Tokimori-Callback": "callback",
    "Tokimori-Signature": "signature",
}
"""Headers that say which run it is, and the fact of each. One that the run has not is left out."""


class Callback(Struct, frozen=True):
    """Address at which a service reports the end, and the signature that lets it in."""

    address: str
    signature: str


class Request(Struct, frozen=True):
    """Request to send."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


def request_of(task: AttemptTask, target: Http, callback: Callback | None = None, now: Moment = _NO_TIME) -> Request:
    """Return the request of this attempt, signed at `now`. Raises `InvalidInput` if a fact does not fit."""
    facts = _facts(task, target, callback)
    method = target.method or ("GET" if target.body is None else "POST")
    body = None if target.body is None else _body(target, target.body, facts)
    if body is None and method in _TAKES_BODY:
        body = task.payload
    headers = {name: _one_line(name, rendered(value, facts)) for name, value in target.headers.items()}
    names = {name.casefold() for name in headers}
    ours = {"User-Agent": "tokimori", **({} if body is None else {"Content-Type": "application/json"})}
    ours |= {} if task.traceparent is None else {HEADER: task.traceparent}
    headers |= {name: value for name, value in ours.items() if name.casefold() not in names}
    headers |= {name: facts[fact] for name, fact in _OWN_HEADERS.items() if fact in facts}
    url, sent = rendered(target.url, facts, _in_address), None if body is None else body.encode()
    if target.sign_with is not None:
        headers |= _signature(task, facts[SECRETS + target.sign_with], sent, now)
    return Request(method, url, headers, sent)


def _body(target: Http, text: str, facts: Mapping[str, str]) -> str:
    """Return the body; a parent's result is written as its type says: JSON if there is none."""
    kind = next((value for name, value in target.headers.items() if name.casefold() == "content-type"), "json")
    is_form = kind.casefold().startswith("application/x-www-form-urlencoded")
    if is_form:
        facts = {name: quote_plus(fact) if name.startswith(PARENT) else fact for name, fact in facts.items()}
    return rendered(text, facts, is_json="json" in kind.casefold())


def _facts(task: AttemptTask, target: Http, callback: Callback | None) -> dict[str, str]:
    facts = facts_of(task, [*target.texts()])
    if callback is not None:
        facts |= {"callback": callback.address, "signature": callback.signature}
    return facts


def _signature(task: AttemptTask, secret: str, body: bytes | None, now: Moment) -> dict[str, str]:
    """Return the headers by which a receiver knows who has sent this, and which message it is: the same at each
    attempt.

    They are those of Standard Webhooks (https://www.standardwebhooks.com), which has a library in each language.
    """
    stamp = str(now // SECOND)
    signed = b".".join([task.run_id.encode(), stamp.encode(), body or b""])
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return {
        "Webhook-Id": task.run_id,
        "Webhook-Timestamp": stamp,
        "Webhook-Signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _key(secret: str) -> bytes:
    """Return the key: Standard Webhooks writes keys in base64 behind `whsec_`; any other text is the key itself."""
    if secret.startswith(_IN_BASE64):
        try:
            return base64.b64decode(secret.removeprefix(_IN_BASE64), validate=True)
        except ValueError:
            message = f"sign_with: what follows {_IN_BASE64} in the secret is not base64"
            raise InvalidInput(
                message, field="sign_with", allowed=f"{_IN_BASE64} and base64, or any other text"
            ) from None
    return secret.encode()


def _in_address(fact: str) -> str:
    """Quote a fact for an address. Refuse `.` and `..`, which servers read as other folders, quoted or not."""
    if fact in (".", ".."):
        raise InvalidInput(
            f"url: {fact!r} can't be a part of an address", field="url", value=fact, allowed="other texts"
        )
    return quote(fact, safe="")


def _one_line(name: str, value: str) -> str:
    """Return the text as one line: more lines would be headers of their own."""
    if len(value) > MOST_HEADER or _NO_LINE.search(value):
        raise InvalidInput(
            f"headers.{name}: with this run's payload the value is not one line of at most {MOST_HEADER} characters",
            field=f"headers.{name}",
            allowed=f"one line of at most {MOST_HEADER} characters",
        )
    return value


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
"""Bytes of a body that are read; the rest is ignored."""


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
        self._append(chunk if self._hiding is None else self._hiding.feed(chunk))

    def _append(self, chunk: bytes) -> None:
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
        return Output(run_id=run_id, attempt=attempt, size=self.size, tail=tail, times=self._line_times())

    def output(self, run_id: RunId, attempt: int) -> Output | None:
        """Return the whole output at the end; None if it is empty."""
        self._finish()
        if not self.size:
            return None
        head, tail = bytes(self._head), bytes(self._tail[-KEPT:])
        return Output(run_id=run_id, attempt=attempt, size=self.size, head=head, tail=tail, times=self._line_times())

    def _line_times(self) -> bytes:
        return times_since(Moment(self._clock.now() - int(boottime() * SECOND)), self._times.encoded())

    def result(self) -> str | None:
        """Return the result for children of the run, when no more will come."""
        self._finish()
        return result_of(bytes(self._head), whole=not self._tail)

    def _finish(self) -> None:
        if self._hiding is not None:
            self._append(self._hiding.finish())
