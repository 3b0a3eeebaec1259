"""The checks of a soak find what each of them is there for: each fault is put into what a whole soak would leave."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cluster import witness
from tests.cluster.soak_proof import LAG, Account, Spans, broken
from tests.cluster.witness import attest
from tests.unit import examples
from tests.unit.examples import NEW_YEAR, seconds
from tokimori.clock import SECOND, Moment
from tokimori.model.ids import JobId, RunId
from tokimori.model.run import Run, Skip, SkipReason
from tokimori.model.settle import NEVER_AGAIN
from tokimori.model.transitions import RunState

SECONDS = 300
LOST = RunState.FAILED, f"node n died; {NEVER_AGAIN}"


def a_run(name: str, second: float, state: RunState = RunState.SUCCEEDED, error: str | None = None) -> Run:
    """A run of this second that took one attempt."""
    run_id = RunId(f"{name}-{second}")
    return examples.a_run(id=run_id, job_id=JobId(name), nominal=seconds(second), state=state, error=error)


def an_account(name: str, runs: Sequence[Run] | None = None, skips: Sequence[Skip] = ()) -> Account:
    """A job of every second, all of whose occurrences have run unless other runs are given."""
    made = [a_run(name, second) for second in range(1, SECONDS + 1)] if runs is None else runs
    times = {"created": NEW_YEAR, "asked": seconds(SECONDS + 0.5), "acknowledged": seconds(SECONDS + 0.6)}
    return Account(name=name, schedule="* * * * * *", runs=made, skips=skips, **times)


def lines_of(*accounts: Account) -> list[list[str]]:
    """What the attempts of all these runs have written."""
    runs = [run for account in accounts for run in account.runs]
    return [
        [word, run.job_id, run.id, str(run.attempt), "77"] for run in runs for word in (witness.BEGAN, witness.ENDED)
    ]


def without(name: str, *seconds: int) -> list[Run]:
    """All runs of a job but for these."""
    return [a_run(name, second) for second in range(1, SECONDS + 1) if second not in seconds]


def a_skip(first: int, last: int, reason: SkipReason = SkipReason.MISFIRE, count: int | None = None) -> Skip:
    """Skipped from one second to the other."""
    return Skip(
        first=seconds(first), last=seconds(last), count=last - first + 1 if count is None else count, reason=reason
    )


def ended(name: str, state: RunState, error: str | None) -> Account:
    """A job whose tenth run has ended so."""
    return an_account(name, [*without(name, 10), a_run(name, 10, state, error)])


def faults_of(*accounts: Account, spans: Spans = ()) -> list[str]:
    """What is wrong, if the attempts have written what they should."""
    return broken(accounts, lines_of(*accounts), spans)


def test_a_whole_soak_has_no_fault() -> None:
    """Lost attempts of jobs that allow none, limits that leave out, and a skip as the clock was wrong, are none."""
    light = an_account("light", without("light", 7), [a_skip(7, 7, SkipReason.OVERLAP)])
    tick = an_account("tick", [*without("tick", 101, 102, 103), a_run("tick", 172_800)], [a_skip(101, 103)])
    assert faults_of(light, tick, ended("bill", *LOST), spans=[(seconds(101), seconds(110))]) == []
    stuck = an_account("stuck", [a_run("stuck", second, RunState.FAILED, "too long") for second in range(1, 301)])
    assert faults_of(stuck) == []


@pytest.mark.parametrize(
    ("account", "fault"),
    [
        (an_account("tick", without("tick", 9)), "tick: 1 occurrences are neither run nor skip, the first"),
        (an_account("tick", [*without("tick"), a_run("tick", 9)]), "tick: 2 runs at"),
        (an_account("tick", [*without("tick"), a_run("tick", 9.5)]), "tick: a run at"),
        (an_account("tick", [a_run("tick", n) for n in range(1, 230)], [a_skip(230, 300)]), "tick: nothing has fired"),
        (an_account("tick", without("tick", 101, 102), [a_skip(101, 102, count=3)]), "tick: 3 occurrences are said"),
        (an_account("tick", without("tick", 101, 102, 103), [a_skip(101, 103)]), "tick: 3 left out"),
        (an_account("light", without("light", 7), [a_skip(7, 7)]), "light: 1 left out"),
        (an_account("light", without("light", 7), [a_skip(7, 7, SkipReason.PARKED)]), "light: 1 left out"),
        (an_account("tick", without("tick", 7), [a_skip(7, 7, SkipReason.OVERLAP)]), "tick: 1 left out"),
        (ended("tick", RunState.RUNNING, None), "run tick-10 of tick is running"),
        (ended("tick", *LOST), "run tick-10 of tick is failed: node n died"),
        (ended("bill", RunState.FAILED, "exit code 1"), "run bill-10 of bill is failed: exit code 1"),
        (ended("stuck", RunState.SUCCEEDED, None), "run stuck-1 of stuck is succeeded"),
    ],
)
def test_each_fault_of_a_job_is_found(account: Account, fault: str) -> None:
    """A run too few, too many, at no moment, left out without a reason, or one that has not ended as it may."""
    assert any(found.startswith(fault) for found in faults_of(account)), faults_of(account)


@pytest.mark.parametrize("first", [seconds(102) + LAG, seconds(0)])
def test_a_wrong_clock_explains_only_what_is_skipped_meanwhile(first: Moment) -> None:
    """Not what it leaves out before or after."""
    tick = an_account("tick", without("tick", 101, 102, 103), [a_skip(101, 103)])
    assert len(faults_of(tick, spans=[(first, Moment(first + 60 * SECOND))])) == 1


def _doubled(lines: list[list[str]]) -> None:
    lines.append(lines[0])


def _again(lines: list[list[str]]) -> None:
    lines.append([witness.BEGAN, "bill", "bill-1", "2", "78"])


def _unknown(lines: list[list[str]]) -> None:
    lines.append([witness.BEGAN, "bill", "bill-x", "1", "78"])


def _unended(lines: list[list[str]]) -> None:
    lines.remove([witness.ENDED, "bill", "bill-9", "1", "77"])


def _exceeded(lines: list[list[str]]) -> None:
    lines.append([witness.EXCEEDED, "bill", "bill-9", "1", "two:3>2:a,b,c", "77"])


@pytest.mark.parametrize(
    ("put", "faults"),
    [
        (_doubled, ["run bill-1: attempt 1 began 2 times"]),
        (
            _again,
            [
                "run bill-1: attempt 2 began, and the store knows nothing of it",
                "run bill-1 of bill began 2 times against its word",
            ],
        ),
        (_unknown, ["run bill-x: attempt 1 began, and the store knows nothing of it"]),
        (_unended, ["run bill-9 of bill succeeded, and its attempt 1 never ended"]),
        (_exceeded, ["exceeded bill bill-9 1 two:3>2:a,b,c 77"]),
    ],
)
def test_each_fault_that_an_attempt_witnesses_is_found(
    put: Callable[[list[list[str]]], None], faults: Sequence[str]
) -> None:
    """An attempt doubled, one too many, one that nobody knows, one that never ended, and a limit that is exceeded."""
    account = an_account("bill")
    lines = lines_of(account)
    put(lines)
    assert broken([account], lines, []) == faults


def test_a_lost_attempt_that_is_begun_again_by_the_store_too_is_against_its_word() -> None:
    """Though the store itself says that it has begun twice."""
    account = an_account("bill", [replace(run, attempt=2) for run in without("bill")])
    lines = [*lines_of(account), [witness.BEGAN, "bill", "bill-1", "1", "78"]]
    assert broken([account], lines, []) == ["run bill-1 of bill began 2 times against its word"]


@contextmanager
def holding(folder: Path, run: str, limit: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a run that has begun, and holds this limit until it is killed."""
    environment = {"TOKIMORI_JOB_ID": "job", "TOKIMORI_RUN_ID": run, "TOKIMORI_ATTEMPT": "1"}
    words = [sys.executable, "-IS", witness.__file__, str(folder), "60", limit]
    process = subprocess.Popen(words, env=environment)
    name = limit.partition("=")[0]
    while not list(folder.glob(f"held/{name}/{run}.*")):
        assert process.poll() is None
    yield process
    process.kill()
    process.wait()


def exceeded(folder: Path) -> list[str]:
    """The limits that the witnesses have seen exceeded."""
    lines = (folder / "witnessed").read_text().splitlines()
    return [line.split()[4].partition(":")[2].partition(":")[0] for line in lines if line.startswith(witness.EXCEEDED)]


def test_processes_witness_the_limit_that_they_exceed_together(tmp_path: Path) -> None:
    """The heavy one beside a light one; but none that comes where another has been killed."""
    with holding(tmp_path, "a", "of=2"), holding(tmp_path, "b", "of=2") as killed:
        killed.kill()
        killed.wait()
        with holding(tmp_path, "c", "of=2"), attest(tmp_path, "job", "d", 1, ["other=2"]):
            assert exceeded(tmp_path) == []
            with attest(tmp_path, "job", "e", 1, ["of=2:2"]):
                assert exceeded(tmp_path) == ["4>2"]
