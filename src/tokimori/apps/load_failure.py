"""Reasons why an app can't be loaded: what mends it, and the line in its own code."""

import sys
import sysconfig
import traceback
from pathlib import Path

from tokimori.errors import TokimoriError

_NOT_THE_USERS = (
    "<frozen ",
    str(Path(__file__).parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)
"""How the names of files begin that a user has not written."""
_MOST_WORDS = 4000
"""Characters of what an exception says; the rest is left out."""
_MOST_PLACES = 20
"""Frames of the user's code that are shown, the last ones."""


def why_not_loaded(said: str, fault: BaseException) -> tuple[str, str | None]:
    """Return the message for a node with the app `said`, and what is allowed instead, if that is known."""
    places = own_places(fault)
    lines = [f"app: {said!r} can't be loaded: {_words(fault)}"]
    if mends := _mends(fault, places):
        lines.append(mends)
    lines += [line.rstrip("\n") for line in traceback.format_list(places[-_MOST_PLACES:])]
    return "\n".join(lines), fault.allowed if isinstance(fault, TokimoriError) else None


def own_places(fault: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of the user's own code, the one where it was raised last."""
    return [each for each in traceback.extract_tb(fault.__traceback__) if _is_own(each.filename)]


def _is_own(file: str) -> bool:
    return not file.startswith(_NOT_THE_USERS)


def _words(fault: BaseException) -> str:
    said = fault.message if isinstance(fault, TokimoriError) else traceback.format_exception_only(fault)[-1].strip()
    return said if len(said) <= _MOST_WORDS else f"{said[:_MOST_WORDS]}…"


def _mends(fault: BaseException, places: list[traceback.FrameSummary]) -> str | None:
    match fault:
        case ModuleNotFoundError(name=name) if not places:
            return (
                f"Start the node in the folder where {name!r} lies ({Path.cwd()} has none), name that folder with "
                "`-I FOLDER` (the setting app.include), or correct the name."
            )
        case ModuleNotFoundError(name=name):
            return f"Install {name!r} in {sys.prefix}, or name the folder where it lies with `-I FOLDER` (app.include)."
        case SyntaxError(filename=str(file), lineno=int(line)):
            return f"Correct line {line} of {file}."
        case SystemExit():
            return 'Put what ends the program under `if __name__ == "__main__":`, because a node imports the app.'
        case _ if places:
            return f"Correct line {places[-1].lineno} of {places[-1].filename}."
        case _:
            return None
