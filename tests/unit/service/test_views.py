"""The JSON that every door prints."""

import os
from datetime import timedelta
from typing import get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_run, seconds
from tests.unit.schedules.texts import coarse, edges, modes, zones
from tests.unit.service.world import NODE, ON_DEMAND
from tokimori.clock import Moment, format_moment, parse_moment
from tokimori.errors import AlreadyExists, InvalidInput, InvalidSchedule, TokimoriError
from tokimori.model.ids import JobId, RunId, new_incarnation
from tokimori.model.run import Output, Skip, SkipReason
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.schedules.business_days import Shift
from tokimori.schedules.days_off import parse_days_off
from tokimori.schedules.explain import explain
from tokimori.schedules.schedule import Fold, Gap
from tokimori.service.definitions.definitions import LENGTHS, JobFields, definition_from
from tokimori.service.definitions.edits import new_job
from tokimori.service.runs.runs import RunDetails
from tokimori.service.views.errors import error_body
from tokimori.service.views.jobs import Job, JobNotifier, JobRetry
from tokimori.service.views.jobs import Skip as SkipView
from tokimori.service.views.nodes import NodeRecord as NodeView
from tokimori.service.views.outside import Length, as_json
from tokimori.service.views.runs import OutputText, Run
from tokimori.service.views.runs import RunDetails as RunDetailsView
from tokimori.service.views.schedules import Explanation, LocalMoment


def printed(view: msgspec.Struct) -> dict[str, object]:
    """The view as JSON, read back."""
    read: dict[str, object] = msgspec.json.decode(as_json(view))
    return read


def test_what_a_job_shows_can_be_sent_back() -> None:
    """The fields of a shown job are those that a door accepts, defaults included."""
    definition = definition_from({"command": ["make", "report"], "schedule": "0 3 * * *", "env": {"A": "1"}})
    job = new_job(JobId("j"), definition, new_incarnation(os.urandom), NEW_YEAR)
    shown = printed(Job.made(job, next_times=[seconds(60)]))
    assert definition_from({name: shown[name] for name in JobFields.__struct_fields__}) == definition
    assert (shown["id"], shown["state"], shown["created"]) == ("j", "enabled", "2030-01-01T00:00:00Z")
    assert shown["next_due"] == "2030-01-01T03:00:00Z"
    assert shown["next_times"] == ["2030-01-01T00:01:00Z"]


def test_every_length_of_a_job_is_a_timedelta() -> None:
    """A program gets all fields of a job that say seconds as timedeltas, those within others too."""
    within = {"": get_type_hints(Job), "retry": get_type_hints(JobRetry), "notifier": get_type_hints(JobNotifier)}
    for path in LENGTHS:
        field, _, name = path.rpartition(".")
        assert Length in (within[field][name], *get_args(within[field][name])), path


def test_json_has_the_lengths_of_a_job_as_they_were_typed() -> None:
    """A number of seconds is the same number in JSON, whole or not, however small; a default is left out as ever."""
    fields = {
        "noop": True,
        "delay": 0.1000000001,
        "timeout": 60,
        "notifier": {"subject": "late"},
        "retry": {"cap": 2.5},
    }
    job = Job.made(new_job(JobId("notifier:j"), definition_from(fields), new_incarnation(os.urandom), NEW_YEAR))
    assert (job.delay, job.timeout, job.retry.cap) == tuple(timedelta(seconds=each) for each in (0.1, 60, 2.5))
    for text in (b'"delay":0.1000000001,', b'"late_after":60,', b'"timeout":60.0,', b'"notifier":{"subject":"late"}'):
        assert text in as_json(job)


def test_next_times_and_attempts_are_only_where_they_were_asked_for() -> None:
    """An absent list is not an empty one."""
    job = new_job(JobId("j"), ON_DEMAND, new_incarnation(os.urandom), NEW_YEAR)
    assert "next_times" not in printed(Job.made(job))
    assert printed(Job.made(job, next_times=[]))["next_times"] == []
    assert "attempts" not in printed(Run.made(a_run()))
    details = RunDetails(run=a_run(), attempts=(), time_zone="UTC")
    assert printed(RunDetailsView.made(details))["attempts"] == []


def test_moments_are_rfc_3339_and_states_are_words() -> None:
    """In runs, skips and nodes alike."""
    run = printed(Run.made(a_run(started=seconds(0.5))))
    assert (run["state"], run["started"], run["ended"]) == ("running", "2030-01-01T00:00:00.500000Z", None)
    skip = Skip(first=NEW_YEAR, last=seconds(60), count=2, reason=SkipReason.MISFIRE)
    assert printed(SkipView.made(skip)) == {
        "first": "2030-01-01T00:00:00Z",
        "last": "2030-01-01T00:01:00Z",
        "count": 2,
        "reason": "misfire",
    }
    node = NodeRecord(
        id=NODE, host="h", boot_id="b", pid=1, concurrency=1, version="0", started=NEW_YEAR, state=NodeState.ALIVE
    )
    assert (printed(NodeView.made(node))["state"], printed(NodeView.made(node))["left"]) == ("alive", None)


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    """Replaced, not refused."""
    output = Output(run_id=RunId("r"), attempt=1, size=2, head=b"a\xff")
    assert printed(OutputText.made(output))["head"] == "a�"


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
    assert printed(error_body(error)) == {"error": shown}


def test_a_wrong_text_of_a_megabyte_is_not_told_whole() -> None:
    """Of what is long an error tells the beginning, of its message the end, too; what raised it still has the value."""
    text = "\0" * 1_000_000
    error = InvalidInput(f"label: {text!r} is no label", field="label", value=text)
    shown = error_body(error).error
    assert len(shown.message) < 16_100
    assert shown.message.startswith("label: '\\x00")
    assert shown.message.endswith("is no label")
    assert shown.value == text[:1000] + "…"
    assert (error.value, str(error)) == (text, error.message)


@pytest.mark.parametrize(
    ("blocked_on", "words"),
    [(None, "max_running"), ("key", "key 'tenant'"), ("semaphore:api", "units of the semaphore api")],
)
def test_a_blocked_run_says_what_it_waits_for(blocked_on: str | None, words: str) -> None:
    """In words, with the name of the semaphore or the key; any other run waits for nothing."""
    blocked = a_run(state=RunState.BLOCKED, blocked_on=blocked_on, concurrency_key="tenant")
    assert words in str(printed(Run.made(blocked))["waits_for"])
    assert printed(Run.made(a_run()))["waits_for"] is None


@given(coarse, zones, modes, edges, st.sampled_from([None, *Shift]))
def test_the_first_and_last_moments_of_time_are_shown(
    text: str, zone: str, mode: tuple[Gap, Fold], after: Moment, shift: Shift | None
) -> None:
    """Explained near year 1 or 9999, whatever the zone's clocks show there, a schedule is printed or refused."""
    days_off = parse_days_off(["01-01", "12-26"], ["sun"])
    try:
        found = explain(text, zone=zone, after=after, n=3, gap=mode[0], fold=mode[1], days_off=days_off, shift=shift)
    except InvalidSchedule:
        return
    shown = printed(Explanation.made(found))["moments"]
    assert isinstance(shown, list)
    assert [moment["time"] for moment in shown] == [format_moment(moment) for moment in found.moments]


def test_a_moment_before_the_first_that_clocks_show_is_shown_in_utc() -> None:
    """Where it is still the year 0 there is no other way to write it."""
    first = parse_moment("0001-01-01T00:01:00Z")
    local = {LocalMoment.on(first, zone).local for zone in ("America/New_York", "UTC")}
    assert local == {"0001-01-01T00:01:00+00:00"}
    assert LocalMoment.on(first, "Asia/Tokyo").local == "0001-01-01T09:19:59+09:18:59"
