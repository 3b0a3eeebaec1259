"""The configurations of Kōjō's README, and the cases of KojoFitness, as far as they concern the life of a run."""

import sqlite3
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tokimori
from tests.integration.acceptance.conftest import PATIENCE, Workplace, report
from tests.programs.forked import PROGRAM
from tokimori.errors import Refused, StoreError
from tokimori.model.job import JobState
from tokimori.model.run import SkipReason
from tokimori.model.transitions import RunState
from tokimori.service.views.runs import Run

LIMIT_FULL = 7
SHORT = "sleep 0.5"


def until(file: Path) -> str:
    """A command that works until this file is there, however long others take to ask for more of it."""
    return f"until test -e {file}; do sleep 0.05; done; {SHORT}"


def let_end(workplace: Workplace, job_id: str, file: Path) -> None:
    """Wait until five of its runs are at work, and let them end."""
    ends = time.monotonic() + PATIENCE
    while sum(run.state is RunState.RUNNING for run in workplace.runs(job_id)) < 5:
        assert time.monotonic() < ends
        time.sleep(0.05)
    file.touch()


def most_at_once(runs: Sequence[Run]) -> int:
    """How many of the runs were at work at the same time, at most."""
    moments = [(run.started or 0, 1) for run in runs] + [(run.ended or 0, -1) for run in runs]
    most = now = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most


def test_parallel_workers(workplace: Workplace, tmp_path: Path) -> None:
    """With a limit of 5 and 7 due, five run, two stand by, and each starts when a place is free; none is dropped."""
    workplace.client.jobs.add("parallel", command=until(tmp_path / "go"), max_running=5)
    for _ in range(7):
        workplace.client.jobs.trigger("parallel")
    let_end(workplace, "parallel", tmp_path / "go")
    assert workplace.states("parallel") == [["succeeded"] * 7]
    runs = workplace.runs("parallel")
    assert most_at_once(runs) == 5
    first_end = min(run.ended for run in runs if run.ended)
    assert sum(run.started >= first_end for run in runs if run.started) == 2


def test_parallel_workers_of_a_schedule(workplace: Workplace) -> None:
    """An occurrence above the limit becomes a skip with its reason: complete_failed_schedule_limit_check."""
    workplace.client.jobs.add("every-second", command="sleep 3", schedule="* * * * * *", max_running=1)
    end = time.monotonic() + PATIENCE
    while not (skips := workplace.client.jobs.skips("every-second")):
        assert time.monotonic() < end
        time.sleep(0.1)
    workplace.client.jobs.pause("every-second")
    workplace.states("every-second")
    assert {skip.reason for skip in skips} == {SkipReason.OVERLAP}
    assert most_at_once(workplace.runs("every-second")) == 1


def test_limit_and_allowance(workplace: Workplace, tmp_path: Path) -> None:
    """With limit 5 and allowance 5 five run and five wait; two more are refused, and every standby gets its place."""
    workplace.client.jobs.add("allowance", command=until(tmp_path / "go"), max_running=5, max_waiting=5)
    for _ in range(10):
        workplace.client.jobs.trigger("allowance")
    for _ in range(2):
        with pytest.raises(Refused, match="no more may wait"):
            workplace.client.jobs.trigger("allowance")
    let_end(workplace, "allowance", tmp_path / "go")
    assert workplace.states("allowance") == [["succeeded"] * 10]
    assert most_at_once(workplace.runs("allowance")) == 5


def test_a_singleton_worker(workplace: Workplace) -> None:
    """Only one works at a time, in order, and the next one begins when the one before has ended or failed."""
    workplace.client.jobs.add("singleton", command=f"{SHORT}; exit $TOKIMORI_PAYLOAD", max_running=1)
    for exit_code in ("0", "3", "0"):
        workplace.client.jobs.trigger("singleton", payload=exit_code)
    assert workplace.states("singleton") == [["succeeded", "failed", "succeeded"]]
    runs = workplace.runs("singleton")
    assert most_at_once(runs) == 1
    assert [run.started for run in runs] == sorted(run.started or 0 for run in runs)


def test_no_limit(workplace: Workplace) -> None:
    """A limit of 0 is none: all seven work at once."""
    workplace.client.jobs.add("unlimited", command="sleep 2", max_running=0)
    for _ in range(LIMIT_FULL):
        workplace.client.jobs.trigger("unlimited")
    assert workplace.states("unlimited") == [["succeeded"] * LIMIT_FULL]
    assert most_at_once(workplace.runs("unlimited")) == LIMIT_FULL


def test_dynamically_scheduled_workers(workplace: Workplace) -> None:
    """A job without a schedule runs only when asked: by a run with moment, importance and payload, its parent."""
    workplace.client.jobs.add("dynamic", command='echo "$TOKIMORI_PAYLOAD of $TOKIMORI_PARENT_RUN_ID"', max_running=0)
    asks = f"{PROGRAM} job trigger dynamic --at 2030-01-01T00:00:00Z --priority 7 --payload '\"later\"' --key one"
    now = f"{PROGRAM} job trigger dynamic --payload '\"now\"'"
    workplace.client.jobs.add("asks", command=f"{asks} && {asks} && {now}", env=workplace.environment)
    asking = workplace.run("asks")
    assert asking.state == "succeeded"
    later, soon = workplace.runs("dynamic")
    assert (later.state, later.priority, later.payload) == ("waiting", 7, '"later"')
    assert (later.due.microsecond, later.parent_id, soon.parent_id) == (0, asking.id, asking.id)
    workplace.client.runs.cancel(later.id)
    workplace.states("dynamic")
    output = workplace.client.runs.output(soon.id)
    assert output is not None
    assert output.head.decode() == f'"now" of {asking.id}\n'


def test_a_chain_that_reschedules_itself(workplace: Workplace) -> None:
    """KojoFitness 43: a worker may ask for its own next run; switching the job off ends the chain."""
    again = f"{PROGRAM} job trigger chain --payload $((TOKIMORI_PAYLOAD - 1))"
    text = f'[ "$TOKIMORI_PAYLOAD" = 0 ] || {again}'
    workplace.client.jobs.add("chain", command=text, env=workplace.environment)
    workplace.run("chain", payload="2")
    assert workplace.states("chain") == [["succeeded"] * 3]
    workplace.client.jobs.update("chain", command=f"sleep 1; {again}")
    last = workplace.until(workplace.client.jobs.trigger("chain", payload="9"), RunState.RUNNING)
    workplace.client.jobs.pause("chain")
    assert workplace.client.runs.wait(last.id, PATIENCE).state == "failed"
    assert len(workplace.runs("chain")) == 4


def test_automatic_completion(workplace: Workplace) -> None:
    """By default an exit code of 0 is a success."""
    workplace.client.jobs.add("automatic", command="true")
    assert workplace.run("automatic").state == "succeeded"


def test_explicit_completion(workplace: Workplace) -> None:
    """Without automatic completion a worker that forgets to report has panicked; one that reports is believed."""
    explicit: dict[str, Any] = {"auto_complete_success": False, "on_exhausted": "park"}
    workplace.client.jobs.add("forgets", command="true", **explicit)
    forgotten = workplace.run("forgets")
    assert (forgotten.state, forgotten.exit_code) == ("failed", 0)
    job = workplace.client.jobs.get("forgets")
    assert (job.state, job.reason) == (JobState.PARKED, forgotten.error)
    for number, (words, state) in enumerate((("succeeded", "succeeded"), ("failed 'no luck'", "failed"))):
        workplace.client.jobs.add(f"reports-{number}", command=report(words), **explicit)
        assert workplace.run(f"reports-{number}").state == state


def test_requests_of_a_worker(workplace: Workplace) -> None:
    """KojoFitness 45: it asks for a retry, then to be held, and goes on when resumed; each attempt is on record."""
    text = f"case $TOKIMORI_ATTEMPT in 1) {report('retry --in 0')};; 2) {report('hold look')};; esac"
    workplace.client.jobs.add("requests", command=text)
    run = workplace.client.jobs.trigger("requests")
    assert workplace.until(run, RunState.HELD).error == "look"
    workplace.client.runs.resume(run.id)
    assert workplace.client.runs.wait(run.id, PATIENCE).state == "succeeded"
    attempts = workplace.client.runs.get(run.id).attempts
    assert [each.outcome for each in attempts] == ["retry", "hold", "succeeded"]


def test_a_worker_that_panics(workplace: Workplace) -> None:
    """Its job is parked with the error, the node lives on, and nothing of the job runs until it is resolved."""
    workplace.client.jobs.add("panics", command="exit 70", on_exhausted="park")
    run = workplace.run("panics")
    job = workplace.client.jobs.get("panics")
    assert (run.state, job.state, job.reason) == ("failed", JobState.PARKED, "exit code 70")
    with pytest.raises(Refused):
        workplace.client.jobs.trigger("panics")
    workplace.client.jobs.update("panics", command="true")
    workplace.client.jobs.resolve("panics")
    assert workplace.run("panics").state == "succeeded"


def test_a_disabled_type(workplace: Workplace) -> None:
    """What it would have run by its schedule is on the ledger, and a request is refused; what runs goes on."""
    workplace.client.jobs.add("disabled", command="sleep 1", schedule="* * * * * *", max_running=1)
    end = time.monotonic() + PATIENCE
    while not any(run.state is RunState.RUNNING for run in workplace.runs("disabled")):
        assert time.monotonic() < end
        time.sleep(0.02)
    job = workplace.client.jobs.pause("disabled", "night")
    assert (job.state, job.reason) == (JobState.PAUSED, "night")
    with pytest.raises(Refused):
        workplace.client.jobs.trigger("disabled")
    running = [run for run in workplace.runs("disabled") if run.state is RunState.RUNNING]
    assert {workplace.client.runs.wait(run.id, PATIENCE).state for run in running} <= {RunState.SUCCEEDED}
    time.sleep(1.1)
    count = len(workplace.runs("disabled"))
    workplace.client.jobs.resume("disabled")
    reasons = {skip.reason for skip in workplace.client.jobs.skips("disabled")}
    workplace.client.jobs.pause("disabled", now=True)
    assert SkipReason.PAUSED in reasons
    assert count >= 1


def test_importance(workplace: Workplace) -> None:
    """Of those that wait, the more important ones go first."""
    workplace.client.jobs.add("important", command=SHORT, max_running=1, priority=5)
    first = workplace.until(workplace.client.jobs.trigger("important"), RunState.RUNNING)
    low = workplace.client.jobs.trigger("important", priority=-10)
    usual = workplace.client.jobs.trigger("important")
    high = workplace.client.jobs.trigger("important", priority=50)
    workplace.states("important")
    order = sorted(workplace.runs("important"), key=lambda run: run.started or 0)
    assert [run.id for run in order] == [first.id, high.id, usual.id, low.id]


def test_a_queue_is_drained(workplace: Workplace) -> None:
    """KojoFitness 40: all that waits is worked on to the end, and nothing of a job that was disabled meanwhile."""
    client = workplace.client
    client.jobs.add("never", command="false")
    waits = client.jobs.trigger("never", at=datetime.now(UTC) + timedelta(seconds=1))
    client.jobs.pause("never")
    for job in ("drained-1", "drained-2"):
        client.jobs.add(job, command="true", max_running=2)
        for _ in range(10):
            client.jobs.trigger(job)
    assert workplace.states("drained-1", "drained-2") == [["succeeded"] * 10] * 2
    time.sleep(1)
    assert client.runs.get(waits.id).state in (RunState.WAITING, RunState.READY)
    client.runs.cancel(waits.id)


def test_a_database_with_tables_of_others(tmp_path: Path) -> None:
    """KojoFitness 44: a file with tables of others, whatever their columns, is refused by name, and left as it is."""
    others = sqlite3.connect(tmp_path / "t.db")
    with others:
        others.execute("CREATE TABLE kojo_job (kojo_job_id BLOB, work_at_date_time REAL, priority TEXT)")
        others.execute("INSERT INTO kojo_job VALUES (x'00', 7.5, 'high')")
    before = list(others.iterdump())
    with (
        pytest.raises(StoreError, match="a database of another program, with a table kojo_job: name another file"),
        tokimori.open(f"sqlite://{tmp_path / 't.db'}") as client,
    ):
        client.jobs.add("mine", noop=True)
    assert list(others.iterdump()) == before
    others.close()
