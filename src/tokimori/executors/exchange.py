"""The files that a node and a command leave each other: the payload one way, what the command reports the other."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from tokimori.errors import Refused
from tokimori.executors.environment import Account
from tokimori.executors.reported import MOST_LINE
from tokimori.ports.executor import Task

MOST_IN_ENVIRONMENT = 100_000
"""Bytes of a payload that go into a variable: Linux allows 128 KiB for one, its name included (execve(2))."""


class Exchange:
    """The files of one attempt, for the account that it runs as."""

    __slots__ = ("_is_large", "_outcome", "_own_folder", "_payload", "_text", "_uid")

    def __init__(self, folder: Path, prefix: str, payload: str | None, uid: int, *, own_folder: bool) -> None:
        self._own_folder = folder if own_folder else None
        self._outcome = folder / f"{prefix}outcome"
        self._payload = folder / f"{prefix}payload"
        self._text = payload
        self._is_large = payload is not None and len(payload.encode()) > MOST_IN_ENVIRONMENT
        self._uid = uid

    def variables(self) -> dict[str, str]:
        """What the command finds in its environment: where to report, and its payload or where that is."""
        found = {"TOKIMORI_OUTCOME_FILE": str(self._outcome)}
        if self._is_large:
            found["TOKIMORI_PAYLOAD_FILE"] = str(self._payload)
        elif self._text is not None:
            found["TOKIMORI_PAYLOAD"] = self._text
        return found

    def write_payload(self, account: Account) -> None:
        """Where the environment has no room for it; readable by the account alone. Raises `OSError`."""
        if self._text is None or not self._is_large:
            return
        descriptor = os.open(self._payload, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._text.encode())
            if account.uid != os.geteuid():
                os.fchown(file.fileno(), account.uid, account.gid)

    def reported(self) -> bytes | None:
        """What the command left, None where it is nothing; more than is allowed is cut, so that it is too long.

        Whatever else stands there (a link, a pipe, somebody else's file) is as good as nothing that can be understood:
        the node may read what the command's account may not.
        """
        try:
            descriptor = os.open(self._outcome, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:
            return b""
        try:
            found = os.fstat(descriptor)
            is_theirs = stat.S_ISREG(found.st_mode) and found.st_uid == self._uid
            return os.read(descriptor, MOST_LINE + 1) if is_theirs else b""
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Take the files away, and the folder where it was made for them."""
        for file in (self._outcome, self._payload):
            with suppress(OSError):
                file.unlink()
        if self._own_folder is not None:
            with suppress(OSError):
                self._own_folder.rmdir()


def make_exchanges(folder: Path) -> None:
    """Make the folder of all attempts' files. Raises `Refused`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise Refused(f"{folder} can't be made: {fault.strerror}", field="state_dir", value=str(folder)) from None


def open_exchange(task: Task, account: Account, own: Account, folder: Path) -> Exchange:
    """Make the place for an attempt's files: in the folder of all; a new one for an account that can't get there.

    One folder for all, because a folder for each takes milliseconds to remove. Raises `Refused`.
    """
    try:
        if account.uid == own.uid:
            prefix = f"{task.run_id}.{task.attempt}."
            exchange = Exchange(folder, prefix, task.payload, account.uid, own_folder=False)
        else:
            theirs = Path(tempfile.mkdtemp(prefix="tokimori-"))
            os.chown(theirs, account.uid, account.gid)
            exchange = Exchange(theirs, "", task.payload, account.uid, own_folder=True)
        exchange.write_payload(account)
    except OSError as fault:
        raise Refused(f"the files of this attempt can't be made: {fault}") from None
    return exchange
