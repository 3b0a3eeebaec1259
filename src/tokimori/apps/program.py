"""A program that declares an app becomes the node that runs it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tokimori.errors import Refused


def become_node(app: object, url: str | None, options: Sequence[str]) -> NoReturn:
    """Put `tokimori serve` in the place of this process, which has the same pid, folder and environment then.

    The worker processes import the program's file under its own name: what stands below `__name__ == "__main__"` does
    not happen there. `url`: the store, if the app names one. Raises `Refused`.
    """
    said = place_of(app)
    sys.stdout.flush()
    sys.stderr.flush()
    environment = os.environ if url is None else {**os.environ, "TOKIMORI_STORE": url}
    command = [sys.executable, "-P", "-m", "tokimori", "serve", "--app", said, *options]
    os.execve(sys.executable, command, environment)  # noqa: S606  there is nothing for a shell to read


def place_of(app: object) -> str:
    """Where worker processes find an app of the program that runs: FILE.py:NAME, or MODULE:NAME. Raises `Refused`."""
    program = sys.modules["__main__"]
    file = getattr(program, "__file__", None)
    name = next((name for name, value in vars(program).items() if value is app), None)
    if file is None or name is None:
        raise Refused(
            "run: the app is no name of the program that runs, so its worker processes would not find it",
            field="app",
            allowed="an app of the file that was started; for others: tokimori serve --app MODULE:NAME",
        )
    module = getattr(program, "__spec__", None)  # of `python -m`: what it imports by a dot is found only so
    return f"{Path(file).resolve() if module is None else module.name}:{name}"
