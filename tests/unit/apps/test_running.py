"""An app at work in a program: how its node is replaced."""

from collections.abc import Callable

import pytest

from tokimori.apps import running
from tokimori.apps.app import App
from tokimori.model.suspicion import ALIVE_AND_WELL


async def test_nodes_that_die_soon_are_replaced_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lived well is replaced at once; none is tried in vain each second, for days."""
    lives, pauses, now = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, ALIVE_AND_WELL, 1.0, 1.0], list[float](), [0.0]
    app = running.Running(App("a"), None, 4)

    async def one_node() -> None:
        now[0] += lives.pop(0)

    async def beside(_: Callable[..., object], pause: float) -> bool:
        pauses.append(pause)
        return not lives

    monkeypatch.setattr(running, "monotonic", lambda: now[0])
    monkeypatch.setattr(app, "_one_node", one_node)
    monkeypatch.setattr(app, "_in_thread", beside)
    await app._run_nodes()
    assert pauses == [1, 1, 2, 4, 8, 16, 30, 1, 1, 2]
