"""Errors of the program: each becomes a message and an exit code here, and nowhere else."""

import errno
import os
import re
import sys
import traceback
from collections.abc import Sequence

import click

from tokimori.cli.suggestions import usage_message
from tokimori.errors import Bug, InvalidInput, NotFound, Outdated, Refused, TokimoriError
from tokimori.logs.controls import visible, visible_json

DONE = 0
RUN_FAILED = 1
DECLINED = 1
"""Somebody was asked, and said no."""
NOTHING_CHANGED = "Nothing was changed."
INTERRUPTED = 130
BROKEN_PIPE = 141
DEBUG = "TOKIMORI_DEBUG"
_JSON = re.compile(r"(?:^| )(?:--json|(?:-o|--output)[ =]?jsonl?)(?: |$)")
"""How a line asks for JSON."""
_LISTED = re.compile(r"there is no (job|run|calendar|queue|secret|token|notifier) \S+\Z")
"""What is not there, and stands in a list: `tokimori job list`, say."""
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""Faults of the disk below what is written, which are no bugs."""
_UNREACHED = frozenset(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
)
"""Faults of a path that somebody has named, which are none either."""


class Declined(Exception):
    """The user's answer no."""


def agreed(question: str) -> None:
    """Ask; no is the default. Raises `Declined`, and `Abort` at Ctrl-C."""
    try:
        if not click.confirm(question, default=False, err=True):
            raise Declined
    except click.Abort:
        sys.stderr.write(f"\n{NOTHING_CHANGED}\n")
        raise


def run(program: click.Command, arguments: list[str]) -> int:
    """Run the program with these arguments; its exit code."""
    try:
        returned = program.main(arguments, prog_name="tokimori", standalone_mode=False)
        sys.stdout.flush()  # here, so that a closed pipe is noticed here
        return returned if isinstance(returned, int) else DONE
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return InvalidInput.exit_code
    except click.UsageError as error:
        return _report(_usage_error(error), arguments)
    except click.ClickException as error:
        return _report(InvalidInput(error.format_message()), arguments)
    except Declined:
        sys.stderr.write(f"{NOTHING_CHANGED}\n")
        return DECLINED
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the reader of our output has closed it; click makes it an exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except TokimoriError as error:
        return _report(error, arguments)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the rest is tried at the exit
            what = "what is printed" if error.filename is None else str(error.filename)
            return _report(Refused(f"{what} can't be written: {error.strerror}", allowed="room for it"), arguments)
        if isinstance(error, OSError) and error.errno in _UNREACHED and error.filename is not None:
            allowed = "a path that this user may reach"
            return _report(Refused(f"{error.filename}: {error.strerror}", allowed=allowed), arguments)
        return _report(Bug(f"{type(error).__name__}: {error}"), arguments, error)


def _usage_error(error: click.UsageError) -> TokimoriError:
    """Return our error for one of click: the same words, the option as the field."""
    field = None
    if isinstance(error, click.BadParameter) and error.param is not None:
        field = error.param.name
    where = "" if error.ctx is None else f"\nTry `{error.ctx.command_path} --help`."
    return InvalidInput(usage_message(error) + where, field=field)


def _report(error: TokimoriError, arguments: Sequence[str], cause: Exception | None = None) -> int:
    before_the_command = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if _JSON.search(" ".join(before_the_command)):
        _print_json(error)
    else:
        _print_text(error)
    if error.exit_code == Bug.exit_code and ("--debug" in before_the_command or os.environ.get(DEBUG)):
        traceback.print_exception(cause or error, file=sys.stderr)
    return error.exit_code


def _print_json(error: TokimoriError) -> None:
    from msgspec import json

    from tokimori.service.views.errors import error_body

    text = json.encode(error_body(error)).decode() + "\n"
    sys.stderr.write(visible_json(text) if sys.stderr.isatty() else text)


def _print_text(error: TokimoriError) -> None:
    lines = [f"error: {error.message}"]
    if error.allowed is not None and error.allowed not in error.message and not isinstance(error, Outdated):
        lines.append(error.allowed if error.allowed.startswith("See ") else f"allowed: {error.allowed}")
    if isinstance(error, NotFound) and (kind := _LISTED.match(error.message)) is not None:
        step = ", or ask `tokimori run why` if it is still to be made" if kind[1] == "run" else ""
        lines.append(f"See `tokimori {kind[1]} list`{step}.")
    if error.exit_code == Bug.exit_code:
        lines.append(f"This is a bug in Tokimori. Please report it, with the output of `--debug` or {DEBUG}=1.")
    text = "\n".join(lines) + "\n"
    sys.stderr.write(visible(text) if sys.stderr.isatty() else text)
