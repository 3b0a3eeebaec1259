"""Data of a server that has not run yet, made once in the background and copied by each server that starts."""

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path


class Template:
    """Data that a command makes in a folder. It may still be at work, and this process a fork of its parent."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        self._folder = folder
        script = '"$@" > log 2>&1 && touch made || touch failed'
        self._process = subprocess.Popen(["sh", "-c", script, "sh", *command], cwd=folder)

    def copy(self, as_account: Sequence[str], place: Path) -> None:
        """Copy the data to a place, when it is made."""
        deadline = time.monotonic() + 60
        while not (self._folder / "made").exists():
            if (self._folder / "failed").exists() or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "log").read_text())
            time.sleep(0.02)
        copy = ["cp", "--archive", "--sparse=always", str(self._folder / "data"), str(place)]
        subprocess.run([*as_account, *copy], check=True, capture_output=True, cwd=place.parent)

    def remove(self) -> None:
        """Leave nothing behind. For the process that has made this."""
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
