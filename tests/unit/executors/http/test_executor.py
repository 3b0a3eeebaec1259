"""What sends requests, before it has sent one."""

import asyncio

import pytest

from tokimori.executors.http import session
from tokimori.executors.http.executor import HttpExecutor
from tokimori.testing.manual import VirtualClock


async def test_a_session_that_could_not_be_made_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may lack threads for a moment: the next request has one, and the end of the node has no fault."""
    executor, faults = HttpExecutor(VirtualClock()), [RuntimeError("can't start new thread")]

    async def to_thread(act: object, *_: object) -> object:
        if faults:
            raise faults.pop()
        return session

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    with pytest.raises(RuntimeError):
        await executor._opened()
    assert isinstance(await executor._opened(), session.HttpSession)
    await executor.close()
