"""Meaning of a service's answer for the run. Pure."""

from collections.abc import Sequence
from http import HTTPStatus

from msgspec import Struct

from tokimori.executors.reported import MOST_TEXT
from tokimori.model.outcome import Failed, Outcome, Succeeded


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
