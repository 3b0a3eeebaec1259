"""What is loaded with a node, and what it does before it takes part."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tokimori.config.settings import load_settings
from tokimori.errors import Refused, StoreUnavailable
from tokimori.node import checkup, wiring
from tokimori.testing.manual import VirtualClock


def test_a_node_without_a_door_loads_none() -> None:
    """What answers over HTTP, makes pages and counts for metrics is a third of a node's start."""
    packages = ("starlette", "uvicorn", "jinja2", "prometheus_client", "aiohttp")
    code = f"import sys, tokimori.node.wiring; print([name for name in {packages} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_a_node_whose_program_is_gone_waits_for_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of `app.running()` was killed before the store answered: nothing else would ever end the node."""
    reading, writing = os.pipe()

    async def away(_: object) -> None:
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(wiring, "open_prepared", away)
    monkeypatch.setattr(wiring, "note_signals", lambda: None)
    monkeypatch.setattr(wiring, "_STDOUT", writing)
    monkeypatch.setattr(checkup, "FIRST_PAUSE", 0.0)
    given = {"store": "memory:", "app.attached": "x" * 32, "state_dir": str(tmp_path)}
    settings = load_settings(given, {"HOME": str(tmp_path)}, cwd=tmp_path).settings
    assert wiring._has_program(settings)
    with pytest.raises(Refused, match="the program that this node works for is gone"):
        await wiring.serve(settings, lambda _: os.close(reading), VirtualClock())
    os.close(writing)
