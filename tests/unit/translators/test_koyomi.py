"""Koyomi's rows as jobs."""

from datetime import UTC, datetime

import pytest

from tests.unit.translators.entries import only, said, why_left_out, why_refused
from tokimori.clock import Moment, from_datetime
from tokimori.model.job import schedule_of
from tokimori.translators.entries import Entry, Row
from tokimori.translators.koyomi import Koyomi, read_koyomi

NOW = from_datetime(datetime(2026, 1, 1, tzinfo=UTC))
TOKYO = Koyomi("Asia/Tokyo", "koyomi", NOW)
JOB: Row = {"id": 7, "user": "app", "command": "make report", "memo": "the report", "created_on": "2015-05-29 00:25:13"}
TIME: Row = {"id": 1, "job_id": 7, "year": "*", "month": "*", "day": "*", "hour": "9", "minute": "05", "weekday": "*"}
LOCK: Row = {"job_id": 7, "number": 0, "run_host": "web1", "run_pid": 4711, "run_date": "2015-05-30 09:05:00"}


def read(job: Row = JOB, *times: Row, locks: tuple[Row, ...] = ()) -> list[Entry]:
    """The entries of one job."""
    return list(read_koyomi([job], times, locks, TOKYO))


def at(**fields: object) -> Row:
    """The row of times with other fields."""
    return {**TIME, **fields}


def test_a_job_keeps_what_koyomi_knows_of_it() -> None:
    """Command, user, memo and times are kept, with Koyomi's rules: it overlaps, and what was missed is gone."""
    job = only(read(JOB, TIME))
    assert (job.job_id, job.place) == ("koyomi-7", "jobs, id 7")
    assert said(job) == {
        "command": "make report",
        "user": "app",
        "description": "the report",
        "schedule": "*/*/* 9:5 (*)",
        "time_zone": "Asia/Tokyo",
        "gap": "skip",
        "fold": "both",
        "misfire": "skip",
        "max_running": 0,
    }
    assert job.warnings == ()


def test_an_empty_user_is_that_of_the_node() -> None:
    """Koyomi's empty texts stand for nothing, as NULL does."""
    for empty in ("", None):
        fields = said(only(read({**JOB, "user": empty, "memo": empty}, TIME)))
        assert "user" not in fields
        assert "description" not in fields


def test_rows_are_united() -> None:
    """A job is due when any of its rows matches, and rows that say the same are one."""
    job = only(read(JOB, at(minute="0"), at(id=2, minute="00"), at(id=3, day="24", weekday="7")))
    assert said(job)["schedule"] == "*/*/* 9:0 (*); */*/24 9:5 (7)"


MATCHES = [
    ("* * * * 5 *", "2015-05-24T09:05", True),
    ("* * * * 5 *", "2015-05-24T09:06", False),
    ("* * * 0 * *", "2015-05-24T00:15", True),
    ("* * * 23 * *", "2015-05-24T11:06", False),
    ("* 12 * * * *", "2015-12-24T00:15", True),
    ("* 1 * * * *", "2015-02-24T11:06", False),
    ("2015 * * * * *", "2015-12-24T00:15", True),
    ("2020 * * * * *", "2015-02-24T11:06", False),
    ("* * 1 * * *", "2015-05-01T15:15", True),
    ("* * 31 * * *", "2015-05-30T11:06", False),
    ("* * * * * 7", "2015-05-24T00:15", True),
    ("* * * * * 2", "2015-05-25T11:06", False),
    ("* * 24 * * 6", "2015-05-24T16:15", True),
    ("* * 1 * * 7", "2015-05-24T16:15", True),
    ("* * 24 * * 7", "2015-05-24T16:15", True),
    ("* * 31 * * 2", "2015-05-24T16:15", False),
    ("* * 24 * * 0", "2015-05-24T16:15", True),
    ("* * 24 * * 0", "2015-05-25T16:15", False),
    ("* * 32 * * 7", "2015-05-24T16:15", True),
    ("* * 32 * * 7", "2015-05-25T16:15", False),
]
"""Koyomi's own cases, and those of numbers that never match beside one that does."""


@pytest.mark.parametrize(("row", "when", "matches"), MATCHES)
def test_a_row_matches_what_it_matches_there(row: str, when: str, matches: bool) -> None:
    """The schedule names a minute if and only if Koyomi's function says that the row matches it."""
    columns = ("year", "month", "day", "hour", "minute", "weekday")
    long_ago = Koyomi("UTC", "koyomi", from_datetime(datetime(2010, 1, 1, tzinfo=UTC)))
    job = only(read_koyomi([JOB], [at(**dict(zip(columns, row.split(), strict=True)))], [], long_ago))
    minute = from_datetime(datetime.fromisoformat(when).replace(tzinfo=UTC))
    schedule = schedule_of(job.definition, NOW)
    assert (schedule.next_after(Moment(minute - 1)) == minute) == matches


def test_what_never_matches_is_told() -> None:
    """Rows with weekday 0, a 31st of April or an hour 25 are left out with a warning, and the others stay."""
    never = [at(weekday="0"), at(month="4", day="31"), at(hour="25"), at(minute="60"), at(month="0"), at(year="99999")]
    job = only(read(JOB, *never, TIME))
    assert said(job)["schedule"] == "*/*/* 9:5 (*)"
    assert len(job.warnings) == len(never)
    assert job.warnings[0] == "job_times: '*/*/* 9:5 (0)': left out: it never matches"


def test_a_job_of_the_past_is_left_out() -> None:
    """Of a job whose times never come again there is nothing to move, and its times are told."""
    assert "2015/5/24 9:05 (*)" in why_left_out(read(JOB, at(year="2015", month="5", day="24")))
    assert "Sunday is 7" in why_left_out(read(JOB, at(weekday="0")))


def test_a_job_without_times_waits_for_somebody() -> None:
    """It never runs there, nor here, until it is triggered; that is told."""
    job = only(read(JOB))
    assert "schedule" not in said(job)
    assert job.warnings[0].startswith("job_times: 0: ")


def test_the_last_run_is_told() -> None:
    """Who ran the job last, and when, has no place here; a lock that nobody has used says nothing."""
    job = only(read(JOB, TIME, locks=({**LOCK, "number": 2},)))
    assert [warning.partition(":")[0] for warning in job.warnings] == ["semaphores.run_date", "semaphores.number"]
    assert "'web1'" in job.warnings[0]
    assert "4711" in job.warnings[0]
    assert only(read(JOB, TIME, locks=({**LOCK, "run_date": "1970-01-01 00:00:00"},))).warnings == ()


def test_sudo_is_told() -> None:
    """There `sudo -u USER` holds only for the first command of a line; here the whole line runs as the user."""
    assert only(read({**JOB, "command": "a && b"}, TIME)).warnings[0].startswith("user: 'app': ")
    assert only(read({**JOB, "command": "a && b", "user": ""}, TIME)).warnings == ()


@pytest.mark.parametrize(
    ("job", "time", "told"),
    [
        (JOB, at(month="**"), "job_times.month (id 1): '**' is not allowed"),
        (JOB, at(minute=None), "job_times.minute (id 1): None is not allowed"),
        (JOB, at(hour="*/5"), "job_times.hour (id 1): '*/5' is not allowed"),
        (JOB, at(day=3.5), "day: 3.5 is not allowed"),
        ({**JOB, "command": None}, TIME, "target: the command is empty"),
        ({**JOB, "command": "x" * 70_000}, TIME, "command"),
        ({**JOB, "command": b"\xff"}, TIME, "command: b'\\xff' is not allowed; allowed: text in UTF-8"),
        ({**JOB, "command": "\udcff"}, TIME, "command: '\\udcff' is not allowed; allowed: text in UTF-8"),
        ({**JOB, "id": None}, TIME, "id: None is not allowed; allowed: a whole number"),
        ({**JOB, "id": "seven"}, TIME, "id: 'seven' is not allowed"),
    ],
)
def test_what_nobody_can_read_is_refused(job: Row, time: Row, told: str) -> None:
    """The place, the column and the value are told, and others of the page move."""
    assert told in why_refused(read(job, time))


def test_too_many_times_are_refused() -> None:
    """A schedule has a bound, and nothing is cut off in silence."""
    times = [at(id=n, hour=str(n % 24), minute=str(n // 24)) for n in range(301)]
    assert "jobs, id 7" in why_refused(read(JOB, *times))


def test_numbers_may_be_texts_of_sqlite() -> None:
    """Koyomi's SQLite schema has nothing but TEXT: ids that are texts of numbers belong together."""
    job = only(read({**JOB, "id": "7"}, at(job_id="7", hour=9, minute=5)))
    assert (job.job_id, said(job)["schedule"]) == ("koyomi-7", "*/*/* 9:5 (*)")
