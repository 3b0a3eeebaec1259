"""Builds in the folder of a node, each under its digest, and the environments of their dependencies."""

import os
from pathlib import Path
from typing import Final

from tokimori.clock import SECOND, Moment
from tokimori.errors import Refused
from tokimori.executors.builds.environments import Environments
from tokimori.model.build import check_content, env_names, manifest_of

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
        """End what is being made. Waits for nothing."""
        self._environments.close()

    def forget(self, before: Moment) -> None:
        """Remove the builds and the environments that nothing has run since."""
        oldest = before / SECOND
        for file in self._folder.glob("*.pyz") if self._folder.is_dir() else ():
            if file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)
        self._environments.forget(oldest)
