"""Whatever a program gives to a method, wrong or right: no error of Python's, of a driver's or of a library's.

The methods and their arguments are found, not listed: one that is added is tried too.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import PurePosixPath
from typing import TypedDict
from zoneinfo import ZoneInfo

import pytest

from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.clock import parse_moment
from tokimori.errors import InvalidInput, TokimoriError
from tokimori.ports.store import RunFilter
from tokimori.service.definitions.arguments import (
    CalendarArguments,
    JobArguments,
    JobFilters,
    RequestArguments,
    RunFilters,
)
from tokimori.service.definitions.definitions import definition_from
from tokimori.service.operation import members_in
from tokimori.service.service import PARTS as ALL_PARTS

PARTS = (
    "jobs",
    "runs",
    "schedules",
    "sets",
    "nodes",
    "db",
    "calendars",
    "channels",
    "expectations",
    "queues",
    "semaphores",
)


class NoMore(TypedDict):
    """Fields that are tried at another method."""


ARGUMENTS: dict[str, type] = {
    "add": JobArguments,
    "add_since": NoMore,
    "update": JobArguments,
    "trigger": RequestArguments,
    "request": RequestArguments,
}
RIGHT: dict[str, object] = {
    "since": "2026-01-01T00:00:00Z",
    "first": "2026-01-01T00:00:00Z",
    "last": "2026-01-01T00:00:00Z",
    "text": "0 3 * * *",
    "wanted": RunFilter(),
    "said": {},
    "jobs": [("z", definition_from({"noop": True}))],
    "declared": {"z": {"noop": True}},
    "runs": [],
    "requests": [{}],
    "job_ids": ["j"],
    "url": "memory:",
    "limit": 1,
    "within": 60,
    "author": None,
    "confirm": "not all",
    "new_id": "k",
    "queue": "q",
    "topic": "t",
    "message": {},
    "number": 1,
    "verb": "resume",
}
FIELDS = {"job_id": "id", "run_id": "run", "queue": "queue", "new_id": "id", "node_id": "node"}
"""What the field of an error is called where it is not the argument's name."""
WRONG = (object(), b"j", [object()], {"a": object()}, datetime(2030, 1, 1), 10**30, float("nan"))
LEAKS = re.compile(r"Expected `|not supported between|has no attribute|is not iterable|NoneType|\bobject expected\b")


@pytest.fixture
def client() -> Iterator[Client]:
    """One with a job, a calendar and a run."""
    with open_client("memory:") as opened:
        opened.jobs.add("j", noop=True, schedule="0 3 * * *")
        opened.calendars.add("c", dates=["12-25"])
        opened.expectations.set("c", 60)
        yield opened


def run_of(client: Client) -> str:
    """The id of a run that nobody executes."""
    return client.jobs.trigger("j", key="the one").id


def calls(client: Client) -> Iterator[tuple[str, Callable[..., object], dict[str, object], str]]:
    """Each argument of each method: (shown name, method, right values for those it needs, name of the argument)."""
    parts = {kind.noun: kind for kind in ALL_PARTS}
    for part in ("", *PARTS):
        behind = getattr(client, part) if part else client
        members = ("acting_as", "copy_to") if behind is client else members_in(parts[part])
        for name in members:
            method = getattr(behind, name)
            named = {"name": "c", "job_id": "j", "run_id": run_of(client), **RIGHT}
            given = inspect.signature(method).parameters.values()
            needs = {
                each.name: named.get(each.name, run_of(client))
                for each in given
                if each.default is each.empty and each.kind is not each.VAR_KEYWORD
            }
            needs |= {"noop": True} if name in ("add", "add_since") and part == "jobs" else {}
            filters = {"jobs.list": JobFilters, "runs.list": RunFilters}.get(f"{part}.{name}", JobArguments)
            kinds = CalendarArguments if part == "calendars" else ARGUMENTS.get(name, filters)
            for each in given:
                names = kinds.__annotations__ if each.kind is each.VAR_KEYWORD else (each.name,)
                yield from ((f"{part}.{name}({arg})", method, needs, arg) for arg in names)


def called(method: Callable[..., object], arguments: dict[str, object]) -> object:
    """Call the method: arguments that can only be given by their place, are."""
    places = [
        arguments.pop(each.name)
        for each in inspect.signature(method).parameters.values()
        if each.kind is each.POSITIONAL_ONLY and each.name in arguments
    ]
    result = method(*places, **arguments)
    return next(result) if isinstance(result, Iterator) else result


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_every_argument_of_every_method_is_checked(client: Client, wrong: object) -> None:
    """A wrong value is an error of ours, in our words; an object of no kind at all is always refused, by its field."""
    for shown, method, needs, argument in list(calls(client)):
        try:
            called(method, {**needs, argument: wrong})
        except TokimoriError as error:
            assert not LEAKS.search(f"{error.message} {error.allowed}"), shown
            if type(wrong) is object:
                assert isinstance(error, InvalidInput), shown
                assert error.field in (argument, FIELDS.get(argument), "calendar", "semaphore", "set"), shown
                assert error.value is wrong, shown
                assert error.allowed, shown
        else:
            assert type(wrong) is not object, shown


def test_what_is_tried_is_everything(client: Client) -> None:
    """The search above finds the methods: nobody has made it look at nothing."""
    tried = {shown for shown, *_ in calls(client)}
    assert len(tried) > 150
    assert {
        "jobs.trigger(at)",
        "jobs.backfill(last)",
        "jobs.add(retention)",
        "queues.pause(reason)",
        "calendars.add(dates)",
    } <= tried


@pytest.mark.parametrize(
    "at",
    [
        datetime(2030, 1, 1, 8, tzinfo=UTC),
        datetime(2030, 1, 1, 9, tzinfo=ZoneInfo("Europe/Paris")),
        "2030-01-01T08:00:00Z",
        "2030-01-01T09:00:00+01:00",
        "2030-01-01T08:00:00",
        parse_moment("2030-01-01T08:00:00Z"),
    ],
    ids=repr,
)
def test_a_moment_is_said_in_any_way(client: Client, at: datetime | str) -> None:
    """An aware datetime of any zone, a text with an offset or in the job's zone, or microseconds."""
    there = datetime(2030, 1, 1, 8, tzinfo=UTC)
    assert client.jobs.trigger("j", at=at).due == there
    assert client.jobs.next("j", 1, at) == [there + timedelta(hours=19)]
    explained = client.schedules.explain("0 3 * * *", n=1, after=at)
    assert client.schedules.upcoming(1, at)[0].time == explained.moments[0].time
    assert client.jobs.explain("j", 1, at).moments == explained.moments
    looked = client.jobs.backfill("j", at, at, dry_run=True)
    assert (looked.first, client.jobs.cancel_backfill("j", at, at).last) == (there, there)


def test_a_datetime_without_zone_is_refused(client: Client) -> None:
    """It may be any of many moments, so nothing is guessed."""
    with pytest.raises(InvalidInput, match=r"at: .* has no time zone") as caught:
        client.jobs.trigger("j", at=datetime(2030, 1, 1))
    assert caught.value.field == "at"
    assert "aware datetime" in str(caught.value.allowed)


def test_a_length_of_time_is_seconds_or_a_timedelta(client: Client) -> None:
    """In every field of a job and of a request, within `retry` too."""
    minute = timedelta(minutes=1)
    job = client.jobs.update(
        "j",
        delay=minute,
        late_after=minute,
        timeout=minute,
        retry={"attempts": 2, "delay": minute, "cap": minute},
        retention=timedelta(days=2, seconds=1.5),
    )
    assert [job.delay, job.late_after, job.timeout, job.retry.delay, job.retry.cap] == [minute] * 5
    assert job.retention == "PT172801.5S"
    run = client.jobs.trigger("j", "k", debounce=minute)
    assert run.due - run.created == minute
    assert client.jobs.request("j", "t", throttle=minute).id == client.jobs.request("j", "t", throttle=60).id


def test_what_a_python_program_has_is_taken(client: Client) -> None:
    """Paths, zones, aware datetimes, days and sets."""
    paris = ZoneInfo("Europe/Paris")
    job = client.jobs.add(
        "k",
        schedule="0 3 * * *",
        command=[PurePosixPath("/bin/true"), "x"],
        cwd=PurePosixPath("/srv"),
        time_zone=paris,
        starts_at=datetime(2030, 1, 1, tzinfo=paris),
    )
    assert (job.time_zone, job.starts_at) == ("Europe/Paris", "2030-01-01T00:00:00+01:00")
    assert (job.command, job.cwd) == (("/bin/true", "x"), "/srv")
    assert client.calendars.update("c", dates=[date(2030, 5, 1), "12-25"]).dates == ("2030-05-01", "12-25")
    with client.mutex("m", wait=timedelta(seconds=1)) as held:
        assert held.token == 1


def test_a_dict_as_payload_is_written_as_json(client: Client) -> None:
    """As is a list; what JSON can't hold is refused, and says what it is."""
    assert (
        client.jobs.trigger("j", payload={"to": ["ann", "jürgen"], "n": 1}).payload == '{"to":["ann","jürgen"],"n":1}'
    )
    assert client.jobs.trigger("j", payload=[1, None]).payload == "[1,null]"
    itself: list[object] = []
    itself.append(itself)
    for bad in ({"a": {1, 2}}, {"a": float("nan")}, {(1, 2): 3}, itself):
        with pytest.raises(InvalidInput, match="JSON can't hold") as caught:
            client.jobs.trigger("j", payload=bad)  # type: ignore[arg-type]
        assert (caught.value.field, bool(caught.value.allowed)) == ("payload", True)


def test_runs_are_filtered_by_texts(client: Client) -> None:
    """A state is a word or several; one that is none is named."""
    run = client.jobs.trigger("j")
    assert client.runs.list(state="ready").runs == [run]
    for states in ("redy", ["redy"]):
        with pytest.raises(InvalidInput) as caught:
            client.runs.list(state=states)
        assert caught.value.field == "state"


def test_locks_check_what_they_are_given(client: Client) -> None:
    """On entering: units that are no whole number, a time that is none, and what can't be called."""
    for name, wrong in (("limit", True), ("weight", None), ("weight", "2"), ("wait", "soon"), ("on_lost", 5)):
        with pytest.raises(InvalidInput) as caught, client.semaphore("m", **{name: wrong}):  # type: ignore[arg-type]
            raise AssertionError(name)
        assert (caught.value.field, caught.value.value) == (name, wrong)


@pytest.mark.parametrize("name", ["url", "time_zone", "author", "semaphore_store"])
def test_opening_checks_what_it_is_given(name: str) -> None:
    """By the name of the argument."""
    with pytest.raises(InvalidInput) as caught:
        open_client(**{"url": "memory:", name: 5})  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.value) == (name, 5)
