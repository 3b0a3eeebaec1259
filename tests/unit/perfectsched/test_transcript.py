"""The semantics run of PerfectSched 0.8.12, line by line under its own names (`reference/perfectsched.md`, §3).

It begins as there: a schedule `a`, `* * * * *` with a delay of 30 s, is added at 2026-01-01T00:00:00Z; times are
seconds from there. Where the line there shows a fault, the test says what holds here instead.
"""

from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.perfectsched.world import START, World
from tokimori import perfectsched
from tokimori.perfectsched import ScheduleCollection, Task


def add(schedules: ScheduleCollection, key: str = "a", **more: object) -> tuple[int, int]:
    """The schedule of the transcript; its first slot and when that runs, from the beginning on."""
    terms = {"cron": "* * * * *", "delay": 30, "data": {"k": 1}, **more}
    slot, runs = schedules.add(key, "t", **terms)  # type: ignore[arg-type]
    return slot - START, runs - START


def poll(schedules: ScheduleCollection, **more: float) -> Task:
    """The task that is due."""
    task = schedules.poll(**more)
    assert task is not None
    return task


def slot(task: Task) -> int:
    return task.scheduled_time - START


def times(schedules: ScheduleCollection, key: str = "a") -> tuple[int, int]:
    """The next slot and when it runs, from the beginning on."""
    said = schedules[key].metadata()
    return cast(int, said.next_time) - START, cast(int, said.next_run_time) - START


def catch_up(schedules: ScheduleCollection) -> list[int]:
    """Finish all that is due, one after the other; the slots."""
    found = []
    while (task := schedules.poll()) is not None:
        found.append(slot(task))
        task.finish()
    return found


def test_add(schedules: ScheduleCollection) -> None:
    """The first slot is the first one from now on, this second included; it runs its delay later."""
    assert add(schedules) == (0, 30)


def test_dup(schedules: ScheduleCollection) -> None:
    """A key that is taken is refused as that, and as nothing else."""
    add(schedules)
    with pytest.raises(perfectsched.AlreadyExistsError, match="there is a job 'a' already"):
        add(schedules)


def test_nocron_badtz_badcron(schedules: ScheduleCollection) -> None:
    """Without a cron text, with a zone or a text that is none, nothing is added."""
    with pytest.raises(TypeError, match="cron"):
        schedules.add("a", "t")  # type: ignore[call-arg]
    for field, terms in {"time_zone": {"timezone": "Nope"}, "schedule": {"cron": "x"}}.items():
        with pytest.raises(perfectsched.Error) as refused:
            add(schedules, **terms)
        assert (refused.value.code, refused.value.field) == (
            "invalid_schedule" if field == "schedule" else "invalid_input",
            field,
        )
    assert not schedules["a"].exists()


def test_poll_early(world: World, schedules: ScheduleCollection) -> None:
    """Nothing is there before a slot's delay is over, and then at once."""
    add(schedules)
    world.at(29.9)
    assert schedules.poll() is None
    world.at(30)
    assert schedules.poll() is not None


def test_acquired(world: World, schedules: ScheduleCollection) -> None:
    """A task says its key, type and data, its slot and when it was due, and the terms of its schedule."""
    add(schedules)
    world.at(30)
    task = poll(schedules)
    assert (task.key, task.type, slot(task), task.scheduled_run_time - START, task.data) == ("a", "t", 0, 30, {"k": 1})
    assert (task.cron, task.delay, task.timezone, task.attempt) == ("* * * * *", 30, "UTC", 1)
    assert (task.next_time, task.next_run_time) == (task.scheduled_time, task.scheduled_run_time)


def test_second_worker_before_and_after_expiry(world: World, schedules: ScheduleCollection) -> None:
    """Nobody else gets a slot before its alive time is over; then it is given away again."""
    add(schedules, cron="0 * * * *")
    other = world.collection()
    world.at(30)
    task = poll(schedules)
    world.pass_time(299)
    assert other.poll() is None
    world.pass_time(1)
    again = poll(other)
    assert (slot(again), again.attempt) == (slot(task), 2)


def test_stale_heartbeat_retry_and_finish(world: World, schedules: ScheduleCollection) -> None:
    """Who has lost its slot is refused and changes nothing: there it took the slot from the other."""
    add(schedules, cron="0 * * * *")
    other = world.collection()
    world.at(30)
    stale = poll(schedules)
    world.pass_time(300)
    task = poll(other)
    for said in (stale.heartbeat, stale.retry, stale.release, stale.finish):
        with pytest.raises(perfectsched.PreemptedError):
            said()
    task.heartbeat()
    task.finish()
    with pytest.raises(perfectsched.AlreadyFinishedError):
        stale.finish()


def test_after_retry(world: World, schedules: ScheduleCollection) -> None:
    """The same slot comes again after `retry_wait`, and for ever: no number of tries ends it."""
    add(schedules, cron="0 * * * *")
    world.at(30)
    for number in range(1, 6):
        task = poll(schedules)
        assert (slot(task), task.attempt) == (0, number)
        task.retry()
        world.pass_time(299)
        assert schedules.poll() is None
        world.pass_time(1)


def test_second_finish(world: World, schedules: ScheduleCollection) -> None:
    """A slot that is finished twice says so, and what is said of it else says that it is nobody's any more."""
    add(schedules)
    world.at(30)
    task = poll(schedules)
    task.finish()
    with pytest.raises(perfectsched.AlreadyFinishedError, match="finished already"):
        task.finish()
    for said in (task.heartbeat, task.retry):
        with pytest.raises(perfectsched.PreemptedError):
            said()


def test_release(world: World, schedules: ScheduleCollection) -> None:
    """Who releases a slot gives it to whoever asks next: there nothing implements it."""
    add(schedules)
    world.at(30)
    poll(schedules).release()
    again = poll(world.collection())
    assert slot(again) == 0


def test_next(world: World, schedules: ScheduleCollection) -> None:
    """After a slot comes the one behind it, however late it was finished."""
    add(schedules)
    world.at(30)
    poll(schedules).finish()
    assert times(schedules) == (60, 90)


def test_catchup_slots(world: World, schedules: ScheduleCollection) -> None:
    """After an outage every missed slot is delivered, one at a time, the oldest first."""
    add(schedules)
    world.at(30)
    poll(schedules).finish()
    world.at(575)
    first = poll(schedules)
    assert schedules.poll() is None, "one at a time"
    first.finish()
    assert [slot(first), *catch_up(schedules)] == [60, 120, 180, 240, 300, 360, 420, 480, 540]


def test_modify(world: World, schedules: ScheduleCollection) -> None:
    """What is given changes, and the next slot with it, which there stayed; without anything nothing changes."""
    add(schedules)
    schedules["a"].modify()
    assert times(schedules) == (0, 30)
    world.at(31)
    schedules["a"].modify(cron="0 * * * *", delay=0, timezone="Asia/Tokyo")
    said = schedules["a"].metadata()
    assert (said.cron, said.delay, said.timezone, said.data) == ("0 * * * *", 0, "Asia/Tokyo", {"k": 1})
    assert times(schedules) == (3600, 3600)
    assert catch_up(schedules) == [0], "what was due by the old terms is not lost"
    schedules["a"].modify(type="u", data={"k": 2})
    world.at(3600)
    task = poll(schedules)
    assert (task.type, task.data) == ("u", {"k": 2})


def test_modify_missing(schedules: ScheduleCollection) -> None:
    """A key that is not there can't be changed."""
    with pytest.raises(perfectsched.NotFoundError, match="no job 'zz'"):
        schedules["zz"].modify(cron="0 * * * *")


def test_exists_and_meta_missing(schedules: ScheduleCollection) -> None:
    """A schedule says whether it is there, and what it says only then."""
    add(schedules)
    assert [schedules[key].exists() for key in ("a", "zz")] == [True, False]
    with pytest.raises(perfectsched.NotFoundError):
        schedules["zz"].metadata()


def test_del_twice(schedules: ScheduleCollection) -> None:
    """A schedule is deleted once; then there is none."""
    add(schedules)
    schedules["a"].delete()
    assert not schedules["a"].exists()
    with pytest.raises(perfectsched.NotFoundError):
        schedules["a"].delete()


def test_rounding(world: World, schedules: ScheduleCollection) -> None:
    """The first slot is at or after `next_time`, in the past too, and nothing runs before `next_run_time`."""
    assert add(schedules, next_time=START + 1, next_run_time=START + 500) == (60, 500)
    world.at(499)
    assert schedules.poll() is None
    world.at(500)
    assert catch_up(schedules) == [60, 120, 180, 240, 300, 360, 420]
    schedules["a"].delete()
    assert add(schedules, "b", delay=0, next_time=START + 121) == (180, 180)
    assert catch_up(schedules) == [180, 240, 300, 360, 420, 480]


def test_open_with_a_wrong_configuration(tmp_path: Path) -> None:
    """What can't be used is refused when it is opened: there a type that nobody knows was found at the first use."""
    right = {"type": "rdb_compat", "url": "memory:", "table": "t"}
    for wrong, said in (
        ({"type": None}, "'type' option is not set"),
        ({"type": "nope"}, "type: 'nope'"),
        ({"table": None}, "'table' option is not set"),
        ({"url": "oracle://h/d"}, "oracle"),
        ({"alive_time": "long"}, "alive_time"),
        ({"what": 1}, "what"),
        ({"timezone": "Mars/Base"}, "timezone: there is no time zone 'Mars/Base'"),
    ):
        with pytest.raises(perfectsched.ConfigError, match=said):
            perfectsched.open({**right, **wrong})
    perfectsched.open({**right, "log": str(tmp_path / "x.log"), "poll_interval": 1.0, "max_acquire": 2}).close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "None is no section"),
        ([], r"\[\] is no section"),
        ({"type": "rdb_compat", "url": "memory:", "table": "t", "alive_time": 0}, "alive_time"),
    ],
)
def test_what_is_no_configuration_is_refused(given: Any, said: str) -> None:
    """A section that the file does not have, or a time that is none, is told as a fault of the configuration."""
    with pytest.raises(perfectsched.ConfigError, match=said):
        perfectsched.open(given)
