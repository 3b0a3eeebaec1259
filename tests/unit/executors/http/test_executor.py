"""What sends requests, before it has sent one."""

from typing import cast

import pytest

from tokimori.executors.http import executor as module
from tokimori.executors.http.executor import HttpExecutor
from tokimori.executors.http.session import Session
from tokimori.testing.clock import VirtualClock


async def test_a_session_that_could_not_be_made_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may lack threads for a moment: the next request has one, and the end of the node has no fault."""
    executor, faults = HttpExecutor(VirtualClock()), [RuntimeError("can't start new thread")]

    async def to_thread(act: object, *_: object) -> object:
        if faults:
            raise faults.pop()
        return module

    monkeypatch.setattr(module.asyncio, "to_thread", to_thread)
    monkeypatch.setattr(module, "Session", lambda _networks: "a session", raising=False)
    with pytest.raises(RuntimeError):
        await executor._opened()
    assert cast("Session | str", await executor._opened()) == "a session"
    await executor.close()
