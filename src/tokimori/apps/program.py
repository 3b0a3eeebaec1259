"""A program that declares an app becomes the node that runs it."""

import os
import sys
from collections.abc import Iterator, Sequence
from inspect import currentframe, ismodule
from pathlib import Path
from typing import Any

from tokimori.apps.task import task_in_hand
from tokimori.config.secret_files import overridden
from tokimori.config.value import check_linux
from tokimori.errors import Refused

_LOADER = "tokimori.apps.loading"


class Begun(BaseException):
    """A module would run its app now: nothing below that line is for a process that imports it."""


def is_imported() -> bool:
    """Return whether the module that calls `run` is imported, not started: then nothing runs.

    Raises `Begun` in the very module that a worker process loads.
    """
    modules, frame = list[str](), currentframe()
    while frame is not None and frame.f_globals.get("__name__") != _LOADER:
        if frame.f_code.co_name == "<module>":
            modules.append(frame.f_globals.get("__name__", "__main__"))
        frame = frame.f_back
    if frame is not None and len(modules) == 1:
        raise Begun(sys.modules[modules[0]])
    module = sys.modules.get(modules[0]) if modules else None
    return modules[:1] != ["__main__"] and getattr(module, "__spec__", None) is not None


def become_node(app: object, url: str | None, options: Sequence[str]) -> None:
    """Put `tokimori serve` in the place of this process, which has the same pid, folder and environment then.

    The worker processes import the program's file under its own name, as far as here. `url`: the store, if the app
    names one. Raises `Refused`.
    """
    if is_imported():
        return
    check_linux("a node")
    place = place_of(app)
    sys.stdout.flush()
    sys.stderr.flush()
    environment = os.environ if url is None else overridden(os.environ, {"TOKIMORI_STORE": url})
    command = [sys.executable, "-P", "-m", "tokimori", "serve", "--app", place, *options]
    os.execve(sys.executable, command, environment)  # noqa: S606  there is nothing for a shell to read


def place_of(app: object) -> str:
    """Return the place of an app of this program: FILE:NAME, or MODULE:NAME. Raises `Refused`."""
    program = sys.modules["__main__"]
    file = getattr(program, "__file__", None)
    name = next((name for name, value in _names(vars(program)) if value is app), None)
    if file is None or name is None or task_in_hand() is not None:
        raise Refused(
            "`app.run()` must be called from the module that defines `app`.",
            field="app",
            allowed="an app of the file that was started; for others: tokimori serve --app MODULE:NAME",
        )
    spec = getattr(program, "__spec__", None)  # of `python -m`: what it imports by a dot is found only so
    return f"{Path(file).resolve() if spec is None or spec.name == '__main__' else spec.name}:{name}"


def name_of_module(names: dict[str, Any]) -> str:
    """Return the name of the module with these names: of the program itself the one that worker processes load."""
    name: str = names.get("__name__", "__main__")
    if name == "__main__" and (spec := names.get("__spec__")) is not None:
        name = spec.name
    if name == "__main__" and (file := names.get("__file__")) is not None:
        return name_of_file(Path(file).absolute())
    return name.removesuffix(".__main__")


def name_of_file(file: Path) -> str:
    """Return the name of the module in a file; for `__main__.py` (`python FOLDER`) that of its folder."""
    return file.parent.name if file.stem == "__main__" else file.stem


def _names(known: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the names of a module, and then those of the modules that it names."""
    yield from known.items()
    for name, value in known.items():
        if ismodule(value):
            yield from ((f"{name}.{inner}", each) for inner, each in vars(value).items())
