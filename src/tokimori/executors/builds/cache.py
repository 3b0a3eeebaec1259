"""Builds in the folder of a node, each under its digest, and the environments of their dependencies."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from tokimori.clock import SECOND, Moment
from tokimori.errors import Refused
from tokimori.model.build import Manifest, check_content, env_names, manifest_of

LONGEST: Final = 600
"""Seconds that pip gets."""
_LOOK: Final = 0.5
"""Seconds between two looks whether it is to be ended."""
_AGAIN: Final = 0.02
"""Seconds between two tries to be the only one: most hold an environment for less, to say that it is wanted."""
_READY: Final = "tokimori-ready"
_LOCK: Final = "tokimori-lock.txt"
_SAID: Final = 2_000
"""The last characters of what pip has said that an error shows."""


class Environments:
    """Every method but `close` waits for the disk or for pip, and is called in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._closing = threading.Event()

    def close(self) -> None:
        """End environments in the making: a node that stops does not wait for them."""
        self._closing.set()

    def python_for(self, manifest: Manifest) -> str:
        """Return the Python for a build: that of the node where it depends on nothing else.

        Raises `Refused` where its environment can't be made.
        """
        if not manifest.lock:
            return sys.executable
        folder = self._folder / key_of(manifest.lock)
        python = folder / "bin" / "python"
        with self._locked(folder.name):
            if not (folder / _READY).exists():
                self._make(folder, manifest)
            os.utime(folder / _READY)
        return str(python)

    def _make(self, folder: Path, manifest: Manifest) -> None:
        """Make an environment anew. A half-made one has no mark that it is ready."""
        shutil.rmtree(folder, ignore_errors=True)
        for_whom = f"the task {manifest.task!r} (locked for {manifest.locked_for})"
        _run([sys.executable, "-m", "venv", str(folder)], for_whom, self._closing)
        lock = folder / _LOCK
        lock.write_text("".join(f"{line}\n" for line in manifest.lock))
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
        _run([*pip, "--quiet", "--no-deps", "--require-hashes", "-r", str(lock)], for_whom, self._closing)
        (folder / _READY).touch()

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Nodes that share a folder make an environment one after the other."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / f"{name}.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _taken(lock):
                if self._closing.wait(_AGAIN):
                    raise Refused("build: its environment is made by another node, and this one stops", field="build")
            yield
        finally:
            os.close(lock)

    def forget(self, oldest: float) -> None:
        """Remove environments that were last used before `oldest` (seconds since 1970), and those that are
        unfinished.
        """
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if not folder.is_dir():
                continue
            with self._locked(folder.name):
                ready = folder / _READY
                if not ready.exists() or ready.stat().st_mtime < oldest:
                    shutil.rmtree(folder, ignore_errors=True)


def key_of(lock: tuple[str, ...]) -> str:
    """Return the name of the environment of these dependencies, for the Python of this process."""
    python = f"{sys.implementation.cache_tag} {sys.base_prefix}"
    return sha256("\n".join([python, *lock]).encode()).hexdigest()[:32]


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _run(argv: list[str], for_whom: str, closing: threading.Event) -> None:
    """Run the program to its end. Raises `Refused` if it fails, takes too long, or is ended.

    It has a session of its own, so that its children end with it, and Ctrl-C at the node's terminal does not reach it.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    deadline, said = time.monotonic() + LONGEST, None
    while said is None:
        try:
            said = process.communicate(timeout=_LOOK)[0]
        except subprocess.TimeoutExpired:
            if closing.is_set() or time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        why = said.strip()[-_SAID:] or f"its process was ended ({process.returncode})"
        raise Refused(f"build: the environment of {for_whom} can't be made: {why}", field="build")


_PRIVATE: Final = 0o700


class BuildCache:
    """Every method but `close` waits for the disk, and is called in a thread. Each may raise `OSError`."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir.absolute() / "builds"
        self._environments = Environments(state_dir.absolute() / "environments")

    def file_of(self, digest: str) -> Path:
        """Return the file of the build."""
        return self._folder / f"{digest}.pyz"

    def has(self, digest: str) -> bool:
        """Return whether the build is here under its digest; a file that was changed is removed."""
        file = self.file_of(digest)
        try:
            check_content(file.read_bytes(), digest)
            os.utime(file)
        except FileNotFoundError:
            return False
        except Refused:
            file.unlink(missing_ok=True)
            return False
        return True

    def keep(self, digest: str, content: bytes) -> None:
        """Keep the content of a build, which was checked."""
        self._folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        unnamed = self._folder / f".{digest}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            with os.fdopen(os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
                written.write(content)
            unnamed.replace(self.file_of(digest))
        finally:
            unnamed.unlink(missing_ok=True)

    def python_of(self, digest: str) -> str:
        """Return the Python that runs the build, with all on which it depends. Raises `Refused` where that can't be
        had.
        """
        return self._environments.python_for(manifest_of(self.file_of(digest).read_bytes()))

    def variables_of(self, digest: str) -> tuple[str, ...]:
        """Return the names of the variables with which the build was made."""
        return env_names(self.file_of(digest).read_bytes())

    def close(self) -> None:
        """End builds in the making, without waiting."""
        self._environments.close()

    def forget(self, before: Moment) -> None:
        """Remove the builds and the environments that nothing has run since."""
        oldest = before / SECOND
        for file in self._folder.glob("*.pyz") if self._folder.is_dir() else ():
            if file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)
        self._environments.forget(oldest)
