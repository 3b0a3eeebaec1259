"""Report of a command about its own end: one JSON line in a file, and its outcome."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, assert_never

import msgspec
from msgspec import Meta, Struct, field

from tokimori.clock import parse_moment
from tokimori.errors import InvalidInput, Refused
from tokimori.model.job_fields import LONGEST
from tokimori.model.outcome import Failed, Hold, Outcome, RetryAt, RetryIn, Succeeded
from tokimori.model.policies import Seconds
from tokimori.model.sizes import check_size
from tokimori.model.words import check_text

FILE = "TOKIMORI_OUTCOME_FILE"
MOST_TEXT = 64 * 1024
"""Bytes of a result, an error or a reason, in UTF-8: it is kept in the store, and handed on to children."""
MOST_LINE = 6 * MOST_TEXT + 1024
"""Bytes of the file: JSON may need six for one."""

MOST_SHOWN = 500
"""Characters of why a line can't be understood: it may name what stands there, which may be long, and anything."""

_Text = Annotated[str, Meta(max_length=MOST_TEXT)]


class ReportSucceeded(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="outcome", tag="succeeded"
):
    """Report of success; `result` becomes the payload of the run's children."""

    result: _Text | None = None


class ReportFailed(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="outcome", tag="failed"
):
    """Report of a failure; without `retry` it is not tried again, however many attempts its job has."""

    error: _Text
    retry: bool = True


class ReportRetry(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="outcome", tag="retry"
):
    """Request for a retry: not before a moment (`at`, RFC 3339), or after some seconds (`in`)."""

    at: str | None = None
    seconds: Seconds | None = field(name="in", default=None)


class ReportHold(Struct, frozen=True, forbid_unknown_fields=True, tag_field="outcome", tag="hold"):
    """Request for a person."""

    reason: _Text


ReportedEnd = ReportSucceeded | ReportFailed | ReportRetry | ReportHold

_decoder: msgspec.json.Decoder[ReportedEnd] = msgspec.json.Decoder(ReportedEnd)


def line_of(reported: ReportedEnd) -> bytes:
    """Return the line that says this. Raises `InvalidInput` for what would not be understood."""
    _checked(reported)
    return msgspec.json.encode(reported) + b"\n"


def leave(reported: ReportedEnd, environ: Mapping[str, str]) -> None:
    """Put the line in place at once: a node never reads half of it. Raises `InvalidInput` and `Refused`."""
    line, path = line_of(reported), environ.get(FILE)
    if not path:
        raise InvalidInput(f"{FILE} is not set", field=FILE, allowed="a call from within the command of a run")
    beside = Path(f"{path}.{os.getpid()}")
    try:
        beside.write_bytes(line)
        beside.replace(path)
    except OSError as fault:
        raise Refused(f"{path} can't be written: {fault.strerror}", field=FILE, value=path) from None


def outcome_from(line: bytes, exit_code: int | None) -> Outcome:
    """Return the outcome that the line means; one that can't be understood is a failure that says so."""
    try:
        return read_report(line, exit_code)
    except InvalidInput as fault:
        return Failed(f"what it reported can't be understood: {_shown(fault.message)}", exit_code)


def read_report(line: bytes, exit_code: int | None = None) -> Outcome:
    """Return the outcome that the line means. Raises `InvalidInput` for one that can't be understood."""
    if len(line) > MOST_LINE:
        raise InvalidInput(f"it is longer than {MOST_LINE} bytes", allowed=f"at most {MOST_LINE} bytes")
    try:
        reported = _decoder.decode(line)
    except RecursionError:
        raise InvalidInput("it is nested too deeply", allowed='such as {"outcome": "succeeded"}') from None
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise InvalidInput(_shown(str(fault)), allowed='such as {"outcome": "succeeded"}') from None
    _checked(reported)
    return _outcome(reported, exit_code)


def _shown(text: str) -> str:
    shown = text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)


def _outcome(reported: ReportedEnd, exit_code: int | None) -> Outcome:
    match reported:
        case ReportSucceeded(result):
            return Succeeded(exit_code, result)
        case ReportFailed(error, retry):
            return Failed(error, exit_code, final=not retry)
        case ReportHold(reason):
            return Hold(reason)
        case ReportRetry(at=at, seconds=seconds):
            return RetryIn(seconds or 0) if at is None else RetryAt(parse_moment(at, field="at"))
        case _:
            assert_never(reported)


def _checked(reported: ReportedEnd) -> None:
    match reported:
        case ReportSucceeded(result):
            _check_size("result", result or "")
        case ReportFailed(error):
            _check_size("error", error)
        case ReportHold(reason):
            _check_size("reason", reason)
        case ReportRetry(at=at, seconds=seconds):
            if (at is None) == (seconds is None):
                raise InvalidInput("at: a retry is either at or in", field="at", value=at, allowed="one of at, in")
            if at is not None:
                parse_moment(at, field="at")
            if seconds is not None and not 0 <= seconds <= LONGEST:
                raise InvalidInput(f"in: {seconds} is out of range", field="in", value=seconds, allowed=f"0..{LONGEST}")


def _check_size(name: str, text: str) -> None:
    check_text(name, text)
    check_size(name, text, MOST_TEXT)
