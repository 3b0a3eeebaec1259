"""A real node with its door."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import Started


class Site:
    """A node at work: `url` is the address that it printed, `entry` the same with its `secret`, if it made one."""

    def __init__(self, program: Program, *options: str) -> None:
        self._log = program.home / "node.log"
        with self._log.open("w") as log:
            self.node: Started | subprocess.Popen[str] = Started(
                ["serve", "-p", "0", *options],
                cwd=program.home,
                env=program.environment,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.node.stdout is not None
        told = ""
        while "http://" not in told and "https://" not in told:
            told = self.node.stdout.readline()
            assert told, "the node did not come up"
        self.url = next(word for word in told.split() if word.startswith("http"))
        assert "secret=" not in self.url, "a pipe may be that of a supervisor, which keeps what it reads"
        own = program.home / "state" / "secret"
        self.secret = own.read_text().strip() if own.exists() else ""
        self.entry = f"{self.url}?secret={self.secret}" if self.secret else self.url

    @property
    def log(self) -> str:
        """All that it has written to stderr."""
        return self._log.read_text()

    def stop(self) -> int:
        """End it politely; its exit code."""
        return stop(self.node)


@contextmanager
def site_of(program: Program, *options: str) -> Iterator[Site]:
    """A node at work, that ends well."""
    site = Site(program, *options)
    try:
        yield site
    finally:
        code = site.stop()
    assert code == 0
