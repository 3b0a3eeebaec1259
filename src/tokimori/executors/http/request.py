"""The request that an attempt sends: its target with the facts of the run in their places. Pure."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

from msgspec import Struct

from tokimori.clock import SECOND, Moment
from tokimori.errors import InvalidInput
from tokimori.executors.facts import facts_of
from tokimori.model.target import MOST_HEADER, Http
from tokimori.model.templates import PARENT, SECRETS, rendered
from tokimori.model.trace import HEADER
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
    """Return the request of this attempt, signed at `now`. Raises `InvalidInput` where a fact can't stand in its
    place.
    """
    facts = _facts(task, target, callback)
    method = target.method or ("GET" if target.body is None else "POST")
    body = None if target.body is None else _body(target, target.body, facts)
    if body is None and method in _TAKES_BODY:
        body = task.payload
    headers = {name: _one_line(name, rendered(value, facts)) for name, value in target.headers.items()}
    said = {name.casefold() for name in headers}
    ours = {"User-Agent": "tokimori", **({} if body is None else {"Content-Type": "application/json"})}
    ours |= {} if task.traceparent is None else {HEADER: task.traceparent}
    headers |= {name: value for name, value in ours.items() if name.casefold() not in said}
    headers |= {name: facts[fact] for name, fact in _OWN_HEADERS.items() if fact in facts}
    url, sent = rendered(target.url, facts, _in_address), None if body is None else body.encode()
    if target.sign_with is not None:
        headers |= _signature(task, facts[SECRETS + target.sign_with], sent, now)
    return Request(method, url, headers, sent)


def _body(target: Http, text: str, facts: Mapping[str, str]) -> str:
    """Return the body; a parent's result is written as its type says: JSON where there is none."""
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
    """Servers read `.` and `..` in a path as other folders, quoted or not: a payload must not lead elsewhere."""
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
