"""A worker whose settings a function of its program gives, and the nodes that it has."""

import io
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import pytest

from tokimori.apps.worker import Worker, _Said


class NobodyReads(io.StringIO):
    """Standard output behind `| head -1`."""

    def write(self, _: str) -> int:
        """It has gone."""
        raise BrokenPipeError


def test_who_reads_no_more_keeps_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node says may be read by nobody: it still is heard that it works, and that it has ended."""
    worker, node = Worker("jobs:app"), SimpleNamespace(stdout=["works\n", "stops\n"], wait=lambda: 0)
    monkeypatch.setattr(sys, "stdout", NobodyReads())
    worker._listen(cast("subprocess.Popen[str]", node))
    assert [cast(_Said, worker._heard.get_nowait()).works for _ in range(2)] == [True, False]
