"""A text in the editor of whoever sits at the terminal."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from tokimori.errors import Refused

_DEFAULT = "vi"


class Draft:
    """A text in a file of its own, which only its user may read. It is deleted unless it is kept."""

    def __init__(self, text: str, suffix: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix="tokimori-", suffix=suffix)
        os.close(descriptor)
        self.path = Path(name)
        self.text = text
        self._kept = False

    def edit(self) -> bool:
        """Open the editor, and read what was saved; whether that is another text. Raises `Refused`."""
        self.path.write_text(self.text, encoding="utf-8")
        before, command = self.text, [*_editor(), str(self.path)]
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
            message = f"editor: the text can't be read: {fault}; it is in {self.keep()}"
            raise Refused(message, field="editor", allowed="UTF-8") from None
        return self.text != before

    def keep(self) -> Path:
        """Leave the file where it is."""
        self._kept = True
        return self.path

    def __enter__(self) -> "Draft":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept:
            self.path.unlink(missing_ok=True)


def _editor() -> list[str]:
    """The command: of VISUAL, else of EDITOR, else vi. Raises `Refused`."""
    said = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _DEFAULT
    try:
        return shlex.split(said)
    except ValueError as fault:
        message = f"editor: {said!r} is no command: {fault}"
        raise Refused(message, field="editor", value=said, allowed="a command in VISUAL or EDITOR") from None
