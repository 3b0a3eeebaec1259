"""Errors as JSON."""

from http import HTTPStatus

from msgspec import Struct

from tokimori.errors import TokimoriError

MOST_VALUE = 1_000
"""Number of characters of a wrong value shown."""


class ErrorFault(Struct, frozen=True, kw_only=True):
    """A mistake: its code and message, the field, its value, and the allowed values."""

    code: str
    message: str
    field: str | None
    value: object
    allowed: str | None


class ErrorBody(Struct, frozen=True, kw_only=True):
    """An error as JSON."""

    error: ErrorFault


class Problem(Struct, frozen=True, kw_only=True):
    """An error as HTTP sends it (RFC 9457): `title` explains the status, `detail` what happened."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    error: ErrorFault


def problem_of(error: ErrorFault, status: int) -> Problem:
    """Return the error as HTTP sends it under this status."""
    return Problem(title=HTTPStatus(status).phrase, status=status, detail=error.message, error=error)


def _whole(text: str) -> str:
    """Return a text that JSON can hold: half of a surrogate pair, as of bytes that are no UTF-8, is written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def error_body(error: TokimoriError) -> ErrorBody:
    """Return the error as JSON shows it; a value that JSON can't express as text, of a long one the beginning."""
    value = error.value if isinstance(error.value, str | int | float | bool | None) else str(error.value)
    if isinstance(value, str) and len(value) > MOST_VALUE:
        value = f"{value[:MOST_VALUE]}…"
    return ErrorBody(
        error=ErrorFault(
            code=error.code,
            message=_whole(error.message),
            field=error.field,
            value=_whole(value) if isinstance(value, str) else value,
            allowed=error.allowed,
        )
    )
