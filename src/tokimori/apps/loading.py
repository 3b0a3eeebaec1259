"""Loading of apps, `package.module:name` or `path/to/file.py:name`, and reasons why one can't be loaded."""

import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import cast

from tokimori.apps.program import Begun, name_of_file
from tokimori.apps.routes import AppFunctions
from tokimori.errors import InvalidInput, Refused, TokimoriError
from tokimori.ownership import others_add, user_id

_NOT_THE_USERS = (
    "<frozen ",
    str(Path(__file__).parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)
"""How the names of files begin that a user has not written."""
_MOST_WORDS = 4000
"""Number of characters of an exception's text; the rest is left out."""
_MOST_PLACES = 20
"""Frames of the user's code that are shown, the last ones."""


def why_not_loaded(said: str, fault: BaseException) -> tuple[str, str | None]:
    """Return the message for a node with the app `said`, and the allowed forms, if they are known."""
    places = own_places(fault)
    lines = [f"app: {said!r} can't be loaded: {_words_of(fault)}"]
    if mends := _mends(fault, places):
        lines.append(mends)
    lines += [line.rstrip("\n") for line in traceback.format_list(places[-_MOST_PLACES:])]
    return "\n".join(lines), fault.allowed if isinstance(fault, TokimoriError) else None


def own_places(fault: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of the user's own code, the one where it was raised last."""
    return [each for each in traceback.extract_tb(fault.__traceback__) if not each.filename.startswith(_NOT_THE_USERS)]


def _words_of(fault: BaseException) -> str:
    message = fault.message if isinstance(fault, TokimoriError) else traceback.format_exception_only(fault)[-1].strip()
    return message if len(message) <= _MOST_WORDS else f"{message[:_MOST_WORDS]}…"


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


NO_APP = "stored-functions"
"""The name of the app of a node that runs stored functions alone."""
ALLOWED = "MODULE:NAME or FILE.py:NAME, where NAME is a tokimori.App"


def load_app(said: str, include: Sequence[str] = (), require: Sequence[str] = ()) -> AppFunctions:
    """Import the app; an empty text stands for one that declares nothing.

    `include` are folders that are looked at first, `require` modules that are imported before.

    The working folder comes next. Root looks at no folder where others may put a module of theirs.

    Raises `InvalidInput` for what names no app, `Refused` for such a folder, and whatever importing it raises.
    """
    here = Path.cwd()
    foreign = _foreign(here)
    sys.path[:0] = [*map(_folder, include), *([] if foreign else [str(here)])]
    try:
        return _load(said, require)
    except ModuleNotFoundError as fault:
        if foreign is None:
            raise
        raise _refused(here, f"{foreign}; there may be {fault.name!r}") from fault


def _load(said: str, require: Sequence[str]) -> AppFunctions:
    for name in require:
        _imported(name)
    if not said:
        return AppFunctions(NO_APP)
    place, _, name = said.rpartition(":")
    if not place or not name:
        raise _not_an_app(said, "it is not MODULE:NAME")
    module = _from_file(Path(place)) if place.endswith(".py") or os.sep in place else _imported(place)
    try:
        found: object = module
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise _not_an_app(said, f"the module has no {name!r}") from None
    if not isinstance(found, AppFunctions):
        raise _not_an_app(said, f"it is a {type(found).__qualname__}")
    return found


def _imported(name: str) -> ModuleType:
    """Return the module of this name, as far as the line that runs its app: Python would forget one that ends there."""
    try:
        return import_module(name)
    except Begun as begun:
        (module,) = begun.args
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
        return cast("ModuleType", module)


def _from_file(file: Path) -> ModuleType:
    """Return the module in a file, under the name of the file, which its pickles and logs then have."""
    file = file.absolute()
    sys.path.insert(0, _folder(str(file.parent)))
    name = name_of_file(file)
    spec = spec_from_loader(name, SourceFileLoader(name, str(file)))
    if spec is None or not file.is_file():
        raise _not_an_app(str(file), "there is no such file")
    module = sys.modules[name] = module_from_spec(spec)
    with suppress(Begun):
        SourceFileLoader.exec_module(cast("SourceFileLoader", spec.loader), module)
    return module


def _folder(said: str) -> str:
    """Return the folder as Python looks for modules in it. Raises `Refused`."""
    folder = Path(said).absolute()
    if fault := _foreign(folder):
        raise _refused(folder, fault)
    return str(folder)


def _foreign(folder: Path) -> str | None:
    """Return why a module in this folder may be another user's, if that matters: to root."""
    try:
        return others_add(folder) if user_id() == 0 else None
    except OSError:
        return None  # there is no module either


def _refused(folder: Path, fault: str) -> Refused:
    return Refused(
        f"root imports nothing from {folder}: {fault}",
        field="app",
        value=str(folder),
        allowed="a folder that only root may write to, and the way to it",
    )


def _not_an_app(said: str, why: str) -> InvalidInput:
    return InvalidInput(f"{said!r} is not an app: {why}", field="app", value=said, allowed=ALLOWED)
