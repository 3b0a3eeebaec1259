"""Bounds of the texts that people and programs give of jobs and reasons.

Texts are checked when they are written, never when they are read.
"""

from collections.abc import Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Final

import msgspec

from tokimori.errors import InvalidInput
from tokimori.model.job import Definition
from tokimori.model.job_fields import FIELDS
from tokimori.model.words import check_text, texts_in

MOST_DEPTH: Final = 100
"""Lists and objects within each other. Ten times as many would exhaust the stack of later code, far from where they
came in.
"""
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = tuple((byte in b"[{") - (byte in b"]}") for byte in range(256))


def check_depth(text: bytes) -> None:
    """Refuse JSON that is nested too deeply; other texts pass. Raises `InvalidInput`."""
    if text.count(b"[") + text.count(b"{") > MOST_DEPTH and _is_too_deep(text):
        allowed = f"at most {MOST_DEPTH} lists and objects within each other"
        raise InvalidInput("the JSON is nested too deeply", allowed=allowed)


def _is_too_deep(text: bytes) -> bool:
    outside_of_texts = text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = b"".join(outside_of_texts).translate(None, _NO_BRACKETS)
    return any(depth > MOST_DEPTH for depth in accumulate(map(_STEPS.__getitem__, brackets)))


MOST_REASON = 4 * 1024
"""Bytes of a reason, in UTF-8: lists show it with each job, queue or run."""
MOST_AUTHOR = 1024
"""Bytes of the name of an author."""
MOST_DEFINITION = 512 * 1024
"""Bytes of a definition, as JSON: a claim brings it with the runs."""
MOST_OF: Final[Mapping[str, int]] = MappingProxyType(
    {path: int(each.most or 0) for path, each in FIELDS.items() if each.unit == "bytes" and path != "payload"}
)
"""Bytes of the fields of a job, in UTF-8; of lists and mappings all texts together.

Ids, words, schedules, payloads and times are bounded by their own checks.
"""
_CALLED = {"argv": "command", "shell": "command", "text": "mail_text"}


def check_size(field: str, text: str, most: int) -> None:
    """Refuse a text of more than so many bytes. Raises `InvalidInput`."""
    _check(field, len(text.encode()), most)


def check_reason(field: str, reason: object) -> None:
    """Check a reason. Raises `InvalidInput`."""
    check_text(field, reason)
    check_size(field, str(reason), MOST_REASON)


def check_sizes(definition: Definition) -> None:
    """Check the sizes of a job's texts. Raises `InvalidInput`."""
    fields = _fields_of(definition)
    for field, most in MOST_OF.items():
        if (value := fields.get(field)) is not None:
            _check(field, sum(len(text.encode()) for text in texts_in(value)), most)
    _check("definition", len(msgspec.json.encode(definition)), MOST_DEFINITION)


def _fields_of(definition: Definition) -> dict[str, object]:
    """Return the fields of the job, target and terms side by side."""
    plain = msgspec.to_builtins(definition)
    target = {_CALLED.get(name, name): value for name, value in plain.pop("target").items()}
    return {**target, **plain}


def _check(field: str, size: int, most: int) -> None:
    if size > most:
        allowed = f"at most {most} bytes"
        raise InvalidInput(f"{field}: {size} bytes are too many", field=field, value=size, allowed=allowed)
