"""What a function says of its run: the first word counts, and none counts once the claim is lost."""

from collections.abc import Callable
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.apps.tasks import NOMINAL, a_facts, a_task
from tokimori.apps.task import MOST_PROGRESS, Finished, Task, TaskNotes, current_task, take_in_hand
from tokimori.clock import parse_moment
from tokimori.errors import ClaimLost, InvalidInput, Refused
from tokimori.executors.reported import MOST_TEXT
from tokimori.model.outcome import Failed, Hold, Released, RetryAt, RetryIn

WORDS: list[tuple[Callable[[Task], None], object]] = [
    (lambda task: task.finish({"a": 1}), Finished({"a": 1})),
    (lambda task: task.fail("no"), Failed("no")),
    (lambda task: task.retry(), RetryIn(None)),
    (lambda task: task.retry(after=0), RetryIn(0)),
    (lambda task: task.retry(after=3), RetryIn(3)),
    (lambda task: task.retry(after=timedelta(minutes=1)), RetryIn(60.0)),
    (lambda task: task.retry(at=datetime(2030, 1, 1, tzinfo=UTC)), RetryAt(parse_moment("2030-01-01T00:00:00Z"))),
    (lambda task: task.release(), Released("the function released it", asked=True)),
    (lambda task: task.hold("look"), Hold("look")),
]


@pytest.mark.parametrize(("word", "end"), WORDS)
def test_the_first_word_counts(word: Callable[[Task], None], end: object) -> None:
    """Whatever is said afterwards changes nothing, and saying it twice is harmless."""
    task = a_task()
    word(task)
    task.finish("later")
    task.fail("later still")
    word(task)
    assert task.end() == end


@pytest.mark.parametrize(
    "word",
    [each for each, _ in WORDS] + [Task.heartbeat, lambda task: task.progress(0.5), lambda task: task.checkpoint(1)],
)
def test_a_lost_claim_changes_nothing(word: Callable[[Task], None]) -> None:
    """Once the run is somebody else's, every word raises `ClaimLost`, and nothing is said."""
    task = a_task()
    task.end_because("it is no longer its node's", lost=True)
    with pytest.raises(ClaimLost, match="no longer"):
        word(task)
    assert task.end() is None
    assert task.cancelled


def test_an_order_to_end_is_seen() -> None:
    """A function that looks sees that it is to end; what it says still counts for its run."""
    task = a_task()
    seen = [task.cancelled]
    task.end_because("its time is over", lost=False)
    seen.append(task.cancelled)
    assert seen == [False, True]
    task.heartbeat()


def test_what_is_no_retry_is_refused() -> None:
    """Both a span and a moment, a moment without a zone, a span below nothing: the field is named."""
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"after": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "at"),
        ({"at": datetime(2030, 1, 1)}, "at"),
        ({"after": -1}, "after"),
    ]
    for wrong, field in wrongs:
        with pytest.raises(InvalidInput) as caught:
            a_task().retry(**wrong)
        assert caught.value.field == field


def test_data_is_the_payload_as_json() -> None:
    """JSON is read; what is none is the text itself."""
    assert [a_task(text).data for text in (None, '{"a":[1]}', "plain")] == [None, {"a": [1]}, "plain"]


def test_its_moments_are_datetimes_in_utc() -> None:
    """A function gets datetimes, whatever they are kept as; without a time-out there is no deadline."""
    task = Task(replace(a_facts(), deadline=parse_moment("2030-01-01T00:01:00Z")), lambda _: None)
    assert (task.scheduled_at, task.due_at, a_task().deadline) == (NOMINAL, NOMINAL, None)
    assert task.deadline == NOMINAL + timedelta(minutes=1)


def test_progress_and_lines_go_to_the_output() -> None:
    """Each is a line."""
    written: list[str] = []
    task = a_task(written=written)
    task.progress(0.4, "loading")
    task.log(3)
    assert written == ["40% loading\n", "3\n"]
    with pytest.raises(InvalidInput, match="out of range"):
        task.progress(2)


def test_outside_of_a_run_no_task_is_in_hand() -> None:
    """`current_task` says so; within a run it is that run's."""
    with pytest.raises(Refused, match="no task is running here"):
        current_task()
    task = a_task()

    def within() -> Task:
        take_in_hand(task)
        return current_task()

    assert copy_context().run(within) is task


def test_what_is_told_is_all_that_was_told() -> None:
    """Each word goes with the others; whoever asks gets the newest checkpoint, else that of an earlier attempt."""
    told: list[TaskNotes] = []
    task = Task(replace(a_facts(), checkpoint='{"page":1}'), lambda _: None, told.append)
    assert task.checkpointed == {"page": 1}
    task.checkpoint({"page": 2})
    task.progress(0.5, "ha\0lf" + "x" * MOST_PROGRESS)
    assert task.checkpointed == {"page": 2}
    assert told[0] == TaskNotes(checkpoint='{"page":2}')
    assert told[1] == TaskNotes(
        progress=0.5, text=("ha\\0lf" + "x" * MOST_PROGRESS)[:MOST_PROGRESS], checkpoint='{"page":2}'
    )
    assert a_task().checkpointed is None


@pytest.mark.parametrize("data", [object(), "x" * MOST_TEXT, "a\0"], ids=["no JSON", "too large", "NUL"])
def test_what_can_not_be_kept_is_refused(data: object) -> None:
    """The function hears it at once, and nothing is told."""
    told: list[TaskNotes] = []
    with pytest.raises(InvalidInput) as fault:
        Task(a_facts(), lambda _: None, told.append).checkpoint(data)
    assert (fault.value.field, told) == ("checkpoint", [])
