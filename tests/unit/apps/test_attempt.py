"""One attempt: what a function returns, raises, prints and says becomes what the node is told."""

import asyncio
import gc
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.unit.apps.orders import begin
from tokimori.apps.arguments import Arguments
from tokimori.apps.attempt import RunningAttempt
from tokimori.apps.routes import act_of
from tokimori.apps.task import Task, current_task, task_in_hand
from tokimori.executors.functions import wire
from tokimori.executors.reported import MOST_TEXT
from tokimori.traces.ambient import ambient

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


def attempt(function: Callable[..., object], tmp_path: Path, **said: Any) -> RunningAttempt:
    """An attempt at a function."""
    return RunningAttempt(begin(**said), act_of(function), tmp_path, lambda _: None)


def ended(function: Callable[..., object], tmp_path: Path, **said: Any) -> wire.FunctionEnded:
    """How it ends."""
    return run(attempt(function, tmp_path, **said))


def run(attempt: RunningAttempt) -> wire.FunctionEnded:
    """How it ends in this thread."""
    ended = attempt.run()
    assert ended is not None
    return ended


def test_what_is_returned_is_the_result(tmp_path: Path) -> None:
    """As JSON; nothing is no result."""
    assert ended(lambda: {"a": [1]}, tmp_path).text == '{"a":[1]}'
    nothing = ended(lambda: None, tmp_path)
    assert (nothing.end, nothing.text, nothing.size) == (wire.SUCCEEDED, None, 0)


def test_an_exception_is_a_failure_with_its_traceback(tmp_path: Path) -> None:
    """The error is short; the traceback is in the output, and begins at the function's own line."""

    def fails() -> None:
        raise ValueError("no good\0")

    said = ended(fails, tmp_path)
    assert (said.end, said.text) == (wire.FAILED, "ValueError: no good\\0")
    lines = said.head.decode().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "in fails" in lines[1]
    assert (tmp_path / "r/1.log").read_bytes() == said.head


def test_a_payload_that_does_not_fit_is_final(tmp_path: Path) -> None:
    """It would not fit at another try; what a function itself raises is tried again, of whatever kind it is."""

    def takes(number: int) -> int:
        return number

    assert ended(takes, tmp_path, payload='{"number": "one"}').end == wire.FINAL
    assert ended(takes, tmp_path, payload="{nope").end == wire.FINAL

    def asks(number: int) -> None:
        Arguments(takes).encode(["x"], {})

    assert ended(asks, tmp_path, payload='{"number": 1}').end == wire.FAILED


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (object(), "result:"),
        ("x" * MOST_TEXT, "of JSON can't be stored"),
        ("a\0", "a text with a NUL can't be stored"),
        ("\\\0", "a text with a NUL can't be stored"),
        (r"[\u0000-\u001f]", None),
        (float("nan"), None),
    ],
)
def test_a_result_that_cannot_be_kept_is_a_failure(result: object, why: str | None, tmp_path: Path) -> None:
    """What is no JSON, too large, or holds a NUL is told as the error, and not tried again; NaN is a word in JSON."""
    said = ended(lambda: result, tmp_path)
    if why is None:
        assert (said.end, said.text) == (wire.SUCCEEDED, '"NaN"' if isinstance(result, float) else json.dumps(result))
    else:
        assert said.end == wire.FINAL
        assert why in str(said.text)


class Odd(BaseException):
    """No error, so that nothing that catches errors catches it."""


class Mute(Exception):
    """One whose texts can't be had."""

    def __str__(self) -> str:
        raise Odd

    __repr__ = __str__


class Unwritable:
    """A model that does not let itself be written."""

    def model_dump(self, **_: object) -> object:
        """Not even that."""
        raise Odd("never")


def unwritable() -> object:
    """A function that returns one."""
    return Unwritable()


def raising(fault: BaseException) -> Callable[[], object]:
    """A function that raises it."""

    def fails() -> None:
        raise fault

    return fails


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (raising(Odd("no")), "Odd: no"),
        (raising(Mute()), "Mute, whose text can't be read: Odd"),
        (raising(BaseExceptionGroup("all", [Odd("no")])), "BaseExceptionGroup: all (1 sub-exception)"),
        (unwritable, "result: Odd: never"),
    ],
)
async def test_whatever_is_raised_is_told(function: Callable[[], object], why: str, tmp_path: Path) -> None:
    """No error, one without words, one of the result: a run whose end is not told would run for ever."""

    async def waits() -> object:
        return function()

    for each in (function, waits):
        found = attempt(each, tmp_path)
        said = await found.run_async() if each is waits else run(found)
        assert (said.end, said.text) == (wire.FAILED, why)
        assert said.head


def test_exits_are_failures_of_the_run_alone(tmp_path: Path) -> None:
    """`sys.exit` in a function ends neither the process nor its thread."""

    def exits() -> None:
        raise SystemExit(3)

    assert (ended(exits, tmp_path).end, ended(exits, tmp_path).text) == (wire.FAILED, "SystemExit: 3")


def test_what_was_said_counts_for_more_than_an_exception(tmp_path: Path) -> None:
    """A function that has finished, and then falls, has finished; its traceback is kept."""

    def falls() -> None:
        current_task().finish(1)
        raise ValueError

    said = ended(falls, tmp_path)
    assert (said.end, said.text) == (wire.SUCCEEDED, "1")
    assert b"ValueError" in said.head


def test_what_it_leaves_behind_writes_no_more(tmp_path: Path) -> None:
    """A thread that goes on after the end changes nothing of the output, and the thread knows of no task any more."""

    def leaves() -> None:
        print_later.append(current_task())
        current_task().log("one")

    print_later: list[Task] = []
    said = ended(leaves, tmp_path)
    print_later[0].log("two")
    assert (tmp_path / "r/1.log").read_bytes() == said.head == b"one\n"
    assert task_in_hand() is None


@contextmanager
def without_collector() -> Iterator[None]:
    """Nobody looks for garbage meanwhile."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_an_attempt_that_has_ended_is_no_garbage_to_be_found(tmp_path: Path) -> None:
    """Its task and it do not refer to each other then, and so it goes at once, whatever the function has told."""

    def tells() -> None:
        current_task().log("here")
        current_task().progress(0.5)

    with without_collector():
        for function in (lambda: None, tells):
            one = attempt(function, tmp_path)
            one.run()
            gone = ref(one)
            del one
            assert gone() is None


def test_what_goes_with_a_handler_may_speak_to_the_task(tmp_path: Path) -> None:
    """The end of an attempt waits for no lock that it holds: an object that only a handler kept may say a last word."""

    class Talker:
        def __init__(self, task: Task) -> None:
            self.task = task

        def heard(self, _: object) -> None: ...

        def __del__(self) -> None:
            self.task.progress(1.0)

    def listens() -> None:
        current_task().on_signal("stop", Talker(current_task()).heard)

    ends: list[wire.FunctionEnded] = []
    thread = threading.Thread(target=lambda: ends.append(ended(listens, tmp_path)), daemon=True)
    thread.start()
    thread.join(10)
    assert [each.end for each in ends] == [wire.SUCCEEDED]


def test_a_task_that_somebody_keeps_tells_nobody(tmp_path: Path) -> None:
    """After the end of its attempt what is said to the task, or by it, goes nowhere, and raises nothing."""
    kept: list[Task] = []
    heard: list[object] = []
    assert ended(lambda: kept.append(current_task()), tmp_path).size == 0
    (task,) = kept
    task.log("too late")
    task.progress(0.5, "too late")
    task.signal("late", "1")
    task.on_signal("late", heard.append)
    assert not (tmp_path / "r/1.log").exists()
    assert heard == []


def test_where_it_has_to_say_returning_is_not_enough(tmp_path: Path) -> None:
    """Without auto_complete_success (Kōjō) a function that says nothing has failed."""
    assert ended(lambda: 1, tmp_path, returning_succeeds=False).end == wire.FAILED
    assert ended(lambda: current_task().finish(), tmp_path, returning_succeeds=False).end == wire.SUCCEEDED


def test_a_busy_function_is_interrupted(tmp_path: Path) -> None:
    """One that never looks, and catches every error, is ended in its own thread all the same."""
    begun = threading.Event()

    def busy() -> None:
        begun.set()
        while True:
            with suppress(Exception):
                sum(range(100))

    found = attempt(busy, tmp_path)
    told: list[wire.FunctionEnded] = []
    thread = threading.Thread(target=lambda: told.append(run(found)))
    thread.start()
    begun.wait()
    found.end_because("its time is over", lost=False)
    thread.join()
    assert (told[0].end, told[0].text, told[0].size) == (wire.FAILED, "it was interrupted", 0)


async def test_a_waiting_coroutine_is_cancelled(tmp_path: Path) -> None:
    """It is told at its next wait, and can clean up."""
    cleaned = False

    async def waits() -> None:
        nonlocal cleaned
        try:
            await asyncio.Event().wait()
        finally:
            cleaned = True

    found = attempt(waits, tmp_path)
    running = asyncio.ensure_future(found.run_async())
    found.coroutine = running  # type: ignore[assignment]
    await asyncio.sleep(0)
    found.end_because("it was cancelled", lost=False)
    assert (await running).text == "it was interrupted"
    assert cleaned


@pytest.mark.parametrize("waits", [False, True])
async def test_a_function_works_within_a_span(waits: bool, tmp_path: Path) -> None:
    """Its parent is where the run stands; what the function asks for goes on from it, and an error is told."""
    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    place, stood = ambient({}), list[str | None]()

    def sooner() -> None:
        stood.extend([place(), current_task().traceparent])
        raise ValueError("no good")

    async def later() -> None:
        await asyncio.sleep(0)
        sooner()

    act = act_of(later if waits else sooner)
    one = RunningAttempt(begin(traceparent=PARENT), act, tmp_path, lambda _: None, tracer=provider.get_tracer("test"))
    said = await one.run_async() if waits else run(one)
    assert said.text == "ValueError: no good"
    (span,) = kept.get_finished_spans()
    assert (span.name, span.parent and span.parent.span_id) == ("f", int("b" * 16, 16))
    assert span.status.status_code is StatusCode.ERROR
    assert stood == [f"00-{'a' * 32}-{span.context.span_id:016x}-01", PARENT]


def test_without_opentelemetry_a_function_still_goes_on_in_its_trace(tmp_path: Path) -> None:
    """What it asks for stands where its run does; the next attempt in the thread knows nothing of it."""
    place, stood = ambient({}), list[str | None]()
    ended(lambda: stood.append(place()), tmp_path, traceparent=PARENT)
    ended(lambda: stood.append(place()), tmp_path)
    assert stood == [PARENT, None]


def test_a_function_that_is_to_end_before_it_begins_does_not_begin(tmp_path: Path) -> None:
    """Its thread may begin it a moment after it was told to end: then nobody would interrupt it."""
    begun: list[int] = []
    found = attempt(lambda: begun.append(1), tmp_path)
    found.end_because("it was cancelled", lost=False)
    said = run(found)
    assert (said.end, said.text, begun) == (wire.FAILED, "it was interrupted", [])
