"""Requested runs: kept once, listed newest first, cancelled where they stand."""

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, Worker, a_job, a_request, add_job, add_runs, later, state_of
from tokimori.errors import NotFound, Refused
from tokimori.model.attempt_notes import Notes, notes_row
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, Hold, RetryAt, Succeeded
from tokimori.model.retention import FIRST_ID
from tokimori.model.run import Output
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter, Store, Tally

NOBODY = RunId("00000000-0000-7000-8000-000000000000")


async def test_a_request_is_read_as_it_was_added(store: Store) -> None:
    """Every field of a run comes back."""
    job = await add_job(store)
    run = a_request(job, "key", due=later(5), payload='{"a": 1}', priority=7)
    assert await store.add_run(run, NOW) == run
    assert await store.get_run(run.id) == run
    assert (await store.survey(NOW)).next_due == later(5)


async def test_one_key_is_one_run(store: Store, worker: Worker) -> None:
    """A second request under the same key is answered with the first one's run, live or ended."""
    job, another = await add_job(store, "a"), await add_job(store, "b")
    first = await store.add_run(a_request(job, "key"), NOW)
    assert await store.add_run(a_request(job, "key"), NOW) == first
    assert (await store.add_run(a_request(another, "key"), NOW)).id != first.id
    for claimed in await worker.claim():
        await worker.settle(claimed)
    assert (await store.add_run(a_request(job, "key"), NOW)).id == first.id
    assert len(await store.list_runs(RunFilter())) == 2


async def test_many_requests_are_kept_together(store: Store, worker: Worker) -> None:
    """They are answered in their order, the known ones by their runs, and claimed in the order of their ids."""
    job = await add_job(store)
    ended, live = await store.add_run(a_request(job, "ended"), NOW), a_request(job, "live")
    for claimed in await worker.claim():
        await worker.settle(claimed)
    await store.add_run(live, NOW)
    asked = [a_request(job, key, payload=str(n)) for n, key in enumerate(["a", "ended", "b", "live", None])]
    answered = await store.add_runs(asked, NOW)
    assert [run.id for run in answered] == [asked[0].id, ended.id, asked[2].id, live.id, asked[4].id]
    assert [await store.get_run(run.id) for run in answered] == answered
    assert await store.add_runs(asked, NOW) == answered
    claimed_ids = [claimed.run.id for claimed in await worker.claim()]
    assert claimed_ids == sorted(run.id for run in answered if run.id != ended.id)


async def test_what_has_ended_is_not_begun_again(store: Store, worker: Worker) -> None:
    """A request whose answer was lost is made again, with the id that it had: its run may have ended meanwhile."""
    job = await add_job(store)
    asked = [a_request(job, "key"), a_request(job, "another")]
    await store.add_runs(asked, NOW)
    for claimed in await worker.claim():
        await worker.settle(claimed)
    answered = await store.add_runs(asked, NOW)
    assert [run.id for run in answered] == [run.id for run in asked]
    assert [run.state for run in answered] == [RunState.SUCCEEDED] * 2
    assert (await store.add_run(asked[0], NOW)).state is RunState.SUCCEEDED
    assert await worker.claim() == []


async def test_of_many_requests_all_are_refused_or_none(store: Store) -> None:
    """No place is too few for all that are new, though there is one; known ones need none."""
    job = await add_job(store, max_running=1, max_waiting=2)
    await store.add_run(a_request(job, "known"), NOW)
    with pytest.raises(Refused, match="no more may wait"):
        await store.add_runs([a_request(job, key) for key in ("known", "a", "b", "c")], NOW)
    assert len(await store.list_runs(RunFilter())) == 1
    assert len(await store.add_runs([a_request(job, key) for key in ("known", "a", "b")], NOW)) == 3
    assert len(await store.list_runs(RunFilter())) == 3


async def test_many_requests_are_refused_as_one_is(store: Store) -> None:
    """A stopped job takes none but known ones, and of a job that is gone there are none."""
    job = await add_job(store)
    known = await store.add_run(a_request(job, "known"), NOW)
    paused = replace(job, state=JobState.PAUSED, version=2)
    await store.replace_job(job, paused)
    with pytest.raises(Refused, match="is paused"):
        await store.add_runs([a_request(job, "known"), a_request(job)], NOW)
    assert [run.id for run in await store.add_runs([a_request(job, "known")], NOW)] == [known.id]
    with pytest.raises(NotFound):
        await store.add_runs([a_request(a_job("gone"))], NOW)


async def test_the_last_runs_of_jobs_are_listed_together(store: Store, worker: Worker) -> None:
    """So many of each job, live and ended, newest first; a job without runs, or that is not there, has none."""
    a, b, _ = [await add_job(store, name) for name in ("a", "b", "idle")]
    runs = [run for _ in range(3) for job in (a, b) for run in await add_runs(store, job, 1)]
    for claimed in await worker.claim(3):
        await worker.settle(claimed)
    newest = sorted((run.id for run in runs), reverse=True)
    of_a, of_b = ([run.id for run in runs if run.job_id == job.id] for job in (a, b))
    two_of_each = {*sorted(of_a)[-2:], *sorted(of_b)[-2:]}

    async def last(limit: int, *names: str) -> list[RunId]:
        return [run.id for run in await store.last_runs([JobId(name) for name in names], limit)]

    assert await last(2, "b", "idle", "nobody", "a") == [run_id for run_id in newest if run_id in two_of_each]
    assert await last(9, "a", "b") == newest
    assert await last(9, "b") == [run.id for run in await store.list_runs(RunFilter(job_id=b.id))]
    assert await last(1, "idle") == await last(1) == []
    for claimed in await worker.claim(3):  # the others run now
        assert claimed.run.id in await last(9, "a", "b")


async def test_the_ends_of_jobs_are_counted_together(store: Store, worker: Worker) -> None:
    """Of the runs since an id, how many have succeeded and failed; what is cancelled or lives counts for nothing."""
    a, b, _ = [await add_job(store, name) for name in ("a", "b", "idle")]
    of_a = sorted(run.id for run in await add_runs(store, a, 4))
    asked = [JobId(name) for name in ("b", "idle", "nobody", "a")]
    assert await store.tallies(asked, FIRST_ID) == []
    for claimed in await worker.claim():
        await worker.settle(claimed, Failed("no") if claimed.run.id in (of_a[1], of_a[3]) else Succeeded())
    first, second = await add_runs(store, b, 2)
    (claimed,) = await worker.claim(1)
    await worker.settle(claimed)
    assert sorted(await store.tallies(asked, FIRST_ID)) == [Tally(a.id, 2, 2), Tally(b.id, 1, 0)]
    assert await store.tallies([a.id], of_a[1]) == [Tally(a.id, 1, 2)]
    assert await store.tallies([a.id], of_a[3]) == [Tally(a.id, 0, 1)]
    await store.cancel_run(second.id if claimed.run.id == first.id else first.id, "no", NOW)
    assert await store.tallies([b.id], FIRST_ID) == [Tally(b.id, 1, 0)]
    assert await store.tallies([], FIRST_ID) == await store.tallies([JobId("nobody")] * 25, FIRST_ID) == []


async def test_jobs_are_read_together(store: Store) -> None:
    """However many are asked for: those that are there, each once."""
    jobs = [await add_job(store, f"job-{number:03}") for number in range(60)]
    for asked in (jobs, jobs[:51], jobs[:50], jobs[:1], []):
        found = await store.get_jobs([*(job.id for job in asked), JobId("nobody")])
        assert sorted(found, key=lambda job: job.id) == asked
    assert await store.get_jobs([]) == await store.get_jobs([JobId("nobody")]) == []


async def test_a_run_that_is_not_there_is_not_found(store: Store) -> None:
    """A run id that nobody has is said to be unknown."""
    with pytest.raises(NotFound, match=NOBODY):
        await store.get_run(NOBODY)
    with pytest.raises(NotFound, match=NOBODY):
        await store.cancel_run(NOBODY, "no", NOW)
    assert await store.attempts(NOBODY) == []
    assert await store.output(NOBODY, 1) is None


async def test_runs_are_listed_newest_first(store: Store, worker: Worker) -> None:
    """Live and ended runs are one list, by id, in pages, by job and by state."""
    a, b = await add_job(store, "a"), await add_job(store, "b")
    runs = [*await add_runs(store, a, 3), *await add_runs(store, b, 3)]
    for claimed in await worker.claim(3):
        await worker.settle(claimed)
    ids = sorted((run.id for run in runs), reverse=True)

    async def listed(**terms: object) -> list[RunId]:
        return [run.id for run in await store.list_runs(RunFilter(**terms))]  # type: ignore[arg-type]

    assert await listed() == ids
    assert await listed(limit=2) == ids[:2]
    assert await listed(before=ids[1], limit=3) == ids[2:5]
    assert set(await listed(job_id=JobId("a"))) == {run.id for run in runs[:3]}
    succeeded = await listed(states=frozenset({RunState.SUCCEEDED}))
    ready = await listed(states=frozenset({RunState.READY, RunState.BLOCKED}))
    assert sorted(succeeded + ready, reverse=True) == ids
    assert len(succeeded) == 3


@pytest.mark.parametrize("state", [RunState.WAITING, RunState.READY, RunState.BLOCKED, RunState.HELD])
async def test_a_run_that_has_not_started_is_cancelled_at_once(store: Store, worker: Worker, state: RunState) -> None:
    """A cancelled run that nobody carries out ends there, with the reason, and is never claimed."""
    job = await add_job(store, max_running=1)
    first, second = await add_runs(store, job, 2)
    if state in {RunState.BLOCKED, RunState.HELD}:
        (claimed,) = await worker.claim()
        if state is RunState.HELD:
            await worker.settle(claimed, Hold("look"))
    run = {
        RunState.WAITING: await store.add_run(a_request(job, due=later(9)), NOW),
        RunState.READY: second,
        RunState.BLOCKED: second,
        RunState.HELD: first,
    }[state]
    assert await state_of(store, run) is state
    ended = await store.cancel_run(run.id, "enough", later(1))
    assert (ended.state, ended.error, ended.ended) == (RunState.CANCELLED, "enough", later(1))
    assert await store.get_run(run.id) == ended
    await store.promote(later(60), 10)
    assert run.id not in [claimed.run.id for claimed in await worker.claim()]


async def test_a_running_run_is_ordered_to_end(store: Store, worker: Worker) -> None:
    """A cancelled run that runs goes on until its node, told with the next tick, ends it."""
    await add_runs(store, await add_job(store), 2)
    claimed, _ = await worker.claim()
    assert (await worker.tick()).cancels == ()
    await store.cancel_run(claimed.run.id, "enough", NOW)
    again = await store.cancel_run(claimed.run.id, "once more", NOW)
    assert (again.state, again.cancel) == (RunState.RUNNING, "enough")
    assert (await worker.tick()).cancels == ((claimed.run.id, claimed.run.token, "enough"),)


async def test_an_ended_run_is_not_cancelled(store: Store, worker: Worker) -> None:
    """What has ended stays as it is."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    await worker.settle(claimed)
    before = await store.get_run(claimed.run.id)
    assert await store.cancel_run(before.id, "enough", NOW) == before


async def test_a_run_that_waits_for_a_retry_is_cancelled(store: Store, worker: Worker) -> None:
    """A run between two attempts ends, and keeps what its last attempt did."""
    await add_runs(store, await add_job(store), 1)
    (claimed,) = await worker.claim()
    await worker.settle(claimed, RetryAt(later(60)))
    ended = await store.cancel_run(claimed.run.id, "enough", later(1))
    assert (ended.state, ended.attempt, ended.node_id) == (RunState.CANCELLED, 1, worker.id)
    assert [attempt.outcome for attempt in await store.attempts(ended.id)] == ["retry"]


async def test_outputs_are_searched_where_they_are(store: Store, worker: Worker) -> None:
    """Bytes are found in the head or the tail of the attempt that is named, as they are, and in no notes."""
    job = await add_job(store)
    texts = [(b"no luck: 100% of \xff\x00'\\", b""), (b"all", b"Luck \xc3\xbc"), (b"luck", b"luck")]
    ids = []
    for head, tail in texts:
        run = await store.add_run(a_request(job), NOW)
        (claimed,) = await worker.claim()
        ids.append(run.id)
        output = Output(run_id=run.id, attempt=1, size=len(head), head=head, tail=tail)
        await store.save_outputs([notes_row(run.id, Notes(attempt=1, progress=0.5, text="luck"))])
        await store.settle([worker.change(claimed, output=output)], worker.id, NOW)
    one, two, three = ids
    every = dict.fromkeys(ids, 1)
    assert sorted(await store.outputs_with(b"luck", every)) == sorted([one, three])
    assert await store.outputs_with("ck ü".encode(), every) == [two]
    assert await store.outputs_with(b"\xff\x00'\\", every) == [one]
    assert await store.outputs_with(b"luck", {one: 2, NOBODY: 1}) == []
    assert await store.outputs_with(b"luck", {}) == []
