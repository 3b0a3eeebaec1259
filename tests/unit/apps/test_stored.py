"""Which functions of a job's own naming are imported, and what they do with a task."""

import json
from os import system
from typing import Any

import pytest

from tests.unit.apps.tasks import a_task
from tokimori.apps.app import App
from tokimori.apps.routes import StoredFunctions
from tokimori.apps.task import Task
from tokimori.errors import InvalidInput, Refused
from tokimori.model.target import how_to_allow

HERE = "tests.unit.apps.test_stored"
imported = (json, system)


class Worker:
    """Kōjō's form."""

    task: Task

    def work(self, number: int = 1) -> Any:
        """A method of any name."""
        return number, self.task.data

    @staticmethod
    def still(number: int) -> int:
        """Without the object."""
        return number

    def _inner(self) -> None:
        """Nobody's affair."""


def plain(number: int) -> int:
    """A function."""
    return number + 1


def found(path: str, payload: str | None = None) -> Any:
    """What a stored function of this module returns."""
    return StoredFunctions([f"{HERE}:*"]).find(f"{HERE}:{path}")(a_task(payload))


def test_a_method_gets_its_object_a_task_and_its_arguments() -> None:
    """A function, a static method and a method of any name are called with the payload."""
    assert found("Worker.work", '{"number": 4}') == (4, {"number": 4})
    assert (found("Worker.still", "3"), found("plain", "3")) == (3, 4)


@pytest.mark.parametrize(
    "path",
    ["system", "json", "json.loads", "imported", "Worker._inner", "Worker.task", "Worker.nothing", "plain.x", "no"],
)
def test_only_what_the_module_defines_is_run(path: str) -> None:
    """Not what it imports, nor anything inside, nor what is not there."""
    with pytest.raises(InvalidInput, match="can't be run"):
        found(path)


@pytest.mark.parametrize("allowed", [(), ("tests:*",), (f"{HERE}:other",), (f"{HERE}:plain.*",), ("*.apps:*",)])
def test_what_is_not_allowed_is_refused(allowed: tuple[str, ...]) -> None:
    """And the message says which setting would allow it; by default nothing is."""
    with pytest.raises(Refused) as caught:
        StoredFunctions(allowed).find(f"{HERE}:plain")
    assert f'app.stored = ["{HERE}:*"] in tokimori.toml' in caught.value.message


@pytest.mark.parametrize("allowed", [f"{HERE}:plain", f"{HERE}:p*n", "tests.*:*", "*:plain", "*:*"])
def test_patterns_say_modules_and_names(allowed: str) -> None:
    """A star is any part of either."""
    assert StoredFunctions([allowed]).find(f"{HERE}:plain")(a_task("1")) == 2


@pytest.mark.parametrize("pattern", ["*", "reports", "reports.*", "a:b:c", ":x", "x:", "a b:c", ""])
def test_a_pattern_is_for_stored_functions_alone(pattern: str) -> None:
    """One without a colon would take the runs of other apps' handlers."""
    with pytest.raises(InvalidInput, match="is not a pattern"):
        StoredFunctions([pattern])


def test_names_of_handlers_are_no_stored_functions() -> None:
    """A hint at the setting would mislead."""
    assert [how_to_allow(name) for name in ("reports.nightly", "a:", ":b", "a:b c", "a:*")] == [None] * 5


def test_what_an_app_declares_comes_first() -> None:
    """A handler may have such a name; the node says what it allows beside its handlers."""
    app = App("a")
    app._allow_stored([f"{HERE}:*"])
    app.handler(f"{HERE}:plain")(lambda: "declared")
    assert app._act_of(f"{HERE}:plain")(a_task()) == "declared"
    assert app._act_of(f"{HERE}:Worker.still")(a_task("1")) == 1
    assert app._hello(1, 2).patterns == [r"tests\.unit\.apps\.test_stored:[\w.]*"]
    with pytest.raises(InvalidInput, match="has no handler in this app"):
        app._act_of("other")
