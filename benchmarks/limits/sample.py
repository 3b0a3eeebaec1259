"""Whether the rows that were filled in are such as the product makes."""

from benchmarks.limits.verbs import Bench
from tokimori.model.lanes import lane_of
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter

_OWN = {"id", "job_id", "incarnation", "origin", "nominal", "due", "rank", "lane", "created", "node_id"}
_WHEN = {"started", "ended"}


async def check_sample(bench: Bench) -> None:
    """Ask for a run, end two, one of them badly, and compare them with those that lay there."""
    job, big = bench.filled.queued[-1], bench.filled.big
    asked = await bench.service.jobs.trigger(job.id)
    (made,) = await bench.store.list_runs(RunFilter(job_id=big.id, states=frozenset({RunState.READY}), limit=1))
    _check_alike(await bench.store.get_run(asked.id), made)
    outcomes: dict[RunState, Outcome] = {RunState.SUCCEEDED: Succeeded(0), RunState.FAILED: Failed("broken")}
    for state, outcome in outcomes.items():
        (claimed,) = await bench.claim([lane_of(job.definition)], 1)
        await bench.settle(outcome)
        wanted = RunFilter(job_id=big.id, states=frozenset({state}), limit=1)
        (filled,) = await bench.store.list_runs(wanted)
        _check_alike(await bench.store.get_run(claimed.run.id), filled)
        for ended, lying in zip(
            *[await bench.store.attempts(each) for each in (claimed.run.id, filled.id)], strict=True
        ):
            assert (ended.outcome, ended.error) == (lying.outcome, lying.error)


def _check_alike(ours: Run, filled: Run) -> None:
    for name in set(Run.__struct_fields__) - _OWN - _WHEN:
        assert getattr(ours, name) == getattr(filled, name), f"{name}: {ours} is not as {filled}"
    for name in _WHEN:
        assert (getattr(ours, name) is None) == (getattr(filled, name) is None), f"{name}: {ours} is not as {filled}"
