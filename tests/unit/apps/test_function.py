"""A call that is tried again within one attempt; what people write who come from other libraries."""

import copy
import pickle
import traceback
from typing import Any

import pytest

import tokimori
from tokimori.apps.app import App
from tokimori.apps.function import retry
from tokimori.errors import InvalidInput


def test_it_is_tried_so_often_and_no_more() -> None:
    """Two failures and a success; or as many failures as there are attempts, and the last error."""
    tried: list[int] = []

    @retry(attempts=3)
    def flaky(fails: int) -> str:
        tried.append(1)
        if len(tried) <= fails:
            raise ValueError(len(tried))
        return "done"

    assert flaky(2) == "done"
    tried.clear()
    with pytest.raises(ValueError, match="3"):
        flaky(3)
    assert len(tried) == 3


async def test_coroutines_are_tried_again_too() -> None:
    """The decorated function is a coroutine function as well."""
    tried: list[int] = []

    @retry(attempts=2)
    async def flaky() -> str:
        tried.append(1)
        if len(tried) < 2:
            raise ValueError
        return "done"

    assert await flaky() == "done"


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"delay": -1}, {"backoff": 0.5}])
def test_bad_numbers_are_named(wrong: dict[str, float]) -> None:
    """When the decorator is made, not when the call fails."""
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        retry(**wrong)  # type: ignore[arg-type]


def test_names_of_other_libraries_are_answered_with_ours() -> None:
    """A function and a handle say what is written here; other names are as unknown as ever."""
    app = App("elsewhere", url="memory:")

    @app.job
    def fn() -> None: ...

    it: Any = fn
    for name, here in (("delay", "enqueue"), ("apply_async", "after")):
        with pytest.raises(AttributeError, match=f"write {here}"):
            getattr(it, name)(1)
    handle: Any = fn.enqueue()
    with pytest.raises(AttributeError, match=r"'get': write result"):
        handle.get()
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = handle.nothing
    assert copy.copy(handle) == handle
    assert not hasattr(fn, "nothing")
    app.client.close()


@pytest.mark.parametrize("wrong", [[1], 7, ["a", "b"]])
def test_what_is_no_handle_is_named(wrong: Any) -> None:
    """Of `gather` and `as_completed`, which take one iterable of handles, not several arguments or coroutines."""
    for call in (tokimori.gather, tokimori.as_completed):
        with pytest.raises(InvalidInput, match="is not what is gathered") as raised:
            call(wrong)
        assert "allowed: one iterable of handles" in "".join(traceback.format_exception(raised.value))


def test_an_error_with_its_note_survives_pickling() -> None:
    """What is allowed stands once in its traceback, and its text stays as it was."""
    fault = pickle.loads(pickle.dumps(InvalidInput("x: too small", field="x", allowed="from 1")))  # noqa: S301  our own
    assert (str(fault), fault.allowed, fault.__notes__) == ("x: too small", "from 1", ["allowed: from 1"])
