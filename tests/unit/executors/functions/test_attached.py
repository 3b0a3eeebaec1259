"""Attached: a node whose functions run in the program that started it."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from tests.unit.apps.orders import begin
from tests.unit.examples import a_task
from tests.unit.executors.functions.test_pulse import Taking
from tokimori.errors import Refused
from tokimori.executors.functions.listener import Attached
from tokimori.executors.functions.process import AppSettings, Assignment
from tokimori.executors.functions.wire import Renew, Unloadable
from tokimori.model.lease import LEASE
from tokimori.model.target import Function


async def test_a_program_of_another_version_is_refused_at_once(tmp_path: Path) -> None:
    """The node was upgraded while its program ran: it says so, and waits for nobody."""
    app = AppSettings(app="", secret="s", state_dir=tmp_path, runs_dir=tmp_path, environ={}, attached=True)
    attached = Attached(app, receive=lambda *_: None, ready=lambda: None, died=lambda *_: None)
    opening = asyncio.ensure_future(attached.open())
    await asyncio.sleep(0)
    for _ in range(2):
        attached._receive(1, [Unloadable(number=1, message="app: another version")])
    with pytest.raises(Refused, match="app: another version"):
        await opening
    await attached.close()


def test_a_program_is_told_of_the_lease(tmp_path: Path) -> None:
    """Only while it has runs: it may be frozen together with its node."""
    app = AppSettings(app="", secret="s", state_dir=tmp_path, runs_dir=tmp_path, environ={}, attached=True)
    attached, line = Attached(app, receive=lambda *_: None, ready=lambda: None, died=lambda *_: None), Taking()
    attached._process.connect(cast(asyncio.WriteTransport, line), 7)
    attached.renew(1.0)
    assert line.said == []
    attached._process.give(Assignment(a_task(Function(name="f")), 1), begin(), 1.0)
    attached.flush()
    attached.renew(2.0)
    assert line.said == [begin(), Renew(2.0 + LEASE)]
