"""Periodic tasks of Celery beat."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from tests.unit.translators.entries import only, said, why_left_out, why_refused
from tokimori.clock import HOUR, SECOND, Moment, parse_moment
from tokimori.model.job import schedule_of
from tokimori.schedules.schedule import each_moment
from tokimori.schedules.zones import on_clocks, zone_info
from tokimori.translators.celery import beat_of, read_beat_schedule, read_celery
from tokimori.translators.entries import Entry

NOW = parse_moment("2026-06-01T00:00:00Z")
TASK: dict[str, object] = {
    "id": 1,
    "name": "Send mails",
    "task": "shop.tasks.send",
    "args": "[]",
    "kwargs": '{"to": "ann"}',
    "queue": None,
    "exchange": None,
    "routing_key": None,
    "headers": "{}",
    "priority": None,
    "expires": None,
    "expire_seconds": None,
    "enabled": True,
    "one_off": False,
    "start_time": None,
    "last_run_at": "2026-01-01 00:00:00",
    "total_run_count": 3,
    "date_changed": "2026-01-01 00:00:00",
    "description": "",
    "crontab_id": 1,
    "interval_id": None,
    "solar_id": None,
    "clocked_id": None,
}
CRONTAB = {
    "id": 1,
    "minute": "*/15",
    "hour": "8-18",
    "day_of_month": "*",
    "month_of_year": "*",
    "day_of_week": "mon-fri",
    "timezone": "Europe/Paris",
}
INTERVAL = {"id": 1, "every": 10, "period": "minutes"}


def read(task: dict[str, object], **others: dict[str, object]) -> Iterable[Entry]:
    """The job of a task, with rows of its schedules."""
    rows = {"crontab": [CRONTAB], "interval": [INTERVAL], **{kind: [row] for kind, row in others.items()}}
    return read_celery([{**TASK, **task}], rows, NOW)


BY_INTERVAL: dict[str, object] = {"crontab_id": None, "interval_id": 1}


def test_an_interval_goes_on_from_when_beat_sent_it_last() -> None:
    """The next run comes an interval after it, and not an interval after the move; a crontab needs none."""
    assert only(read(BY_INTERVAL)).start.since == parse_moment("2026-01-01T00:00:00Z")
    assert only(read({**BY_INTERVAL, "last_run_at": None})).start.since is None
    assert only(read({})).start.since is None


def test_a_task_with_a_crontab() -> None:
    """The name is the id, the task a function, and every field of the crontab must match."""
    job = only(read({}))
    assert job.job_id == "Send_mails"
    assert said(job) == {
        "name": "Send mails",
        "function": "shop.tasks:send",
        "payload": '{"to":"ann"}',
        "schedule": "*/15 8-18 * * 1-5",
        "time_zone": "Europe/Paris",
        "gap": "later",
        "fold": "both",
        "max_running": 0,
    }
    assert (job.warnings, job.start.paused_because, job.runs_remaining) == ((), None, None)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        (BY_INTERVAL, {"schedule": "every 10 minutes", "anchored_on": "last run"}),
        ({"queue": "mail"}, {"queue": "mail"}),
        ({"priority": 7}, {"priority": 7}),
        ({"description": "of the day"}, {"description": "of the day"}),
        ({"expire_seconds": 30}, {"grace": 30.0}),
        ({"expires": "2031-01-01 00:00:00"}, {"ends_at": "2031-01-01T00:00:00Z"}),
        ({"time_limit": 30}, {"timeout": 30.0}),
        ({"soft_time_limit": 20, "time_limit": 30}, {"timeout": 20.0, "timeout_grace": 10.0}),
        ({"soft_time_limit": 40, "time_limit": 30}, {"timeout": 30.0, "timeout_grace": 0.0}),
        ({"start_time": datetime(2030, 1, 1, tzinfo=UTC)}, {"starts_at": "2030-01-01T00:00:00+00:00"}),
        ({"args": "[16]", "kwargs": "{}"}, {"payload": "16"}),
        ({"args": "", "kwargs": None}, {"payload": None}),
        ({"task": "alone"}, {"function": "alone"}),
        ({"enabled": 1, "one_off": 0}, {"schedule": "*/15 8-18 * * 1-5"}),
    ],
)
def test_every_column_has_its_field(changes: dict[str, object], fields: dict[str, object]) -> None:
    """What Celery says of a task is said here, in our words."""
    found = said(only(read(changes)))
    assert {name: found.get(name) for name in fields} == fields


def test_a_clocked_task() -> None:
    """It runs once, at its time, which databases keep in UTC."""
    clocked = {"id": 1, "clocked_time": "2030-01-01 10:00:00"}
    job = only(read({"crontab_id": None, "clocked_id": 1, "one_off": True}, clocked=clocked))
    assert (said(job)["schedule"], job.runs_remaining) == ("at 2030-01-01T10:00:00Z", None)


def test_what_is_over_is_left_out() -> None:
    """A time that has passed, and a task that has expired."""
    clocked = {"id": 1, "clocked_time": "2020-01-01 10:00:00"}
    assert "no moment any more" in why_left_out(read({"crontab_id": None, "clocked_id": 1}, clocked=clocked))
    assert "no moment any more" in why_left_out(read({"expires": "2020-01-01 00:00:00"}))


def test_a_disabled_task_and_one_for_once() -> None:
    """One is added paused, the other with one run that remains."""
    assert only(read({"enabled": 0})).start.paused_because == "disabled in Celery beat"
    assert only(read({**BY_INTERVAL, "one_off": 1})).runs_remaining == 1


@pytest.mark.parametrize(("name", "value"), [("exchange", "ex"), ("routing_key", "a.b"), ("headers", '{"x": 1}')])
def test_what_has_no_equal_is_told(name: str, value: str) -> None:
    """Exchanges, routing keys and headers are told with their values."""
    (warning,) = only(read({name: value})).warnings
    assert warning.startswith(f"{name}: {value!r}: ")


def test_celerys_own_task_is_left_out() -> None:
    """Nothing of Celery's results is kept here."""
    assert "work of Celery itself" in why_left_out(read({"task": "celery.backend_cleanup"}))


@pytest.mark.parametrize(
    ("text", "minute"),
    [
        ("*", "*"),
        ("5", "5"),
        ("5,10", "5,10"),
        ("1-5", "1-5"),
        ("50-10/10", "0,10,50"),
        ("10/20", "10,30,50"),
        ("*/20", "*/20"),
        (" 1 , 2 ", "1-2"),
    ],
)
def test_fields_of_a_crontab(text: str, minute: str) -> None:
    """Numbers, lists, steps, and ranges that go over the end."""
    fields = said(only(read({}, crontab={**CRONTAB, "minute": text, "hour": "*", "day_of_week": "*"})))
    assert fields["schedule"] == f"{minute} * * * *"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": None}, "name: None"),
        ({"task": 5}, "task: 5"),
        ({"args": "["}, "args: '['"),
        ({"args": "{}"}, "args: {}"),
        ({"kwargs": "[1]"}, "kwargs: [1]"),
        ({"args": "[1, 2]"}, "--parameters shop.tasks:send=NAME,NAME"),
        ({"enabled": "maybe"}, "enabled: 'maybe'"),
        ({"crontab_id": 7}, "crontab_id: 7"),
        ({"crontab_id": {"id": 7}}, "crontab_id: {'id': 7}"),
        ({"kwargs": '{"a": NaN}'}, "a: nan"),
        ({"args": "[[1e999]]"}, "args: [[inf]]"),
        ({"crontab_id": None}, "schedule: None"),
        ({"interval_id": 1}, "schedule: ['crontab', 'interval']"),
        ({"crontab_id": None, "solar_id": 1}, "solar: 'sunrise'"),
        ({"crontab_id": None, "clocked_id": 1}, "clocked_time: 'soon'"),
        ({"expires": "never"}, "expires: 'never'"),
        ({"time_limit": "soon"}, "time_limit: 'soon' is not allowed"),
        ({"expire_seconds": -1}, "grace"),
        ({"priority": 1000}, "priority"),
    ],
)
def test_wrong_rows_are_refused_by_name(changes: dict[str, object], why: str) -> None:
    """The table, the id of the row, the field and the value are named."""
    found = why_refused(read(changes, solar={"id": 1, "event": "sunrise"}, clocked={"id": 1, "clocked_time": "soon"}))
    assert found.startswith("django_celery_beat_periodictask, id 1: ")
    assert why in found


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"timezone": "Mars"}, "crontab.timezone: 'Mars'"),
        ({"minute": "60"}, "crontab.minute: '60'"),
        ({"minute": "*/0"}, "crontab.minute: '*/0'"),
        ({"minute": None}, "crontab.minute: None"),
        ({"minute": "x"}, "crontab.minute: 'x'"),
        ({"day_of_week": "7"}, "crontab.day_of_week: '7'"),
        ({"month_of_year": "0"}, "crontab.month_of_year: '0'"),
        ({"day_of_month": "31", "month_of_year": "2", "day_of_week": "*"}, "never comes"),
    ],
)
def test_wrong_crontabs_are_refused_by_name(changes: dict[str, object], why: str) -> None:
    """Unknown zones, broken fields and days that never come."""
    assert why in why_refused(read({}, crontab={**CRONTAB, **changes}))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"period": "microseconds"}, "interval.period: 'microseconds'"),
        ({"every": 0}, "interval.every: 0"),
        ({"every": None}, "interval.every: None"),
        ({"every": True}, "interval.every: True"),
        ({"every": float("inf")}, "interval.every: inf"),
        ({"every": float("nan")}, "interval.every: nan"),
    ],
)
def test_wrong_intervals_are_refused_by_name(changes: dict[str, object], why: str) -> None:
    """Units below a second, and lengths of nothing."""
    assert why in why_refused(read(BY_INTERVAL, interval={**INTERVAL, **changes}))


def test_a_row_whose_id_is_none_is_nobodys() -> None:
    """Rows come over HTTP as JSON: an id that is a list or an object is that of no task."""
    for row_id in ([1], {"id": 1}):
        assert "interval_id: 1" in why_refused(read(BY_INTERVAL, interval={**INTERVAL, "id": row_id}))


def test_a_beat_schedule() -> None:
    """Seconds, crontabs and intervals, with options in their places."""
    entries = {
        "a": {"task": "x.y", "schedule": 30.0, "args": [16], "options": {"queue": "q", "expires": 15, "retry": False}},
        "b": {"task": "x.y", "schedule": {"crontab": {"minute": 0, "hour": "*/3"}}, "timezone": "Asia/Tokyo"},
        "c": {"task": "x.y", "schedule": {"every": 2, "period": "days"}, "relative": True},
    }
    first, second, third = (only(read_beat_schedule({name: each}, "f.json", NOW)) for name, each in entries.items())
    assert said(first) == {
        "function": "x:y",
        "payload": "16",
        "schedule": "every 30 seconds",
        "anchored_on": "last run",
        "time_zone": "UTC",
        "queue": "q",
        "grace": 15.0,
        "max_running": 0,
    }
    assert (said(second)["schedule"], said(second)["time_zone"]) == ("0 */3 * * *", "Asia/Tokyo")
    assert said(third)["schedule"] == "every 2 days"
    assert third.warnings[0].startswith("relative: True: ")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (5, "f.json, a: task: None"),
        ({"task": "x.y"}, "schedule: None"),
        ({"task": "x.y", "schedule": "* * * * *"}, "schedule: '* * * * *'"),
        ({"task": "x.y", "schedule": 0.5}, "interval.every: 0.5"),
        ({"task": "x.y", "schedule": {"solar": {}}}, "schedule: {'solar': {}}"),
        ({"task": "x.y", "crontab": "0 * * * *"}, "a: crontab: '0 * * * *'"),
    ],
)
def test_wrong_entries_are_refused_by_name(entry: object, why: str) -> None:
    """File, name, field and value are named."""
    assert why in why_refused(read_beat_schedule({"a": entry}, "f.json", NOW))


@pytest.mark.parametrize(
    ("rate", "ours"),
    [("10/m", "10/m"), ("100/s", "100/s"), (5, "5/s"), ("2/h", "2/h"), (0.5, "1/2s"), ("0.5/m", "1/120s"), (0, None)],
)
def test_a_rate_limit_becomes_that_of_the_job(rate: object, ours: str | None) -> None:
    """The entry says it, or the app for its task or for all; a word says that here all nodes count together."""
    entry = {"task": "x.y", "schedule": 30}
    own = only(read_beat_schedule({"a": {**entry, "rate_limit": rate}}, "f", NOW))
    for said_by in (
        {"task_annotations": {"x.y": {"rate_limit": rate}}},
        {"CELERY_ANNOTATIONS": {"*": {"rate_limit": rate}}},
    ):
        beat = beat_of({**said_by, "beat_schedule": {"a": entry}})
        assert only(read_beat_schedule(beat.entries, "f", NOW, rates=beat.rates)).definition == own.definition
    assert own.definition.rate_limit == ours
    assert any("all nodes count together" in each for each in own.warnings) is (ours is not None)
    refused = {"a": {**entry, "rate_limit": "10/d"}}
    assert "rate_limit: '10/d'" in why_refused(read_beat_schedule(refused, "f", NOW))


ENTRY: dict[str, object] = {"a": {"task": "x.y", "schedule": {"crontab": {"hour": 2, "minute": 30}}}}
CONFIGURATIONS: list[tuple[dict[str, object], str | None, bool]] = [
    (ENTRY, None, True),
    ({"beat_schedule": ENTRY}, None, True),
    ({"beat_schedule": ENTRY, "timezone": "Europe/Berlin"}, "Europe/Berlin", True),
    ({"timezone": "Europe/Berlin", "enable_utc": False, **ENTRY}, "Europe/Berlin", False),
    ({"CELERY_TIMEZONE": "Asia/Tokyo", "CELERYBEAT_SCHEDULE": ENTRY}, "Asia/Tokyo", True),
    ({"CELERY_BEAT_SCHEDULE": ENTRY, "CELERY_ENABLE_UTC": False, "CELERY_TIMEZONE": None}, None, False),
]


@pytest.mark.parametrize(("said", "zone", "is_utc"), CONFIGURATIONS)
def test_a_configuration_names_its_zone(said: dict[str, object], zone: str | None, is_utc: bool) -> None:
    """By the names of any of Celery's ages; without one the times are in UTC, or the machine's if UTC is off."""
    beat = beat_of(said)
    assert (beat.entries, beat.time_zone, beat.is_utc) == (ENTRY, zone, is_utc)


def test_the_zone_of_an_app_is_that_of_its_crontabs() -> None:
    """An entry that names another one keeps it; rows of tables that have none get it, too."""
    own = {"b": {"task": "x.y", "schedule": {"crontab": {"hour": 2}}, "timezone": "Asia/Tokyo"}}
    jobs = [only(read_beat_schedule(each, "f", NOW, {}, "Europe/Berlin")) for each in (ENTRY, own)]
    assert [job.definition.time_zone for job in jobs] == ["Europe/Berlin", "Asia/Tokyo"]
    row = {"id": 1, "name": "n", "task": "x.y", "crontab_id": 1}
    job = only(read_celery([row], {"crontab": [{"id": 1, "minute": "5"}]}, NOW, {}, "Europe/Berlin"))
    assert job.definition.time_zone == "Europe/Berlin"


def test_times_that_clocks_skip_run_later_as_there_and_those_shown_twice_run_twice() -> None:
    """Also where no zone is named: the rules are those of the system, and UTC needs none."""
    definition = only(read_beat_schedule(ENTRY, "f", NOW, {}, "Europe/Berlin")).definition
    assert (definition.gap, definition.fold) == ("later", "both")
    utc = only(read_beat_schedule(ENTRY, "f", NOW)).definition
    assert (utc.gap, utc.fold) == ("shift", "first")


@pytest.mark.parametrize(
    ("zone", "minute", "hour", "day", "expected"),
    [
        ("Europe/Berlin", "30", "2", "2026-03-29", ["03:30"]),
        ("Europe/Berlin", "30", "2,3", "2026-03-29", ["03:30"]),
        ("Europe/Berlin", "30", "1,2", "2026-03-29", ["01:30", "03:30"]),
        ("Europe/Berlin", "30", "*/2", "2026-03-29", ["00:30", "03:30", "04:30"]),
        ("Europe/Berlin", "30", "2", "2026-10-25", ["02:30", "02:30"]),
        ("America/New_York", "5", "2", "2027-03-14", ["03:05"]),
        ("Australia/Lord_Howe", "15", "2", "2026-10-04", ["02:45"]),
        ("Asia/Beirut", "15", "0", "2026-03-29", ["01:15"]),
        ("America/Santiago", "0", "0", "2026-09-06", ["01:00"]),
        ("Pacific/Apia", "0", "4", "2011-12-31", ["04:00"]),
    ],
)
def test_skipped_times_are_those_of_celery(zone: str, minute: str, hour: str, day: str, expected: list[str]) -> None:
    """Celery 5.7 sends at these (but once in a fold): a skipped time as much later as clocks jump, and once with its
    like.
    """
    entry = {"a": {"task": "x.y", "schedule": {"crontab": {"minute": minute, "hour": hour}}}}
    job = only(read_beat_schedule(entry, "f", NOW, {}, zone))
    schedule, midnight = schedule_of(job.definition, NOW), datetime.fromisoformat(day).replace(tzinfo=zone_info(zone))
    start = Moment(int(midnight.timestamp()) * SECOND)
    found = each_moment(schedule, Moment(start - 1), start + 5 * HOUR)
    assert [f"{on_clocks(zone, each):%H:%M}" for each in found] == expected
