"""The JSON that every door prints."""

import os

import msgspec
import pytest

from tests.unit.examples import NEW_YEAR, a_run, seconds
from tests.unit.service.world import NODE, ON_DEMAND
from tokimori.errors import AlreadyExists, InvalidInput, TokimoriError
from tokimori.model.ids import JobId, RunId, new_incarnation
from tokimori.model.run import Output, Skip, SkipReason
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.service.definitions import JobFields, definition_from
from tokimori.service.edits import new_job
from tokimori.service.views.errors import error_view
from tokimori.service.views.jobs import job_view, skip_view
from tokimori.service.views.nodes import node_view
from tokimori.service.views.runs import output_view, run_view


def printed(view: msgspec.Struct) -> dict[str, object]:
    """The view as JSON, read back."""
    read: dict[str, object] = msgspec.json.decode(msgspec.json.encode(view))
    return read


def test_what_a_job_shows_can_be_sent_back() -> None:
    """The fields of a shown job are those that a door accepts, defaults included."""
    definition = definition_from({"command": ["make", "report"], "schedule": "0 3 * * *", "env": {"A": "1"}})
    shown = printed(job_view(new_job(JobId("j"), definition, new_incarnation(os.urandom), NEW_YEAR), [seconds(60)]))
    assert definition_from({name: shown[name] for name in JobFields.__struct_fields__}) == definition
    assert (shown["id"], shown["state"], shown["created"]) == ("j", "enabled", "2030-01-01T00:00:00Z")
    assert shown["next_due"] == "2030-01-01T03:00:00Z"
    assert shown["next_times"] == ["2030-01-01T00:01:00Z"]


def test_next_times_and_attempts_are_only_where_they_were_asked_for() -> None:
    """An absent list is not an empty one."""
    job = new_job(JobId("j"), ON_DEMAND, new_incarnation(os.urandom), NEW_YEAR)
    assert "next_times" not in printed(job_view(job))
    assert printed(job_view(job, []))["next_times"] == []
    assert "attempts" not in printed(run_view(a_run()))
    assert printed(run_view(a_run(), []))["attempts"] == []


def test_moments_are_rfc_3339_and_states_are_words() -> None:
    """In runs, skips and nodes alike."""
    run = printed(run_view(a_run(started=seconds(0.5))))
    assert (run["state"], run["started"], run["ended"]) == ("running", "2030-01-01T00:00:00.500000Z", None)
    skip = Skip(first=NEW_YEAR, last=seconds(60), count=2, reason=SkipReason.MISFIRE)
    assert printed(skip_view(skip)) == {
        "first": "2030-01-01T00:00:00Z",
        "last": "2030-01-01T00:01:00Z",
        "count": 2,
        "reason": "misfire",
    }
    node = NodeRecord(
        id=NODE, host="h", boot_id="b", pid=1, concurrency=1, version="0", started=NEW_YEAR, state=NodeState.ALIVE
    )
    assert (printed(node_view(node))["state"], printed(node_view(node))["left"]) == ("alive", None)


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    """Replaced, not refused."""
    output = Output(run_id=RunId("r"), attempt=1, size=2, head=b"a\xff")
    assert printed(output_view(output))["head"] == "a�"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (
            InvalidInput("m", field="f", value=3, allowed="1..2"),
            {"code": "invalid_input", "message": "m", "field": "f", "value": 3, "allowed": "1..2"},
        ),
        (
            AlreadyExists("m", value=(1, 2)),
            {"code": "already_exists", "message": "m", "field": None, "value": "(1, 2)", "allowed": None},
        ),
    ],
)
def test_an_error_has_one_shape(error: TokimoriError, shown: dict[str, object]) -> None:
    """Every key is always there; a value that JSON has no form for is a text."""
    assert printed(error_view(error)) == {"error": shown}


@pytest.mark.parametrize(
    ("blocked_on", "words"),
    [(None, "max_running"), ("key", "key 'tenant'"), ("semaphore:api", "units of the semaphore api")],
)
def test_a_blocked_run_says_what_it_waits_for(blocked_on: str | None, words: str) -> None:
    """In words, with the name of the semaphore or the key; any other run waits for nothing."""
    blocked = a_run(state=RunState.BLOCKED, blocked_on=blocked_on, concurrency_key="tenant")
    assert words in str(printed(run_view(blocked))["waits_for"])
    assert printed(run_view(a_run()))["waits_for"] is None
