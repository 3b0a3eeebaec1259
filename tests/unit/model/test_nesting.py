"""How deep JSON may be nested."""

import pytest

from tokimori.errors import InvalidInput
from tokimori.model.sizes import MOST_DEPTH, check_depth

MORE = MOST_DEPTH + 1


@pytest.mark.parametrize(
    "text",
    [
        b"[" * MOST_DEPTH + b"]" * MOST_DEPTH,
        b"[" + b"[]," * 1_000 + b"[]]",
        b'{"a": "' + b"[" * 1_000 + b'"}',
        rb'{"a": "\\\"' + b"[" * 1_000 + b'"}',
    ],
)
def test_what_stands_side_by_side_or_in_texts_is_not_deep(text: bytes) -> None:
    """Only what is within each other counts."""
    check_depth(text)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * MORE + b"]" * MORE,
        b'{"a":' * MORE + b"1" + b"}" * MORE,
        rb'{"a": "\\", "b": ' + b"[" * MORE,
        rb'{"a": "\"[", "b": ' + b"[" * MORE,
    ],
)
def test_what_is_too_deep_is_refused(text: bytes) -> None:
    """Lists and objects alike, behind whatever text."""
    with pytest.raises(InvalidInput, match="nested too deeply"):
        check_depth(text)
