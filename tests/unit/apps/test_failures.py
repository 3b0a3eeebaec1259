"""Rules for what a function raises, from the declaration to the outcome."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tokimori
from tests.unit.apps.orders import begin
from tokimori.apps.attempt import RunningAttempt
from tokimori.apps.handle import error_in
from tokimori.errors import InvalidInput
from tokimori.executors.functions import wire
from tokimori.executors.functions.attempts import outcome_of
from tokimori.model.outcome import Failed, Outcome


def outcome(error: BaseException, tmp_path: Path, attempt: int = 1, *, waits: bool = False, **terms: Any) -> Outcome:
    """The outcome of a declared function that raises this."""
    app = tokimori.App("shop")

    def fails() -> None:
        raise error

    async def fails_async() -> None:
        raise error

    app.job(id="it", attempts=5, **terms)(fails_async if waits else fails)
    beginning = begin(handler="shop.it", attempt=attempt)
    running = RunningAttempt(beginning, app._act_of("shop.it"), tmp_path, lambda _: None, app=app)
    ended = asyncio.run(running.run_async()) if waits else running.run()
    assert ended is not None
    return outcome_of(ended, None, None)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("terms", "error", "final"),
    [
        ({}, ValueError("x"), False),
        ({}, tokimori.Permanent("x"), True),
        ({"retry_on": (TimeoutError, KeyError)}, TimeoutError("x"), False),
        ({"retry_on": OSError}, ConnectionResetError("x"), False),
        ({"retry_on": (TimeoutError,)}, ValueError("x"), True),
        ({"retry_on": [TimeoutError]}, tokimori.Permanent("x"), True),
        ({"never_on": (ValueError,)}, UnicodeError("x"), True),
        ({"never_on": ValueError}, KeyError("x"), False),
        ({"retry_on": OSError, "never_on": FileNotFoundError}, FileNotFoundError("x"), True),
        ({"retry_on": ValueError}, SystemExit(3), True),
        ({}, ExceptionGroup("of a TaskGroup", [ValueError("x"), tokimori.Permanent("x")]), True),
        ({}, ExceptionGroup("of a TaskGroup", [ValueError("x")]), False),
        ({"retry_on": OSError}, ExceptionGroup("x", [ExceptionGroup("y", [OSError("x")]), TimeoutError("x")]), False),
        ({"retry_on": OSError}, ExceptionGroup("x", [OSError("x"), ValueError("x")]), True),
        ({"retry_on": ExceptionGroup}, ExceptionGroup("x", [ValueError("x")]), False),
        ({"never_on": ValueError}, ExceptionGroup("x", [OSError("x"), UnicodeError("x")]), True),
        ({}, tokimori.Permanent(), True),
        ({}, tokimori.Permanent(ValueError("x")), True),
    ],
)
def test_the_class_of_an_error_decides_about_a_retry(
    terms: dict[str, Any], error: BaseException, final: bool, waits: bool, tmp_path: Path
) -> None:
    """An error is tried again if `retry_on` names its class, `never_on` does not, and it is not permanent.

    So is a group if all errors within are.
    """
    failed = outcome(error, tmp_path, waits=waits, **terms)
    assert isinstance(failed, Failed)
    assert failed.final is final


@pytest.mark.parametrize(
    ("backoff", "wait"),
    [
        (lambda attempt, _: attempt * 10, 30),
        (lambda _, error: float(str(error)), 7.5),
        (lambda _, __: "10m", 600),
        (lambda _, __: None, None),
        ("linear", 6),
    ],
)
def test_a_backoff_says_the_next_wait(backoff: Any, wait: float | None, tmp_path: Path) -> None:
    """`backoff` is called with the attempt and its error, and returns a length of time, or leaves it to the job."""
    said = outcome(ValueError("7.5"), tmp_path, attempt=3, backoff=backoff, retry_delay=2)
    assert said == Failed("ValueError: 7.5", wait=wait)


@pytest.mark.parametrize(
    "wrong", [lambda _, __: -1, lambda _, __: "soon", lambda _, __: 1 / 0, lambda: 1, lambda _, __: sys.exit()]
)
def test_a_backoff_that_fails_leaves_the_wait_to_the_job(wrong: Any, tmp_path: Path) -> None:
    """What the backoff raises is in the output, before the error of the function, and the policy of the job counts."""
    assert outcome(ValueError("x"), tmp_path, backoff=wrong) == Failed("ValueError: x")
    run: Any = SimpleNamespace(error="ValueError: x")
    text = (tmp_path / "r/1.log").read_bytes()
    error = error_in(run, SimpleNamespace(head=b"", tail=text))  # type: ignore[arg-type]
    assert error is not None
    assert (error.type, error.traceback.splitlines()[-1]) == ("ValueError", "ValueError: x")
    assert text.count(b"Traceback") > error.traceback.count("Traceback")


def test_the_error_is_in_the_output_before_its_backoff_is_called(tmp_path: Path) -> None:
    """One that hangs until its process is killed leaves the reason of the failure."""
    seen = list[str]()

    def looks(_: int, error: BaseException) -> None:
        seen.append((tmp_path / "r/1.log").read_text())

    assert outcome(ValueError("x"), tmp_path, backoff=looks) == Failed("ValueError: x")
    assert [text.splitlines()[-1] for text in seen] == ["ValueError: x"]


@pytest.mark.parametrize(("backoff", "kept"), [("fixed", 1), ("exponential", 2), (1.5, 1.5)])
def test_a_backoff_in_words_is_a_field_of_the_job(backoff: Any, kept: float) -> None:
    """The words are the job's own policy, so that everybody who looks at the job sees it."""
    app = tokimori.App("shop")
    app.job(id="it", attempts=3, backoff=backoff)(lambda: None)
    fields = app._jobs["it"].fields["retry"]
    assert (fields.get("backoff", 1), fields["delay"]) == (kept, 1)


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"retry_on": "TimeoutError", "attempts": 2}, "retry_on"),
        ({"retry_on": (TimeoutError, 3), "attempts": 2}, "retry_on"),
        ({"retry_on": TimeoutError("x"), "attempts": 2}, "retry_on"),
        ({"retry_on": TimeoutError}, "retry_on"),
        ({"never_on": int, "attempts": 2}, "never_on"),
        ({"backoff": lambda _, __: 1}, "backoff"),
        ({"backoff": "quadratic", "attempts": 2}, "backoff"),
        ({"backoff": 0.5, "attempts": 2}, "backoff"),
        ({"backoff": True, "attempts": 2}, "backoff"),
        ({"backoff": float("nan"), "attempts": 2}, "backoff"),
        ({"backoff": 2, "retry_backoff": 3, "attempts": 2}, "backoff"),
    ],
)
def test_rules_that_can_not_hold_are_refused(terms: dict[str, Any], field: str) -> None:
    """A wrong rule is refused where it is declared, by the name of its field."""
    with pytest.raises(InvalidInput) as refused:
        tokimori.App("shop").job(id="it", **terms)(lambda: None)
    assert refused.value.field == field


def test_a_task_fails_for_good(tmp_path: Path) -> None:
    """`task.fail(…, retry=False)` ends a run, however many attempts its job has left."""
    app = tokimori.App("shop")

    @app.job(attempts=5)
    def it() -> None:
        tokimori.current_task().fail("bad card", retry=False)

    running = RunningAttempt(begin(handler="shop.it"), app._act_of("shop.it"), tmp_path, lambda _: None)
    ended = running.run()
    assert ended is not None
    assert ended.end == wire.FINAL
    assert outcome_of(ended, None, None) == Failed("bad card", final=True)
