"""Hidden forms of a secret: its value, and the ways in which programs show it. Pure.

This hides what is shown by mistake. Whoever wants to show a value finds a form that is not here.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from tokimori.executors.keeper.redaction import MASK, redacted
from tokimori.model.outcome import (
    Cancelled,
    Failed,
    Hold,
    Lost,
    Outcome,
    Released,
    RetryAt,
    RetryIn,
    Succeeded,
    TimedOut,
)
from tokimori.model.secret import SHORTEST


def needles_of(values: Iterable[str]) -> tuple[str, ...]:
    """Return all that is to be hidden of these values."""
    return tuple(dict.fromkeys(form for value in values for form in _forms(value)))


def _forms(value: str) -> Iterator[str]:
    """Yield the value, its lines (a key may be shown with a margin), and both as JSON and addresses have them;
    base64.
    """
    lines = [line.strip() for line in value.splitlines()]
    for text in (value, *(line for line in lines if len(line) >= SHORTEST)):
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield quote(text, safe="")
    for encoded in _in_base64(value.encode()):
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield the characters that stand for it alone, wherever in an encoded text it begins (`user:password`)."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value).decode()
        first, last = -(-8 * before // 6), 8 * (before + len(value)) // 6
        yield encoded[first:last]


def hidden_in(text: str, needles: Sequence[str]) -> str:
    """Return the text with these hidden."""
    found = redacted(_encoded(text), [*map(_encoded, needles)])
    return found.decode(errors="surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def hidden_in_json(line: bytes, needles: Sequence[str]) -> bytes:
    """Return the same of a text that may be JSON, and then stays so, unless it is nested deeply: a number becomes a
    text.
    """
    found = redacted(line, [*map(_encoded, needles)])
    if found == line or not _is_json(line) or _is_json(found):
        return found
    try:
        return json.dumps(_walked(json.loads(line), needles)).encode()
    except RecursionError:
        return found


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _walked(value: Any, needles: Sequence[str]) -> Any:
    match value:
        case str():
            return hidden_in(value, needles)
        case dict():
            return {hidden_in(key, needles): _walked(each, needles) for key, each in value.items()}
        case list():
            return [_walked(each, needles) for each in value]
        case _:
            return MASK.decode() if any(needle in json.dumps(value) for needle in needles) else value


def hidden_in_outcome(outcome: Outcome, needles: Sequence[str]) -> Outcome:
    """Return the outcome, whose texts hide them."""
    match outcome:
        case Succeeded(result=str(result)):
            kept = hidden_in_json(_encoded(result), needles).decode(errors="surrogateescape")
            return replace(outcome, result=kept)
        case Failed(error=error) | TimedOut(error=error):
            return replace(outcome, error=hidden_in(error, needles))
        case Hold(reason=reason) | Released(reason=reason) | Cancelled(reason=reason) | Lost(reason=reason):
            return replace(outcome, reason=hidden_in(reason, needles))
        case Succeeded() | RetryAt() | RetryIn():
            return outcome
