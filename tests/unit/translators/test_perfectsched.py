"""PerfectSched's rows as jobs."""

import json

import pytest

from tests.unit.service.world import World
from tests.unit.translators.entries import only, said, why_refused
from tokimori.clock import SECOND, Moment, format_moment
from tokimori.translators.entries import Row
from tokimori.translators.perfectsched import PerfectSched, read_perfectsched

SLOT = 1_800_000_000
ROW: Row = {
    "id": "sched-id",
    "timeout": SLOT + 30,
    "next_time": SLOT,
    "cron": "0 * * * *",
    "delay": 30,
    "data": b'{"type":"type1","key":"value","n":[1,{"a":null}]}',
    "timezone": "Asia/Tokyo",
}
TABLE = PerfectSched("schedules")


def row(**fields: object) -> list[Row]:
    """The row with other fields."""
    return [{**ROW, **fields}]


def test_a_schedule_keeps_what_perfectsched_knows_of_it() -> None:
    """Key, type, data, cron text, delay and zone are kept, with PerfectSched's rules, and so is the next slot."""
    job = only(read_perfectsched(row(), TABLE))
    fields = said(job)
    assert json.loads(str(fields.pop("payload"))) == {"key": "value", "n": [1, {"a": None}]}
    assert (job.job_id, job.place) == ("sched-id", "schedules, id 'sched-id'")
    assert fields == {
        "function": "type1",
        "schedule": "0 * * * *",
        "delay": 30.0,
        "time_zone": "Asia/Tokyo",
        "queue": "schedules",
        "gap": "skip",
        "fold": "both",
        "misfire": "all",
        "on_overlap": "queue",
        "retry": {
            "attempts": 1_000_000,
            "delay": 300.0,
            "lost_attempts": "unlimited",
            "asked_retries": 1_000_000,
        },
    }
    assert (job.start.since, job.start.not_before) == (SLOT * SECOND, (SLOT + 30) * SECOND)
    assert job.warnings == ()


def test_a_zone_of_null_is_utc() -> None:
    """There, too, a schedule without a zone is reckoned in UTC."""
    assert said(only(read_perfectsched(row(timezone=None), TABLE)))["time_zone"] == "UTC"


def test_the_type_is_in_the_data_or_in_the_key() -> None:
    """Rows of older versions have it before the first dot of the key; data that can't be read are none, and told."""
    old = only(read_perfectsched(row(id="ns.job", data=b""), TABLE))
    assert (said(old)["function"], said(old).get("payload"), old.warnings) == ("ns", None, ())
    broken = only(read_perfectsched(row(id="ns.job", data=b"{broken"), TABLE))
    assert said(broken)["function"] == "ns"
    assert broken.warnings[0].startswith("data: b'{broken': ")
    assert said(only(read_perfectsched(row(data='{"type":"","a":1}'), TABLE)))["function"] == "sched-id"


def test_a_slot_that_somebody_has_waits() -> None:
    """A row that is leased, or waits for its retry, runs when that is over; it is told."""
    job = only(read_perfectsched(row(timeout=SLOT + 300), TABLE))
    assert job.start.not_before == (SLOT + 300) * SECOND
    assert job.warnings[0].startswith(f"timeout: {SLOT + 300}: ")


def test_a_slot_that_the_cron_text_does_not_name_is_told() -> None:
    """After `modify` the next slot there is still one of the old text; here it is the next of the new one."""
    job = only(read_perfectsched(row(next_time=SLOT + 60, timeout=SLOT + 90), TABLE))
    assert job.warnings[0].startswith(f"next_time: {SLOT + 60}: ")
    assert format_moment(Moment((SLOT + 60) * SECOND)) in job.warnings[0]  # people read no seconds since 1970


@pytest.mark.parametrize(
    ("cron", "kept"),
    [
        ("5/15 * * * *", "5 * * * *"),
        ("0 0 */2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 * * */2", "0 0 * * 0-6/2"),
        ("*/7 * * * *", "*/7 * * * *"),
        ("  0  *  * * * ", "0 * * * *"),
        ("0 9 * Jan-Mar MON", "0 9 * Jan-Mar MON"),
        ("@daily", "@daily"),
    ],
)
def test_a_cron_text_means_what_it_means_there(cron: str, kept: str) -> None:
    """What chrono reads in another way is rewritten, and told."""
    job = only(read_perfectsched(row(cron=cron), TABLE))
    assert said(job)["schedule"] == kept
    rewritten = " ".join(cron.split()) != kept
    assert any(warning.startswith("cron: ") for warning in job.warnings) == rewritten


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"cron": "0 0 L * *"}, "cron: '0 0 L * *' is not allowed"),
        ({"cron": "* * * * * *"}, "cron: "),
        ({"cron": "@every 5m"}, "cron: "),
        ({"cron": "H * * * *"}, "cron: "),
        ({"cron": ""}, "cron: '' is not allowed"),
        ({"cron": None}, "cron: "),
        ({"cron": "61 * * * *"}, "61"),
        ({"cron": "0 0 30 2 *"}, "schedule"),
        ({"timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"timezone": b"\xff"}, "timezone: "),
        ({"delay": -1}, "delay: -1 "),
        ({"delay": "soon"}, "delay: 'soon' is not allowed"),
        ({"delay": None}, "delay: None is not allowed"),
        ({"next_time": 2**40}, "next_time: "),
        ({"next_time": None}, "next_time: None is not allowed"),
        ({"timeout": -5}, "timeout: -5 is not allowed"),
        ({"timeout": True}, "timeout: True is not allowed"),
        ({"id": "a b"}, "'a b'"),
        ({"id": "x" * 300}, "id"),
        ({"id": None}, "id"),
        ({"data": b'{"type":["x"]}'}, "data.type: ['x'] is not allowed"),
        ({"data": b'{"type":"a|b"}'}, "data.type: 'a|b' is not allowed"),
    ],
)
def test_what_nobody_can_run_is_refused(fields: dict[str, object], told: str) -> None:
    """The key, the column and the value are told."""
    assert told in why_refused(read_perfectsched(row(**fields), TABLE))


async def test_it_is_the_job_that_our_own_library_adds() -> None:
    """An imported schedule is one of the collection of its table, with the slot and the time that its row says."""
    world = World()
    job = only(read_perfectsched(row(timezone="UTC"), PerfectSched("tasks", 60)))
    await world.service.jobs.import_all([(job.job_id, job.definition)], starts={job.job_id: job.start})
    kept = await world.service.jobs.get(job.job_id)
    assert kept.fired_through == Moment(SLOT * SECOND - 1)
    assert kept.next_due == Moment((SLOT + 30) * SECOND)
    assert (kept.definition.queue, kept.definition.retry.delay) == ("tasks", 60)
