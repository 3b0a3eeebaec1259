"""Attached: a node whose functions run in the program that started it."""

import asyncio
from pathlib import Path

import pytest

from tokimori.errors import Refused
from tokimori.executors.functions.attached import Attached
from tokimori.executors.functions.process import AppSettings
from tokimori.executors.functions.wire import Unloadable


async def test_a_program_of_another_version_is_refused_at_once(tmp_path: Path) -> None:
    """The node was upgraded while its program ran: it says so, and waits for nobody."""
    app = AppSettings(app="", secret="s", state_dir=tmp_path, runs_dir=tmp_path, environ={}, attached=True)
    attached = Attached(app, heard=lambda *_: None, ready=lambda: None, died=lambda *_: None)
    opening = asyncio.ensure_future(attached.open())
    await asyncio.sleep(0)
    for _ in range(2):
        attached._hear(1, [Unloadable(number=1, message="app: another version")])
    with pytest.raises(Refused, match="app: another version"):
        await opening
    await attached.close()
