"""Depth of nested JSON that may come in. Pure."""

from itertools import accumulate
from typing import Final

from tokimori.errors import InvalidInput

MOST_DEPTH: Final = 100
"""So many lists and objects may be within each other. Ten times as many would use up the stack of whoever works with
them, far from where they came in.
"""
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = tuple((byte in b"[{") - (byte in b"]}") for byte in range(256))


def check_depth(text: bytes) -> None:
    """Refuse JSON that is nested too deeply; what is no JSON may pass. Raises `InvalidInput`."""
    if text.count(b"[") + text.count(b"{") > MOST_DEPTH and _is_too_deep(text):
        allowed = f"at most {MOST_DEPTH} lists and objects within each other"
        raise InvalidInput("the JSON is nested too deeply", allowed=allowed)


def _is_too_deep(text: bytes) -> bool:
    outside_of_texts = text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = b"".join(outside_of_texts).translate(None, _NO_BRACKETS)
    return any(depth > MOST_DEPTH for depth in accumulate(map(_STEPS.__getitem__, brackets)))
