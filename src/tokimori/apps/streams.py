"""What functions print and log goes to the output of their run."""

import io
import logging
from typing import TextIO

from tokimori.apps.task import task_in_hand


class RunStream(io.TextIOBase):
    """In place of standard output or error: what a function prints goes to its run, all else where it went before."""

    def __init__(self, otherwise: TextIO) -> None:
        self._otherwise = otherwise

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of texts which a run keeps."""
        return "utf-8"

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Write the text; how many characters."""
        task = task_in_hand()
        if task is None:
            return self._otherwise.write(text)
        task.write(text)
        return len(text)

    def flush(self) -> None:
        """What runs write is not held back."""
        self._otherwise.flush()

    def fileno(self) -> int:
        """The descriptor of the process, for libraries that ask for it."""
        return self._otherwise.fileno()


class RunLog(logging.Handler):
    """Writes log records of a function to the output of its run, and others to standard error."""

    def __init__(self, otherwise: TextIO) -> None:
        super().__init__()
        self._otherwise = otherwise
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            line = self.format(record) + "\n"
            task = task_in_hand()
            if task is None:
                self._otherwise.write(line)
            else:
                task.write(line)
        except Exception:
            self.handleError(record)
