"""PerfectSched's specs by name (`reference/perfectsched.md`, §5), where the transcript does not show them.

Those of its engine, worker, signals, router and application are `tests/unit/apps/`, `tests/integration/apps/`; those of
cron and time zones `tests/unit/schedules/test_cron_vectors.py`. Of the MySQL driver's "try restarting transaction"
stores tell nobody: `tests/contract/stores/`.
"""

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.perfectsched.test_transcript import add, catch_up, poll, slot
from tests.unit.perfectsched.world import START, World, place_of
from tokimori import perfectsched
from tokimori.perfectsched import ScheduleCollection, cron_time, next_time
from tokimori.translators.entries import Moved
from tokimori.translators.perfectsched import PerfectSched, read_perfectsched

TOKYO = -9 * 3600
"""Midnight in Tokyo, in seconds from midnight UTC."""


def test_list(schedules: ScheduleCollection) -> None:
    """All schedules of the collection, by key, with what they say; jobs that are not its own are none of them."""
    assert list(schedules.list()) == []
    add(schedules, "b", data=None)
    add(schedules, "a", timezone="Asia/Tokyo")
    schedules.client.jobs.add("c", schedule="* * * * *", noop=True, queue="schedules")
    schedules.client.jobs.add("d", schedule="* * * * *", function="t")
    found = [(each.key, each.type, each.timezone, each.data, each.next_time) for each in schedules.list()]
    assert found == [("a", "t", "Asia/Tokyo", {"k": 1}, START), ("b", "t", "UTC", {}, START)]
    for key in ("c", "d"):
        with pytest.raises(perfectsched.NotFoundError):
            schedules[key].delete()


def test_tables_do_not_see_each_other(world: World, schedules: ScheduleCollection) -> None:
    """What is in one table is not polled from another, and a key is one job's whatever the table."""
    other = world.collection(table="other")
    add(other)
    world.at(30)
    assert schedules.poll() is None
    assert not schedules["a"].exists()
    with pytest.raises(perfectsched.AlreadyExistsError):
        add(schedules)
    assert slot(poll(other)) == 0


def test_acquire_on_an_empty_table(schedules: ScheduleCollection) -> None:
    """Without schedules there is no task."""
    assert schedules.poll() is None
    assert schedules.poll_multi(max_acquire=9) == []


def test_acquire_when_another_is_faster(world: World, schedules: ScheduleCollection) -> None:
    """Of those who poll at the same time one gets the slot, and many slots go to each once."""
    for key in ("a", "b", "c"):
        add(schedules, key)
    others = [world.collection() for _ in range(2)]
    world.at(30)
    taken = [task.key for each in (schedules, *others) for task in each.poll_multi(max_acquire=2)]
    assert sorted(taken) == ["a", "b", "c"]


def test_acquire_and_finish(world: World, schedules: ScheduleCollection) -> None:
    """Before its run time nothing, then one task, nothing while it is in hand, nor after it before the next is due."""
    add(schedules)
    world.at(29)
    assert schedules.poll() is None
    world.at(30)
    task = poll(schedules)
    world.at(31)
    assert schedules.poll() is None
    task.finish()
    world.at(89)
    assert schedules.poll() is None
    world.at(90)
    assert slot(poll(schedules)) == 60


def test_time_zones_differ(schedules: ScheduleCollection) -> None:
    """The same text names other slots in Tokyo than in UTC, and a schedule without a zone has that of the table."""
    midnight = {"cron": "0 0 * * *", "delay": 0, "next_time": START + 1}
    assert add(schedules, "utc", **midnight)[0] == 24 * 3600
    assert add(schedules, "tokyo", timezone="Asia/Tokyo", **midnight)[0] == 24 * 3600 + TOKYO


def test_the_zone_of_the_table(world: World) -> None:
    """A schedule without a zone has that of the configuration."""
    schedules = world.collection(timezone="Asia/Tokyo")
    assert add(schedules, cron="0 0 * * *", delay=0)[0] == 24 * 3600 + TOKYO
    assert schedules["a"].metadata().timezone == "Asia/Tokyo"


def test_delay_shifts_the_run_not_the_slot(world: World, schedules: ScheduleCollection) -> None:
    """The slot after one is reckoned from the slot, not from when that ran or was finished."""
    add(schedules, cron="*/10 * * * *", delay=300)
    world.at(300)
    task = poll(schedules)
    assert (slot(task), task.scheduled_run_time - START) == (0, 300)
    world.pass_time(250)
    task.finish()
    world.at(899)
    assert schedules.poll() is None
    world.at(900)
    assert slot(poll(schedules)) == 600


def test_heartbeat(world: World, schedules: ScheduleCollection) -> None:
    """Each keeps a slot for another alive time, twice at one moment too; `alive_time` says for how long."""
    add(schedules, cron="0 * * * *")
    other = world.collection()
    world.at(30)
    task = poll(schedules, alive_time=100)
    for _ in range(3):
        world.pass_time(90)
        task.heartbeat()
        assert task.heartbeat() is None
        assert other.poll() is None
    task.heartbeat(500)
    world.pass_time(490)
    task.finish()


def test_heartbeat_of_what_is_cancelled(world: World, schedules: ScheduleCollection) -> None:
    """It says why the task is to end, if a person has said so."""
    add(schedules, cron="0 * * * *")
    world.at(30)
    task = poll(schedules)
    world.run(world.behind.runs.cancel(task.run_id, "wrong data"))
    world.pass_time(3)
    assert task.heartbeat() == "wrong data"


def test_retry_wait(world: World, schedules: ScheduleCollection) -> None:
    """`retry` takes its own wait; later slots go on meanwhile: there they waited for the one that is tried again."""
    add(schedules)
    world.at(30)
    poll(schedules).retry(200)
    world.at(155)
    assert catch_up(schedules) == [60, 120]
    world.at(230)
    assert catch_up(schedules) == [180, 0]


def test_a_worker_that_dies(world: World, schedules: ScheduleCollection) -> None:
    """Its slot is given away again as soon as its silence is noticed, without any node, not after its alive time."""
    add(schedules, cron="0 * * * *")
    world.at(30)
    task = poll(schedules)
    world.kill()
    other = world.collection()
    assert other.poll() is None
    for _ in range(10):
        world.pass_time(2)
    again = poll(other)
    assert (slot(again), again.attempt) == (0, 2)
    with pytest.raises(perfectsched.PreemptedError):
        task.finish()


def test_a_client_that_closes(world: World, schedules: ScheduleCollection) -> None:
    """What it has in hand goes back at once."""
    add(schedules, cron="0 * * * *")
    world.at(30)
    poll(schedules)
    world.run(place_of(world.behind).close())
    assert slot(poll(world.collection())) == 0


def test_data_that_is_broken(schedules: ScheduleCollection) -> None:
    """Data is JSON whenever it is written: there what could not be read became nothing without a word."""
    add(schedules)
    with pytest.raises(perfectsched.Error, match="JSON"):
        schedules.client.jobs.update("a", payload='{"k": ')
    with pytest.raises(perfectsched.Error, match="JSON"):
        schedules["a"].modify(data={"k": {1}})
    assert schedules["a"].metadata().data == {"k": 1}


def test_submit_is_add(schedules: ScheduleCollection) -> None:
    """The call of PerfectSched's README, which is not there, does what `add` does."""
    data = {"key": "value"}
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = schedules.submit(
        "sched-id", "type1", cron="0 * * * *", delay=30, timezone="Asia/Tokyo", next_time=start, data=data
    )
    assert found == (START, START + 30)
    assert schedules["sched-id"].metadata().data == data


def test_cron_time_and_next_time() -> None:
    """The first slot at or after a time, and the first one after it; what names none is refused."""
    assert cron_time("0 * * * *", START) == START
    assert next_time("0 * * * *", START) == cron_time("0 * * * *", START + 1) == START + 3600
    assert next_time("0 0 29 2 *", START) == datetime(2028, 2, 29, tzinfo=UTC).timestamp()
    assert next_time("* * * * 5-7", START) == datetime(2026, 1, 2, tzinfo=UTC).timestamp(), "there it was refused"
    with pytest.raises(perfectsched.Error, match="30"):  # there it never returned
        next_time("0 0 30 2 *", START)
    for wrong in ("soon", True, float("nan"), datetime(2026, 1, 1)):
        with pytest.raises(perfectsched.Error) as refused:
            cron_time("* * * * *", wrong)  # type: ignore[arg-type]
        assert refused.value.field == "timestamp"


def test_dst_gap_and_overlap() -> None:
    """A time that clocks skip does not come on that day, and one that they show twice comes twice."""
    zone = "America/Los_Angeles"
    before_gap = datetime(2026, 3, 8, tzinfo=UTC)
    assert cron_time("30 2 * * *", before_gap, zone) == datetime(2026, 3, 9, 9, 30, tzinfo=UTC).timestamp()
    first = cron_time("30 1 * * *", datetime(2026, 11, 1, 7, tzinfo=UTC), zone)
    assert first is not None
    assert next_time("30 1 * * *", first, zone) == first + 3600


def test_row_decoding(tmp_path: Path) -> None:
    """The import moves a table, rows of older versions too: broken data is none, a key says the type."""
    rows = {"a": ('{"type": "t", "k": 1}', "Asia/Tokyo"), "n.b": ('{"type": "", "k": 2}', None)}
    rows |= {"n.c": ('{"k": ', None), "n.d": ("", None), "n.e": ("[1]", None)}
    slot_of = {"timeout": START + 30, "next_time": START, "cron": "0 0 1 1 *", "delay": 30}
    table = [{"id": key, "data": data.encode(), "timezone": zone, **slot_of} for key, (data, zone) in rows.items()]
    moved = [each for each in read_perfectsched(table, PerfectSched("schedules")) if isinstance(each, Moved)]
    with perfectsched.open(f"sqlite:///{tmp_path}/tokimori.db") as schedules:
        schedules.client.jobs.import_all(
            [(each.job_id, each.definition) for each in moved], starts={each.job_id: each.start for each in moved}
        )
        found = {each.key: (each.type, each.data, each.timezone) for each in schedules.list()}
    assert found == {
        "a": ("t", {"k": 1}, "Asia/Tokyo"),
        "n.b": ("n", {"k": 2}, "UTC"),
        **{key: ("n", {}, "UTC") for key in ("n.c", "n.d", "n.e")},
    }


def test_tasks_come_until_somebody_leaves(world: World, tmp_path: Path) -> None:
    """Where none is due it looks again after the poll interval; the log is the file that is named."""
    file = tmp_path / "sched.log"
    schedules = world.collection(poll_interval=0, log=str(file))
    add(schedules, "a", delay=0)
    for task in schedules.tasks():
        task.finish()
        break
    assert schedules._log is not None
    logging.getLogger("tokimori.perfectsched").removeHandler(schedules._log)
    schedules._log.close()
    assert [line.split(" ", 3)[2:] for line in file.read_text().splitlines()] == [
        ["INFO", f"acquired the slot {START} of 'a'"],
        ["INFO", f"finished the slot {START} of 'a'"],
    ]
    with pytest.raises(perfectsched.ConfigError, match="log: "):
        perfectsched.open({"type": "rdb_compat", "url": "memory:", "table": "t", "log": str(tmp_path)})


def test_the_log_goes_on_in_a_new_file_until_the_collection_is_closed(world: World, tmp_path: Path) -> None:
    """A slot that is to come again is in it, too; after that no line of the program is written there."""
    file = tmp_path / "sched.log"
    schedules = world.collection(log=str(file))
    add(schedules, "a", delay=0)
    poll(schedules).retry(retry_wait=0)
    file.rename(tmp_path / "sched.log.1")
    catch_up(schedules)
    world.at(5)
    poll(schedules).finish()
    schedules.client.close = lambda: None  # type: ignore[method-assign]  # of the world
    schedules.close()
    logging.getLogger("tokimori.perfectsched").info("nobody's")
    texts = [(tmp_path / name).read_text() for name in ("sched.log.1", "sched.log")]
    assert [[line.split(" ", 3)[3] for line in text.splitlines()] for text in texts] == [
        [f"acquired the slot {START} of 'a'", f"the slot {START} of 'a' is to come again"],
        [f"acquired the slot {START} of 'a'", f"finished the slot {START} of 'a'"],
    ]


def test_tasks_are_polled_after_each_interval(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second by default: a poll waits so long for a slot that becomes due."""
    for given, waits in (({}, 1.0), ({"poll_interval": 7}, 7.0)):
        schedules, seen = world.collection(**given), list[object]()
        add(schedules, f"key{waits}", delay=0)
        real = schedules.poll

        def polled(*, wait: float, alive_time: float | None, seen: Any = seen, real: Any = real) -> Any:
            seen.append(wait)
            return None if len(seen) < 3 else real(alive_time=alive_time)

        monkeypatch.setattr(schedules, "poll", polled)
        next(iter(schedules.tasks())).finish()
        assert seen == [waits] * 3
