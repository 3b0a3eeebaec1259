"""Jobs of APScheduler 3. The pickles are what the library itself has written, of each version that keeps zones else."""

import base64
import json
import pickle
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.translators.entries import only, said, why_left_out, why_refused
from tokimori.clock import format_moment, parse_moment
from tokimori.errors import InvalidInput
from tokimori.model.job import schedule_of
from tokimori.schedules.schedule import next_moments
from tokimori.translators.apscheduler import read_apscheduler, read_trigger
from tokimori.translators.inert_pickle import Record

JOBS: Mapping[str, Mapping[str, str]] = json.loads(Path(__file__).with_name("apscheduler_jobs.json").read_text())
PYTZ, ZONEINFO, OLD = "3.10, pytz", "3.11, zoneinfo", "3.11, UTC, protocol 2"
NOW = parse_moment("2026-06-01T00:00:00Z")
STATE: dict[str, Any] = {
    "version": 1,
    "id": "a",
    "func": "shop:send",
    "trigger": None,
    "executor": "default",
    "args": (),
    "kwargs": {},
    "name": "send",
    "misfire_grace_time": 1,
    "coalesce": True,
    "max_instances": 1,
    "next_run_time": 1,
}


def row(job_id: str, kind: str = PYTZ) -> dict[str, object]:
    """A row as the library has written it."""
    return {"id": job_id, "next_run_time": None, "job_state": base64.b64decode(JOBS[kind][job_id])}


def state(**changes: object) -> dict[str, object]:
    """A row with this state."""
    return {"id": "a", "job_state": pickle.dumps({**STATE, **changes})}


def changed(**changes: object) -> dict[str, object]:
    """A row of the library with other values in its state, set behind it: a dict takes the last one."""
    whole = base64.b64decode(JOBS[ZONEINFO]["zi-date"])
    pairs = (pickle.dumps(each, 2)[2:-1] for pair in changes.items() for each in pair)
    steps = b"".join(name + value + b"s" for name, value in zip(pairs, pairs, strict=True))
    return {"id": "a", "job_state": whole[:-1] + steps + b"."}


@pytest.mark.parametrize(
    ("job_id", "fields"),
    [
        (
            "nightly",
            {
                "schedule": "*/20 2-4 * * *",
                "name": "Nightly report",
                "payload": '{"day":"mon","to":["ann",1,null,true]}',
                "grace": 1.0,
                "max_running": 1,
                "function": "jobs_mod:report",
                "time_zone": "Europe/Berlin",
            },
        ),
        ("friday-13", {"schedule": "0 9 13 * * except 0 9 * * 0-4,6"}),
        ("month-end", {"schedule": "0 0 L * *", "jitter": 30.0, "misfire": "all", "max_running": 3}),
        (
            "patch-tuesday",
            {"schedule": "0 5 * * 2#2", "starts_at": "2030-01-01T00:00:00", "ends_at": "2031-01-01T12:00:00"},
        ),
        ("last-sunday", {"schedule": "0 5 * * 0L"}),
        ("years", {"schedule": "5,10 * * 1,4,7,10 1,3 * 2030-2031"}),
        ("every90", {"schedule": "R/2026-01-01T00:00:00/PT5400S"}),
        ("once", {"schedule": "at 2035-06-01T12:30:00"}),
        ("one-arg", {"payload": '"only"', "function": "jobs_mod:K.run"}),
        ("two times", {"schedule": "0 1 * * *; 5 13 * * *"}),
        ("a-date", {"payload": '{"to":"2030-01-01T00:00:00"}'}),
        ("a-length", {"payload": '{"to":86400.0}'}),
    ],
)
def test_every_trigger_and_policy_has_its_field(job_id: str, fields: dict[str, object]) -> None:
    """A job of the real library has the schedule, the arguments and the policies that it had there."""
    job = only(read_apscheduler([row(job_id)], NOW))
    assert job.job_id == job_id.replace(" ", "_")
    assert {name: said(job).get(name) for name in fields} == fields


def test_no_grace_is_no_grace() -> None:
    """`misfire_grace_time=None` lets a run be as late as it is."""
    assert "grace" not in said(only(read_apscheduler([row("month-end")], NOW)))


def test_fridays_the_thirteenth() -> None:
    """APScheduler asks for both fields, and so does the schedule here."""
    definition = only(read_apscheduler([row("friday-13")], NOW)).definition
    now = parse_moment("2026-01-01T00:00:00Z")
    found = [format_moment(each)[:10] for each in next_moments(schedule_of(definition, now), now, 3)]
    assert found == ["2026-02-13", "2026-03-13", "2026-11-13"]


@pytest.mark.parametrize(
    ("kind", "job_id", "zone", "schedule"),
    [
        (ZONEINFO, "zi-cron", "Europe/Berlin", "0 3 * * *"),
        (ZONEINFO, "zi-interval", "Europe/Berlin", "R/2026-01-01T00:00:00/PT5400S"),
        (ZONEINFO, "zi-date", "Europe/Berlin", "at 2035-06-01T12:30:00"),
        (OLD, "every90", "UTC", "R/2026-01-01T00:00:00/PT5400S"),
        (OLD, "once", "UTC", "at 2035-06-01T12:30:00"),
    ],
)
def test_zones_of_each_library_and_protocol(kind: str, job_id: str, zone: str, schedule: str) -> None:
    """Zones of pytz, of zoneinfo and `datetime.timezone.utc` are read, by every protocol."""
    fields = said(only(read_apscheduler([row(job_id, kind)], NOW)))
    assert (fields["time_zone"], fields["schedule"]) == (zone, schedule)


def test_times_that_clocks_skip_run_later_as_there_and_those_shown_twice_run_twice() -> None:
    """In a zone whose clocks jump; in UTC nothing is said."""
    found = [
        only(read_apscheduler([row(job_id, kind)], NOW)).definition
        for kind, job_id in ((ZONEINFO, "zi-cron"), (OLD, "patch-tuesday"), (ZONEINFO, "zi-interval"))
    ]
    assert [(each.gap, each.fold) for each in found] == [("later", "both"), ("shift", "first"), ("shift", "first")]


def test_a_paused_job_comes_in_paused() -> None:
    """A job without a next time was paused."""
    assert only(read_apscheduler([row("paused")], NOW)).start.paused_because == "paused in APScheduler"
    assert only(read_apscheduler([row("every90")], NOW)).start.paused_because is None


def test_what_json_does_not_know_is_told() -> None:
    """Dates become texts, lengths become seconds, and each is told with its name and value."""
    assert "to: '2030-01-01T00:00:00'" in only(read_apscheduler([row("a-date")], NOW)).warnings[0]
    assert "to: 86400.0" in only(read_apscheduler([row("a-length")], NOW)).warnings[0]


def test_dates_and_decimals_become_texts() -> None:
    """A date without a time and a decimal number are told, too."""
    job = only(read_apscheduler([changed(kwargs={"day": date(2026, 1, 31), "price": Decimal("1.50")})], NOW))
    assert job.definition.payload == '{"day":"2026-01-31","price":"1.50"}'
    assert len(job.warnings) == 2


def test_arguments_without_names_need_them() -> None:
    """Functions here take arguments by name: an option gives the names, and without it the job is refused."""
    assert "--parameters jobs_mod:add=NAME,NAME" in why_refused(read_apscheduler([row("positional")], NOW))
    job = only(read_apscheduler([row("positional")], NOW, {"jobs_mod:add": ("x", "y")}))
    assert job.definition.payload == '{"x":1,"y":2}'


@pytest.mark.parametrize(
    ("job_id", "why"),
    [("week", "trigger.week: [1] is not allowed"), ("and", "trigger: 'combining.AndTrigger' is not allowed")],
)
def test_what_has_no_equal_is_refused(job_id: str, why: str) -> None:
    """Weeks of the year, and triggers of which all must agree, are refused by name."""
    assert why in why_refused(read_apscheduler([row(job_id)], NOW))


class _Mine:
    """An object of a program."""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 2}, "version: 2"),
        ({"version": None}, "version: None"),
        ({"id": None}, "id: None"),
        ({"func": "no colon"}, "func: 'no colon'"),
        ({"func": None}, "func: None"),
        ({"args": 5}, "args: 5"),
        ({"kwargs": [1]}, "kwargs: [1]"),
        ({"kwargs": {1: 2}}, "kwargs: 1"),
        ({"kwargs": {"a": _Mine()}}, "a: <"),
        ({"kwargs": {"a": {1: 2}}}, "a: {1: 2}"),
        ({"kwargs": {"\ud800": 1}}, r"arguments: '\ud800' is not allowed"),
        ({"args": ("\ud800",), "kwargs": {}}, r"arguments: '\ud800' is not allowed"),
        ({"kwargs": {"a": b"x"}}, "a: <_codecs.encode>"),
        ({"coalesce": None}, "coalesce: None"),
        ({"misfire_grace_time": "x"}, "grace"),
        ({"max_instances": -1}, "max_running"),
        ({"trigger": None}, "trigger: None"),
        ({"trigger": _Mine()}, "trigger: "),
    ],
)
def test_wrong_states_are_refused_by_name(changes: dict[str, object], why: str) -> None:
    """A state of another version, or with values of a wrong kind, names field and value."""
    found = state(**changes) if "trigger" in changes else changed(**changes)
    assert why in why_refused(read_apscheduler([found], NOW))


@pytest.mark.parametrize("data", [None, "text", 5, b"", b"junk", pickle.dumps(5), pickle.dumps({1: 2})])
def test_what_is_no_state_is_refused(data: object) -> None:
    """NULL, texts, and pickles of something else are refused, with the id of the row."""
    assert why_refused(read_apscheduler([{"id": "x", "job_state": data}], NOW)).startswith("apscheduler_jobs, id 'x': ")


def test_one_bad_job_stops_no_other() -> None:
    """Each row is read by itself."""
    found = list(read_apscheduler([{"id": "x", "job_state": b"junk"}, row("nightly")], NOW))
    assert [type(each).__name__ for each in found] == ["Refused", "Moved"]


def test_what_is_over_is_left_out() -> None:
    """A date that has passed, and a trigger behind its end, run there no more either."""
    late = parse_moment("2036-01-01T00:00:00Z")
    for job_id in ("once", "patch-tuesday"):
        assert "names no moment any more" in why_left_out(read_apscheduler([row(job_id)], late))


def test_what_holds_itself_is_refused() -> None:
    """A list that is in itself, and one with ten million members that are one list, are counted, not walked."""
    endless: list[object] = []
    endless.append(endless)
    doubled: list[object] = []
    for _ in range(15):
        doubled = [doubled] * 10
    for value in (endless, doubled):
        assert "holds too much" in why_refused(read_apscheduler([changed(kwargs={"a": value})], NOW))


@pytest.mark.parametrize("name", ["args", "name", "misfire_grace_time", "coalesce", "max_instances", "version", "func"])
def test_what_is_shared_without_end_is_not_written_out(name: str) -> None:
    """A pickle of a kilobyte may hold a list 2^60 times: wherever it stands it is refused, and its beginning shown."""
    doubled: object = [1]
    for _ in range(60):
        doubled = [doubled, doubled]
    value = (doubled, 1) if name == "args" else doubled
    assert why_refused(read_apscheduler([changed(**{name: value})], NOW)).startswith(
        f"apscheduler_jobs, id 'a': {name}: "
    )


def made(kind: str, /, **state: object) -> Record:
    """A trigger, or a part of one, as a pickle of anybody may say it."""
    return Record(f"apscheduler.triggers.{kind}", state=state)


ENDLESS = made("combining.OrTrigger", triggers=[])
ENDLESS.state = {"triggers": [ENDLESS]}
FAR = made("cron.expressions.RangeExpression", first=0, last=9999, step=None)
DAILY = made("cron.expressions.AllExpression", step=None)


@pytest.mark.parametrize(
    ("trigger", "why"),
    [
        (ENDLESS, "trigger.triggers: 'combining.OrTrigger'"),
        (made("cron.CronTrigger", fields=[made("f", name="hour", expressions=[FAR])]), "trigger.hour: '0-9999'"),
        (made("cron.CronTrigger", fields=[made("f", name="hour", expressions=[DAILY] * 101)]), "trigger.hour: "),
        (made("cron.CronTrigger", fields=[made("f", name="hour", expressions=[DAILY])] * 9), "trigger.fields: "),
    ],
)
def test_a_trigger_without_end_is_refused(trigger: Record, why: str) -> None:
    """What is in itself, or shared a million times, is neither walked through nor counted out."""
    with pytest.raises(InvalidInput, match=why):
        read_trigger(trigger)
