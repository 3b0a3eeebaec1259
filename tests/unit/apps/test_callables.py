"""Whatever can be called may be a job: it does its work, or is refused where it is declared."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.apps.orders import begin
from tests.unit.apps.test_attempt import attempt
from tests.unit.apps.test_worker_process import connected
from tokimori.apps.app import App
from tokimori.apps.loading import load_app
from tokimori.errors import InvalidInput
from tokimori.executors.functions import wire


def plain(number: int, more: int = 1) -> int:
    """A function."""
    return number + more


async def waits(number: int, more: int = 1) -> int:
    """A coroutine function."""
    await asyncio.sleep(0)
    return number + more


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """As many decorators are written: whatever it wraps, it is a function."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


class Adder:
    """An object that can be called, and methods of each kind. What it holds has names that a job has, too."""

    def __init__(self) -> None:
        self.job_id = self.enqueue = "mine"

    def __call__(self, number: int) -> int:
        return number + 1

    def add(self, number: int) -> int:
        """Of an object."""
        return number + 1

    async def wait(self, number: int) -> int:
        """Of an object."""
        return number + 1

    @classmethod
    def of_class(cls, number: int) -> int:
        """Of the class."""
        return number + 1

    @staticmethod
    def of_none(number: int) -> int:
        """Of nobody."""
        return number + 1


class Waiting:
    """An object whose call waits."""

    async def __call__(self, number: int) -> int:
        return number + 1


class Runs:
    """A class that does the work itself."""

    def run(self, number: int) -> int:
        """Do it."""
        return number + 1


class RunsForClass:
    """One without an object."""

    @classmethod
    async def run(cls, number: int) -> int:
        """Do it."""
        return number + 1


WORK = {
    "plain": plain,
    "waits": waits,
    "wrapped": decorated(plain),
    "wrapped_waits": decorated(waits),
    "partial": partial(plain, more=1),
    "partial_waits": partial(waits, more=1),
    "partial_of_the_first": partial(lambda one, number: number + one, 1),
    "lambda": lambda number: number + 1,
    "returns_a_coroutine": lambda number: waits(number, more=1),
    "cached": lru_cache(plain),
    "object": Adder(),
    "object_waits": Waiting(),
    "method": Adder().add,
    "method_waits": Adder().wait,
    "class_method": Adder.of_class,
    "static": Adder.of_none,
    "class": Runs,
    "class_of_class": RunsForClass,
}


@pytest.mark.parametrize("kind", WORK)
async def test_each_kind_does_its_work(kind: str, tmp_path: Path) -> None:
    """A worker process calls it with its typed arguments, and awaits what has to be awaited."""
    app = App("a")
    job = app.job(id="job")(cast("Callable[..., Any]", WORK[kind]))
    assert job.request(number=4)["payload"] == '{"number":4}'
    if "lambda" not in kind and "returns" not in kind and "first" not in kind:
        with pytest.raises(InvalidInput, match="does not fit"):
            job.request(number="four")
    process, line = connected(app, tmp_path)
    process.data_received(wire.frame([begin("a.job", payload='{"number": 4}')]))
    while not isinstance(line.said[-1], wire.FunctionEnded):  # noqa: ASYNC110  threads end by themselves
        await asyncio.sleep(0)
    assert (line.said[-1].end, line.said[-1].text) == (wire.SUCCEEDED, "5")
    process.connection_lost(None)


class Never:
    """An awaitable that is not to be awaited."""

    def __await__(self) -> Iterator[None]:
        raise AssertionError


async def test_what_is_to_end_is_not_awaited(tmp_path: Path) -> None:
    """An attempt that is told to end while its thread returns an awaitable ends as interrupted."""
    found = attempt(lambda: Never(), tmp_path)  # noqa: PLW0108  a class would be a handler of another kind
    assert found.run() is None
    found.end_because("it was cancelled", lost=False)
    assert (await found.run_async()).text == "it was interrupted"


def generates() -> Iterator[int]:
    """Nobody would take its steps."""
    yield 1


async def generates_async() -> AsyncIterator[int]:
    """Nor these."""
    yield 1


class GeneratesInRun:
    """A class whose method is one."""

    def run(self) -> Iterator[int]:
        """Take none."""
        yield 1


NO_FUNCTION = "is neither a schedule nor a function|is neither a name nor a pattern|can't be a handler|has no name"
GENERATES = "what a generator yields goes nowhere"
NO_OBJECT = "a method has no object here"


@pytest.mark.parametrize("declare", ["app.job", "app.job()", "app.job(id='x')", "app.handler", "app.handler('x')"])
@pytest.mark.parametrize(
    ("function", "why"),
    [
        (generates, GENERATES),
        (generates_async, GENERATES),
        (partial(generates), GENERATES),
        (GeneratesInRun, GENERATES),
        (Adder.add, NO_OBJECT),
        (Adder.wait, NO_OBJECT),
        (vars(Adder)["of_class"], NO_FUNCTION),
        (property(plain), NO_FUNCTION),
        (5, NO_FUNCTION),
        (max, "can't be a handler"),
        (print, "has no name that a payload could use"),
    ],
)
def test_what_would_do_nothing_is_refused_where_it_is_declared(declare: str, function: Any, why: str) -> None:
    """In words, with what is allowed instead."""
    app = App("a")
    with pytest.raises(InvalidInput, match=why) as found:
        eval(declare, {"app": app})(function)  # noqa: S307  our own
    assert found.value.allowed
    assert app._hello(1, 2).jobs == []


@pytest.mark.parametrize("function", [lambda: None, Adder(), partial(lambda: None)])
def test_what_has_no_name_is_given_one(function: Callable[[], Any]) -> None:
    """The error says so."""
    app = App("a")
    for declare in (app.job, app.job(), app.handler):
        with pytest.raises(InvalidInput, match="has no name") as found:
            declare(function)
        assert found.value.allowed == 'a name, as in app.job(id="…")'


def test_decorators_need_no_parentheses() -> None:
    """`@app.job` and `@app.handler` declare what stands below them, by its name."""
    app = App("a")

    @app.job
    def nightly(number: int = 1) -> int:
        return number

    @app.handler
    def resize() -> None: ...

    assert [job.id for job in app._hello(1, 2).jobs] == ["nightly"]
    assert app.routes.names() == ["a.nightly", "resize"]
    assert nightly(3) == 3
    assert nightly.request(2)["payload"] == '{"number":2}'


@pytest.mark.parametrize(
    ("file", "place", "name"),
    [
        ("shop.py", "FILE", "shop"),
        ("my-shop.py", "FILE", "my-shop"),
        ("bazaar/__main__.py", "FILE", "bazaar"),
        ("bazaar/jobs.py", "bazaar.jobs", "bazaar.jobs"),
        ("bazaar/__main__.py", "bazaar.__main__", "bazaar"),
    ],
)
def test_an_app_is_named_after_its_module(
    file: str, place: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is given no name."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for module in ("shop", "my-shop", "bazaar", "bazaar.jobs", "bazaar.__main__"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("import tokimori\napp = tokimori.App()\n")
    assert load_app(place.replace("FILE", str(tmp_path / file)) + ":app").name == name
