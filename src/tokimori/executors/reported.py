"""Outcomes of commands: by their exit, or by their own report, one JSON line in a file."""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, assert_never

import msgspec
from msgspec import Meta, Struct, field

from tokimori.clock import parse_moment
from tokimori.errors import InvalidInput, Refused
from tokimori.executors.keeper.wire import EndCause, ProcessEnded
from tokimori.model.job_fields import LONGEST
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
from tokimori.model.policies import Seconds
from tokimori.model.sizes import check_size
from tokimori.model.suspicion import Judgement
from tokimori.model.words import check_text
from tokimori.ports.executor import AttemptTask, StopReason

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


UNSAID = "it did not say how it ended, as its job demands (auto_complete_success)"


def outcome_of(
    ended: ProcessEnded,
    reason: StopReason | None,
    timeout: float | None,
    reported: bytes | None = None,
    *,
    auto_complete_success: bool = True,
) -> Outcome:
    """Return the outcome of an attempt. A signal counts more than its report, and that more than its exit code.

    Without `auto_complete_success` exit code 0 alone says nothing (Kōjō). Only an end that nobody asked for can be a
    success: a process that exits with 0 *after* a TERM has reached it may have left its work undone. `reason` is why
    the engine stopped it, None if the keeper did so by itself.
    """
    exit_code, number = _split(ended.status)
    match EndCause(ended.cause):
        case EndCause.EXIT:
            return _own_end(exit_code, number, reported, auto_complete_success=auto_complete_success)
        case EndCause.NOT_STARTED | EndCause.COST:
            return Failed(ended.error, exit_code, number)
        case EndCause.SHORT:
            return short_of(ended.error)
        case EndCause.TIMEOUT:
            return TimedOut(f"it took longer than {timeout:g} s", exit_code, number)
        case EndCause.LEASE:
            return Released("its node's lease ran out", exit_code, number)
        case EndCause.STOP:
            return stopped(reason, exit_code, number)


def _own_end(
    exit_code: int | None, number: int | None, reported: bytes | None, *, auto_complete_success: bool
) -> Outcome:
    if number is not None:
        return Failed(f"signal {number} ({signal_name(number)})", signal=number)
    if reported is not None:
        return outcome_from(reported, exit_code)
    if exit_code != 0:
        return Failed(f"exit code {exit_code}", exit_code)
    return Succeeded(0) if auto_complete_success else Failed(UNSAID, 0)


def short_of(why: object) -> Released:
    """Return what became of an attempt that did not begin, as its machine lacked what that takes."""
    return Released(f"this machine is short of processes, threads, files or memory: {why}", short=True)


def stopped(reason: StopReason | None, exit_code: int | None = None, number: int | None = None) -> Outcome:
    """Return the outcome of an attempt that was stopped; `number` is that of the signal that ended it, if one did."""
    match reason:
        case StopReason.CANCEL:
            return Cancelled("cancelled", exit_code, number)
        case StopReason.RELEASE | None:
            return Released("its node stopped it", exit_code, number)
        case StopReason.RESTART:
            return Released("it was restarted", exit_code, number)
        case StopReason.DISOWN:
            return Released("it is no longer its node's", exit_code, number)


def signal_name(number: int) -> str:
    """Return the name of a signal: SIGKILL for 9; SIGRTMIN+2 for one that has no name of its own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def _split(status: int | None) -> tuple[int | None, int | None]:
    """Return exit code and signal."""
    if status is None:
        return None, None
    return (status, None) if status >= 0 else (None, -status)


MOST_NAMED = 10
"""Runs, or jobs, that one line names."""


def lost_with(pid: int, status: int, task: AttemptTask, judged: Judgement) -> Lost:
    """Return the outcome of an attempt whose keeper died."""
    counts = judged.counts.get(task.run_id, 1)
    beside = "" if counts else ", beside other jobs"
    return Lost(f"its keeper died{beside} ({how(pid, status)})", counts)


def said_of(kind: str, name: str, how: str, tasks: Sequence[AttemptTask], judged: Judgement) -> list[str]:
    """Return lines for the log: a keeper, or another process of this `kind`, has died."""
    lines = [f"a {kind} died ({how}); lost with it: {runs_of(tasks)}"]
    if judged.culprit is not None:
        lines.append(f"only job {judged.culprit} ran when {name} died: look at what its runs end")
    elif judged.suspects:
        names, kinds = some(judged.suspects), f"{kind}es" if kind.endswith("s") else f"{kind}s"
        lines.append(f"these jobs ran when several {kinds} died, and get {kinds} of their own: {names}")
    return lines


def runs_of(tasks: Sequence[AttemptTask]) -> str:
    """Return these runs in words, at most `MOST_NAMED` of them."""
    return some([f"run {task.run_id} of {task.job_id}" for task in tasks]) or "nothing"


def how(pid: int, status: int) -> str:
    """Return which keeper died, and how."""
    ending = f"exit code {status}" if status >= 0 else f"signal {-status}, {signal_name(-status)}"
    return f"pid {pid}, {ending}"


def some(names: Sequence[str]) -> str:
    """Return the first names, at most `MOST_NAMED`, and how many more there are."""
    more, found = len(names) - MOST_NAMED, ", ".join(names[:MOST_NAMED])
    return found if more <= 0 else f"{found} and {more} more"
