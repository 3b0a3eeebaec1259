"""The request that an attempt sends: its target with the facts of the run in their places. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from tokimori.clock import format_moment
from tokimori.errors import InvalidInput
from tokimori.model.target import MOST_HEADER, Http
from tokimori.model.templates import SECRETS, rendered
from tokimori.ports.executor import Task

_TAKES_BODY = frozenset({"POST", "PUT", "PATCH"})
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


@dataclass(frozen=True, slots=True)
class Callback:
    """Where a service says how the run ended, and the signature that lets it."""

    address: str
    signature: str


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


def request_of(task: Task, target: Http, callback: Callback | None = None) -> Request:
    """The request of this attempt. Raises `InvalidInput` where a fact can't stand in its place."""
    facts = facts_of(task, callback)
    method = target.method or ("GET" if target.body is None else "POST")
    body = None if target.body is None else rendered(target.body, facts)
    if body is None and method in _TAKES_BODY:
        body = task.payload
    headers = {name: _one_line(name, rendered(value, facts)) for name, value in target.headers.items()}
    said = {name.casefold() for name in headers}
    ours = {"User-Agent": "tokimori", **({} if body is None else {"Content-Type": "application/json"})}
    headers |= {name: value for name, value in ours.items() if name.casefold() not in said}
    headers |= {name: facts[fact] for name, fact in _OWN_HEADERS.items() if fact in facts}
    url = rendered(target.url, facts, _in_address)
    return Request(method, url, headers, None if body is None else body.encode())


def facts_of(task: Task, callback: Callback | None = None) -> dict[str, str]:
    """What templates may name (`tokimori.model.templates`), as far as the run has it."""
    known = {
        "job_id": task.job_id,
        "run_id": task.run_id,
        "attempt": str(task.attempt),
        "token": str(task.token),
        "nominal_time": format_moment(task.nominal),
        "due_time": format_moment(task.due),
        "parent_run_id": task.parent_id,
        "payload": task.payload,
        "payload_json": json.dumps(task.payload),
        "callback": None if callback is None else callback.address,
        "signature": None if callback is None else callback.signature,
    }
    secrets = {SECRETS + name: value for name, value in task.secrets.items()}
    return {name: fact for name, fact in known.items() if fact is not None} | secrets


def _in_address(fact: str) -> str:
    """Servers read `.` and `..` in a path as other folders, quoted or not: a payload must not lead elsewhere."""
    if fact in (".", ".."):
        raise InvalidInput(
            f"url: {fact!r} can't be a part of an address", field="url", value=fact, allowed="other texts"
        )
    return quote(fact, safe="")


def _one_line(name: str, value: str) -> str:
    """A payload may bring more lines into a header, which would be headers of their own."""
    if len(value) > MOST_HEADER or _NO_LINE.search(value):
        raise InvalidInput(
            f"headers.{name}: with this run's payload the value is not one line of at most {MOST_HEADER} characters",
            field=f"headers.{name}",
            allowed=f"one line of at most {MOST_HEADER} characters",
        )
    return value
