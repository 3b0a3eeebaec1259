"""The program in this process, on a store of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from tokimori.cli.errors import run
from tokimori.cli.main import program


class Called:
    """`tokimori` on a store: what it prints, and how it ends."""

    def __init__(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._store = store
        self._capsys = capsys
        self.told = ""
        """What the last call has written to standard error."""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What it prints; it must end with this exit code."""
        self._capsys.readouterr()
        ended = run(program, ["--store", self._store, *arguments])
        printed, self.told = self._capsys.readouterr()
        assert ended == code, self.told
        return printed

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What it prints as JSON."""
        return json.loads(self("--json", *arguments, code=code))

    def ids(self) -> list[str]:
        """The ids of all jobs."""
        return self("job", "list", "-o", "ids").split()


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """One at home in a folder, with no settings of anybody else's."""
    for name, value in {"HOME": tmp_path, "TOKIMORI_STATE_DIR": tmp_path, "XDG_CONFIG_HOME": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    return Called(f"sqlite://{tmp_path}/t.db", capsys)
