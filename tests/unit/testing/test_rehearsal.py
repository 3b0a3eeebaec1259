"""An app is rehearsed: in no time, on a store of its own, with what a real node would do."""

import asyncio
import datetime
import math

import pytest

import tokimori
from tokimori.testing import Rehearsal, fixture

app = tokimori.App("shop")
done: list[str] = []


@app.job("0 9 * * *", time_zone="Europe/Berlin")
def nightly() -> str:
    """Is run each day."""
    print("a report")
    return tokimori.current_task().scheduled_at.isoformat()


@app.job(attempts=3, retry_delay=60)
def flaky(name: str) -> None:
    """Succeeds at its third attempt."""
    done.append(name)
    if tokimori.current_task().attempt < 3:
        raise ValueError("not yet")


@app.job()
async def slow() -> int:
    """A coroutine, that asks for a run of another function."""
    await asyncio.sleep(0)
    await flaky.aenqueue("from slow")
    return 7


@app.job
def waits() -> int:
    """Waits for another run, which has no place to run in."""
    return slow.enqueue().result()


@app.job
def double(number: int) -> int:
    """Fails for what is negative."""
    if number < 0:
        raise ValueError("negative")
    return 2 * number


@app.job
def total(numbers: list[int]) -> int:
    """Is behind several."""
    return sum(numbers)


@app.job
def each(numbers: list[int]) -> list[int]:
    """Waits for several."""
    return tokimori.spawn([double.request(number) for number in numbers])


@app.job
def tell() -> str:
    """Names the jobs that have failed."""
    return str([parent.job_id for parent in tokimori.current_task().parents()])


@app.job(attempts=2)
def careful() -> object:
    """Goes on where it was."""
    task = tokimori.current_task()
    if task.attempt == 1:
        task.checkpoint({"page": 4})
        task.retry(after=5)
    return task.checkpointed


@app.job()
def stuck() -> None:
    """Says that somebody has to look at it."""
    tokimori.current_task().hold("look")


@app.job(timeout=90)
def hurried() -> str | None:
    """Says until when it has time."""
    deadline = tokimori.current_task().deadline
    return None if deadline is None else deadline.isoformat()


rehearsal = fixture(app, at="2026-01-01T00:00:00Z")


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    """Each test begins anew."""
    done.clear()


@pytest.mark.parametrize("days", [190, pytest.param(365, marks=pytest.mark.prove)])
def test_a_year_passes_at_once(rehearsal: Rehearsal, days: int) -> None:
    """Each occurrence is run at its moment, on the days of its zone, with its own clock."""
    rehearsal.pass_time(days=days)
    runs = rehearsal.runs("nightly")
    assert len(runs) == days
    assert {run.state for run in runs} == {"succeeded"}
    assert runs[0].result == '"2026-01-01T08:00:00+00:00"'
    assert runs[180].result == '"2026-06-30T07:00:00+00:00"'
    output = rehearsal.client.runs.output(runs[0].id)
    assert output is not None and b"a report" in output.head + output.tail


def test_what_is_enqueued_runs_when_it_is_due(rehearsal: Rehearsal) -> None:
    """Now, or at a moment; retries come after their delay."""
    first = flaky.enqueue("now")
    later = flaky.at(datetime.datetime(2026, 1, 1, 5, tzinfo=datetime.UTC)).enqueue("later")
    rehearsal.run_due()
    assert done == ["now"]
    rehearsal.drain()
    assert done == ["now"] * 3 + ["later"] * 3
    assert [run.id for run in rehearsal.runs("flaky")] == [first.id, later.id]
    assert [run.attempt for run in rehearsal.runs("flaky")] == [3, 3]
    assert rehearsal.runs("nightly") == []


def test_whoever_waits_for_a_result_lets_time_pass(rehearsal: Rehearsal) -> None:
    """As much as the run needs, and no more than is given."""
    handle = flaky.enqueue("waits")
    with pytest.raises(tokimori.RunNotEnded):
        handle.result(timeout=90)
    assert handle.result() is None
    assert (handle.attempt, done) == (3, ["waits"] * 3)
    assert tokimori.gather([slow.enqueue(), slow.after("1d").enqueue()]) == [7, 7]
    failing = tokimori.as_completed([waits.enqueue()])
    with pytest.raises(tokimori.RunFailed, match="may need the last free place of this worker process") as refused:
        next(iter(failing)).result()
    assert "a rehearsal runs one function after the other" in refused.value.traceback


def test_families_are_rehearsed(rehearsal: Rehearsal) -> None:
    """A join gets the list of all results; what is left out says which run has failed, also behind another one."""
    numbers = [double.request(n) for n in (1, 2)]
    assert tokimori.all(numbers).then(total.request()).enqueue().result() == 6
    assert each.enqueue([3, 4]).result() == [6, 8]
    bad = tokimori.all([*numbers, double.request(-1), double.request(5)]).then(total.request())
    handles = bad.then(double.request()).on_failure(tell.request()).enqueue()
    for left_out in (handles, handles[4]):
        with pytest.raises(tokimori.RunFailed, match="of double ended as failed: ValueError: negative") as failed:
            left_out.result()
        assert (failed.value.type, failed.value.run_id) == ("ValueError", handles[2].id)
    assert handles[-1].result() == "['double']"
    good = double.request(1).on_failure(tell.request()).enqueue()
    with pytest.raises(tokimori.RunFailed, match="was not made: none before it has failed"):
        good[1].result()


async def test_so_do_tests_on_a_loop(rehearsal: Rehearsal) -> None:
    """With the calls that are awaited."""
    handles = [await flaky.aenqueue("first"), await flaky.aenqueue("second")]
    assert await tokimori.agather(handles) == [None, None]
    assert await (await slow.aenqueue()) == 7
    assert len(done) >= 6


def test_a_function_asks_for_others(rehearsal: Rehearsal) -> None:
    """Coroutines too; what it asked for has it as its parent."""
    run = slow.enqueue()
    rehearsal.run_due()
    (asked,) = rehearsal.runs("flaky")
    assert (asked.parent_id, done) == (run.id, ["from slow"])
    assert rehearsal.client.runs.get(run.id).result == "7"


def test_a_function_has_its_time_from_the_moment_of_the_rehearsal(rehearsal: Rehearsal) -> None:
    """Not from that of the machine."""
    run = hurried.enqueue()
    rehearsal.run_due()
    assert rehearsal.client.runs.get(run.id).result == '"2026-01-01T00:01:30+00:00"'


def test_an_attempt_gets_what_the_one_before_has_kept(rehearsal: Rehearsal) -> None:
    """As on a real node."""
    careful.enqueue()
    rehearsal.drain()
    assert [run.result for run in rehearsal.runs("careful")] == ['{"page":4}']


def test_a_drain_ends(rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nothing will ever end is named: after a year, of which a week is tried."""
    monkeypatch.setattr("tokimori.testing.rehearsal.MOST_OF_A_DRAIN", datetime.timedelta(days=7))
    run = stuck.enqueue()
    with pytest.raises(tokimori.Refused, match=f"the run {run.id} of stuck is still held") as refused:
        rehearsal.drain()
    assert refused.value.field == "run"


def test_an_app_is_in_one_rehearsal_at_a_time(rehearsal: Rehearsal) -> None:
    """Its functions are asked for in one store; afterwards it is free again."""
    with pytest.raises(tokimori.Refused, match="uses a store already"), Rehearsal(app):
        pass
    with pytest.raises(tokimori.InvalidInput, match="time goes on only"):
        rehearsal.pass_time(seconds=-1)
    for span in (math.nan, math.inf, 1e12):
        with pytest.raises(tokimori.InvalidInput, match=r"seconds: .* is not a length of time"):
            rehearsal.pass_time(days=span)


def test_what_outlives_its_rehearsal_is_refused() -> None:
    """A handle would open the app's own store, and find no such run there."""
    own = app.ways
    with Rehearsal(app) as begun:
        handle = double.enqueue(1)
    for act in (handle.result, handle.refresh, lambda: asyncio.run(handle.arefresh()), begun.runs, begun.drain):
        with pytest.raises(
            tokimori.Refused, match="the rehearsal of the app 'shop' has not begun, or is over, and its"
        ):
            act()
    assert (app.ways, app._client) == (own, None)
    with pytest.raises(tokimori.Refused, match="has not begun"):
        Rehearsal(app).runs()


def test_the_same_seed_makes_the_same_ids() -> None:
    """So that a test that failed can be run again."""
    ids = []
    for _ in range(2):
        with Rehearsal(app, seed=7) as begun:
            begun.pass_time(days=2)
            ids.append([run.id for run in begun.runs()])
    assert ids[0] == ids[1] != []


def test_what_a_hook_requests_is_in_the_rehearsal() -> None:
    """Its requests at the start reach the store of the rehearsal, as those of functions do."""
    begun = tokimori.App("begun")

    @begun.job
    def first() -> int:
        return 1

    @begun.on_start
    async def start() -> None:
        await first.aenqueue()

    with Rehearsal(begun) as rehearsal:
        rehearsal.run_due()
        assert [run.result for run in rehearsal.runs()] == ["1"]
