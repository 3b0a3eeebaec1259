"""Editing of a text in the editor of the user at the terminal."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tokimori.errors import Refused

_DEFAULT = "vi"
EDITORS = ("nano", "vim", "code")
_F = TypeVar("_F", bound=Callable[..., Any])


def editor_options(command: _F) -> _F:
    """Add `--editor`, `--code`, `--vim` and `--nano`: the argument `editor` is the one that was named, or None."""
    command = click.option("--editor", "editor", flag_value="editor", help="Open it in $VISUAL or $EDITOR.")(command)
    for name in EDITORS:
        command = click.option(f"--{name}", "editor", flag_value=name, help=f"Open it in {name}.")(command)
    return command


def open_in(editor: str, file: Path) -> None:
    """Open a file in an editor. Raises `Refused`."""
    command = [editor] if editor in EDITORS else _editor()
    try:
        subprocess.run([*command, str(file)], check=False)
    except OSError as fault:
        message = f"editor: {command[0]} can't be started: {fault.strerror}; the file is {file}"
        raise Refused(message, field="editor", value=command[0], allowed="a program in VISUAL or EDITOR") from None


class Draft:
    """A text in a file of its own, which only its user may read. It is deleted unless it is kept."""

    def __init__(self, text: str, editor: str | None = None) -> None:
        descriptor, name = tempfile.mkstemp(prefix="tokimori-", suffix=".toml")
        os.close(descriptor)
        self.path = Path(name)
        self.text = text
        self._kept, self._said = False, editor

    def edit(self) -> bool:
        """Open the editor, and read the saved text. Return whether it has changed. Raises `Refused`."""
        self.path.write_text(self.text, encoding="utf-8")
        before, command = self.text, [*([self._said] if self._said in EDITORS else _editor()), str(self.path)]
        try:
            code = subprocess.run(command, check=False).returncode
        except OSError as fault:
            message = f"editor: {command[0]} can't be started: {fault.strerror}"
            raise Refused(message, field="editor", value=command[0], allowed="a program in VISUAL or EDITOR") from None
        if code != 0:
            raise Refused(f"editor: {command[0]} ended with {code}; nothing was changed", field="editor", value=code)
        try:
            self.text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as fault:
            message = f"editor: the text can't be read: {fault}; it is in {self.save()}"
            raise Refused(message, field="editor", allowed="UTF-8") from None
        return self.text != before

    def save(self) -> Path:
        """Leave the file where it is."""
        self._kept = True
        return self.path

    def __enter__(self) -> "Draft":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept:
            self.path.unlink(missing_ok=True)


def _editor() -> list[str]:
    """Return the command: of VISUAL, else of EDITOR, else vi. Raises `Refused`."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _DEFAULT
    try:
        return shlex.split(command)
    except ValueError as fault:
        message = f"editor: {command!r} is no command: {fault}"
        raise Refused(message, field="editor", value=command, allowed="a command in VISUAL or EDITOR") from None
