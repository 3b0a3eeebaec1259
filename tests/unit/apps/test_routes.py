"""Which function or class handles runs of which name."""

import asyncio
import re
from typing import Any, ClassVar

import pytest

from tests.unit.apps.tasks import a_task
from tokimori.apps.arguments import UnfitPayload
from tokimori.apps.routes import Routes, act_of, act_of_method
from tokimori.apps.task import Task
from tokimori.errors import InvalidInput


def plain(number: int = 1) -> int:
    """A function."""
    return number + 1


def with_task(task: Task, number: int = 1) -> tuple[Any, int]:
    """A function that wants the task."""
    return task.data, number


async def waiting(number: int) -> int:
    """A coroutine function."""
    return number * 2


class Runs:
    """PerfectSched's form."""

    task: Task

    def run(self) -> Any:
        """Do it."""
        return self.task.data


class Performs:
    """With what comes before and after."""

    task: Task
    said: ClassVar[list[str]] = []

    def before_perform(self) -> bool:
        """Whether to begin."""
        self.said.append("before")
        return bool(self.task.data["go"])

    def perform(self, go: bool) -> str:
        """Do it."""
        self.said.append("perform")
        return f"{go}"

    def after_perform(self) -> None:
        """Always."""
        self.said.append("after")


def test_the_first_that_fits_is_taken() -> None:
    """Exact names and patterns for whole names, in the order in which they were declared."""
    routes = Routes()
    routes.add("a.b", plain)
    routes.add(re.compile("a\\..*"), with_task)
    routes.add("a.c", plain)
    assert routes.find("a.b")(a_task('{"number": 4}')) == 5
    assert routes.find("a.c")(a_task()) == (None, 1)
    with pytest.raises(InvalidInput, match="has no handler in this app") as caught:
        routes.find("xa.b")
    assert caught.value.allowed == "one of a.b, a.c, /a\\..*/"


def test_coroutine_functions_stay_what_they_are() -> None:
    """They share a loop; all others get a thread."""
    routes = Routes()
    routes.add("wait", waiting)
    act = routes.find("wait")
    assert asyncio.iscoroutinefunction(act)
    assert asyncio.run(act(a_task('{"number": 4}'))) == 8


def test_classes_get_their_task() -> None:
    """One with `run` as in PerfectSched; one with `perform` is skipped where `before_perform` says so."""
    routes = Routes()
    routes.add("runs", Runs)
    routes.add("performs", Performs)
    assert routes.find("runs")(a_task("{}")) == {}
    assert routes.find("performs")(a_task('{"go": true}')) == "True"
    assert routes.find("performs")(a_task('{"go": false}')) is None
    assert Performs.said == ["before", "perform", "after", "before", "after"]


def test_a_method_without_parameters_takes_any_payload() -> None:
    """PerfectSched's `run` and Kōjō's methods have none, whatever the data: they read them from the task."""
    assert act_of(Runs)(a_task('{"key": "value"}')) == {"key": "value"}
    assert act_of_method(Runs, "run")(a_task("[1, 2]")) == [1, 2]
    with pytest.raises(UnfitPayload):
        act_of(Runs().run)(a_task('{"key": "value"}'))


def test_what_comes_after_comes_after_a_fall_too() -> None:
    """PerfectSched's `after_perform` is called when `perform` has raised, and the error stays the run's."""

    class Falls:
        said: ClassVar[list[str]] = []

        async def perform(self) -> None:
            raise ValueError("no good")

        def after_perform(self) -> None:
            self.said.append("after")

    with pytest.raises(ValueError, match="no good"):
        asyncio.run(act_of(Falls)(a_task()))
    assert Falls.said == ["after"]


def test_a_route_is_imported_when_it_is_needed() -> None:
    """A text names where the function is; one that names nothing is found when a run asks for it."""
    routes = Routes()
    routes.add("lazy", "tests.unit.apps.test_routes:plain")
    routes.add("lost", "tests.unit.apps.test_routes:nothing")
    assert routes.find("lazy")(a_task()) == 2
    with pytest.raises(InvalidInput, match="can't be imported"):
        routes.find("lost")


def test_what_can_be_no_handler_is_refused_at_once() -> None:
    """A name twice, a name with `|`, a class that does nothing."""
    routes = Routes()
    routes.add("a", plain)
    for name, target in (("a", plain), ("a|b", plain), ("b", Routes)):
        with pytest.raises(InvalidInput):
            routes.add(name, target)


@pytest.mark.parametrize("handler", [re.compile(b"mails"), 5, None])
def test_what_is_no_pattern_of_names_is_refused(handler: Any) -> None:
    """Where it is declared."""
    with pytest.raises(InvalidInput, match="neither a name nor a pattern") as fault:
        Routes().add(handler, plain)
    assert fault.value.field == "handler"
