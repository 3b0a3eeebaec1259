"""The functions of a node: which settings count for them, and since when."""

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from tests.simulation.virtual_time import let_pass, run_virtually
from tokimori.config.secrets import VARIABLE
from tokimori.config.settings import Settings, load_settings
from tokimori.errors import InvalidConfig, InvalidInput, StoreUnavailable
from tokimori.executors.functions.executor import FunctionExecutor
from tokimori.executors.functions.process import AppSettings
from tokimori.executors.functions.wire import Hello
from tokimori.node.functions import CodeChanges, Functions, environ_of
from tokimori.testing.manual import VirtualClock


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of a node with an app."""
    given = {"store": "memory:", "app.load": "shop:app", "app.processes": 2}
    return load_settings(given, {"HOME": str(tmp_path)}, cwd=tmp_path).settings


class Executor:
    """Notes with which settings the code is loaded anew."""

    def __init__(self) -> None:
        self.reloads: list[AppSettings | None] = []

    def reload(self, app: AppSettings | None = None) -> None:
        """See `FunctionExecutor`."""
        self.reloads.append(app)


def an_app(*handlers: str) -> Hello:
    """What an app with these handlers says."""
    return Hello(number=1, pid=1, app="a", handlers=list(handlers), patterns=["m.*"], jobs=[])


def test_functions_get_no_key_of_secrets(settings: Settings) -> None:
    """They have the environment of the node, with its store, but for the keys."""
    found = environ_of(settings, {VARIABLE: "a key", "MORE": "of it"})
    assert found == {"MORE": "of it", "TOKIMORI_STORE": "memory:"}


def test_new_code_has_the_apps_settings_of_now(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """And the places of now; others of the node stay as they are: who changed these is told when they count."""
    more = replace(settings.node, concurrency=112)
    new = replace(settings, app=replace(settings.app, processes=7), node=more)
    elsewhere, executor = replace(new, state_dir=Path("/elsewhere")), Executor()
    said = iter([new, elsewhere])
    functions = Functions(settings, VirtualClock(), os.urandom, lambda: next(said))
    functions.executor = cast(FunctionExecutor, executor)
    for told in (
        [],
        ["settings beyond app.* have changed, or app.only, or app.reload: these take effect at the next start"],
    ):
        functions.reload()
        assert caplog.messages == told
        assert functions.concurrency == 112
    first, second = executor.reloads
    assert first is not None
    assert (first.processes, first.state_dir, first) == (7, settings.state_dir, second)


def test_an_app_alone_from_the_next_start_on_has_no_places_before(settings: Settings) -> None:
    """A node that runs commands, too, would begin as many of them: what `app.only` says now does not count yet."""
    app, node = replace(settings.app, only=True), replace(settings.node, concurrency=1000)
    functions = Functions(settings, VirtualClock(), os.urandom, lambda: replace(settings, app=app, node=node))
    functions.executor = cast(FunctionExecutor, Executor())
    functions.reload()
    assert functions.concurrency == settings.node.concurrency


def test_settings_that_are_none_leave_those_of_before(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """The new code takes over all the same; the log says what is wrong with them."""

    def fails() -> Settings:
        raise InvalidConfig(["app.processes: 0 is not allowed"])

    executor = Executor()
    functions = Functions(settings, VirtualClock(), os.urandom, fails)
    functions.executor = cast(FunctionExecutor, executor)
    functions.reload()
    assert executor.reloads == [None]
    assert caplog.messages == ["the old settings stay in force: app.processes: 0 is not allowed"]


def test_what_new_code_declares_is_put_in_the_store(caplog: pytest.LogCaptureFixture) -> None:
    """The store is waited for; what it refuses is told, and the next code counts all the same."""
    taken, asked = list[str](), list[str]()

    async def declare(app: Hello) -> None:
        asked.append(app.handlers[0])
        if asked == ["a"]:
            raise StoreUnavailable("away")
        if app.handlers == ["b"]:
            raise InvalidInput("schedule: never", field="schedule")

    async def scenario() -> None:
        changes = CodeChanges()
        changes.receive(an_app("a"))  # before the node is there
        async with changes.followed(lambda app: taken.append(app.handlers[0]), declare):
            assert taken == ["a"]
            await let_pass(1)
            for name in "bc":
                changes.receive(an_app(name))
                await let_pass(1)
        assert (asked, taken) == (["a", "a", "b", "c"], ["a", "b", "c"])
        assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == [
            "the store refused some jobs of the new code; correct them and send HUP: schedule: never"
        ]
        assert caplog.text.count("the new code is in force") == 2
        assert len(asyncio.all_tasks()) == 1

    run_virtually(scenario())


def test_handlers_do_not_wait_for_jobs() -> None:
    """While the store is away newer code has its handlers at once, and the jobs of the older are forgotten."""
    taken, asked = list[str](), list[str]()

    async def declare(app: Hello) -> None:
        asked.append(app.handlers[0])
        if "b" not in asked:
            raise StoreUnavailable("away")

    async def scenario() -> None:
        changes = CodeChanges()
        async with changes.followed(lambda app: taken.append(app.handlers[0]), declare):
            changes.receive(an_app("a"))
            await let_pass(5)
            changes.receive(an_app("b"))
            assert taken == ["a", "b"]
            await let_pass(5)
            assert asked[-1] == "b"
            assert asked.count("b") == 1

    run_virtually(scenario())
