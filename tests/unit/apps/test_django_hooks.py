"""What is called before and after each function, in the thread that runs it."""

import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.unit.apps.test_attempt import attempt, ended
from tokimori.apps.hooks import hooks
from tokimori.executors.functions import wire


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was called in turn, in a program that has loaded Django, whose hook raises each second time."""
    found: list[object] = []

    def close_old_connections() -> None:
        found.append(threading.get_ident())
        if len(found) % 2:
            raise ConnectionError("the server is away")

    db, conf = ModuleType("django.db"), ModuleType("django.conf")
    monkeypatch.setitem(vars(db), "close_old_connections", close_old_connections)
    monkeypatch.setitem(vars(conf), "settings", SimpleNamespace(configured=True))
    monkeypatch.setitem(sys.modules, "django.db", db)
    monkeypatch.setitem(sys.modules, "django.conf", conf)
    return found


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_are_called_around_a_function(called: list[object], tmp_path: Path, fails: bool) -> None:
    """Whatever becomes of it, and whatever becomes of them: that is only told in the output."""

    def act() -> None:
        called.append("function")
        if fails:
            raise ValueError("no good")

    found = ended(act, tmp_path)
    here = threading.get_ident()
    assert called == [here, "function", here]
    assert found.end == (wire.FAILED if fails else wire.SUCCEEDED)
    assert b"the server is away" in found.head


async def test_those_of_coroutines_are_called_where_their_connections_are(called: list[object], tmp_path: Path) -> None:
    """In the one thread in which Django does what coroutines await."""

    async def act() -> None:
        called.append("function")

    found = await attempt(act, tmp_path).run_async()
    before, function, after = called
    assert function == "function"
    assert before == after != threading.get_ident()
    assert found.end == wire.SUCCEEDED


def test_a_library_that_is_loaded_and_not_set_up_has_none(
    called: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where another library imports it: it has no connections."""
    assert len(hooks()) == 1
    monkeypatch.setattr(sys.modules["django.conf"].settings, "configured", False)
    assert hooks() == ()
    assert called == []
