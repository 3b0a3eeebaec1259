"""What is said of a keeper that died."""

from tests.integration.executors.workshop import a_task, shell
from tokimori.executors.functions.attempts import lost_with_process
from tokimori.executors.reported import how, lost_with, said_of
from tokimori.model.ids import JobId, RunId
from tokimori.model.outcome import Lost
from tokimori.model.suspicion import Judgement, Suspicion
from tokimori.ports.executor import AttemptTask


def tasks(count: int) -> list[AttemptTask]:
    """So many runs, each of a job of its own."""
    return [a_task(f"r{number}", shell("true"), job_id=JobId(f"j{number}")) for number in range(count)]


def judged(counts: int, *suspects: str, culprit: str | None = None) -> Judgement:
    """What run r0 has to answer for, and who is suspect."""
    return Judgement(
        suspicion=Suspicion(),
        counts={RunId("r0"): counts},
        suspects=tuple(map(JobId, suspects)),
        culprit=None if culprit is None else JobId(culprit),
    )


def test_a_run_is_told_how_its_keeper_died() -> None:
    """The reason names the keeper and its end, and if other jobs ran beside it."""
    (task,) = tasks(1)
    assert lost_with(7, -9, task, judged(4)) == Lost("its keeper died (pid 7, signal 9, SIGKILL)", 4)
    beside = "its keeper died, beside other jobs (pid 7, exit code 1)"
    assert lost_with(7, 1, task, judged(0)) == Lost(beside, 0)


def test_what_a_death_of_a_worker_process_counts_is_not_said_before_it_is_settled() -> None:
    """A job that may lose no attempt does not begin the run again, whatever it counts: that is one sentence."""
    one, other = tasks(2)
    beside = "its worker process died (signal 9); beside it ran run r1"
    for counts in (0, 1):
        assert lost_with_process("signal 9", one, [one, other], counts, None) == Lost(beside, counts)


def test_the_log_says_who_went_with_it() -> None:
    """The keeper, its end, and the runs, of which at most ten are named."""
    assert said_of("keeper", "keeper 7", how(7, -9), tasks(2), judged(0)) == [
        "a keeper died (pid 7, signal 9, SIGKILL); lost with it: run r0 of j0, run r1 of j1"
    ]
    (line,) = said_of("keeper", "keeper 7", how(7, 3), tasks(12), judged(0))
    assert line.startswith("a keeper died (pid 7, exit code 3); ")
    assert line.endswith("run r9 of j9 and 2 more")
    assert said_of("keeper", "keeper 7", how(7, 3), [], judged(0)) == [
        "a keeper died (pid 7, exit code 3); lost with it: nothing"
    ]


def test_the_log_says_whom_to_look_at() -> None:
    """Who runs apart from now on, and in the end who did it."""
    _, line = said_of("keeper", "keeper 7", how(7, -9), tasks(2), judged(0, "j0", "j1"))
    assert line == "these jobs ran when several keepers died, and get keepers of their own: j0, j1"
    _, line = said_of("worker process", "it", how(7, -9), tasks(2), judged(0, "j0", "j1"))
    assert line == "these jobs ran when several worker processes died, and get worker processes of their own: j0, j1"
    _, line = said_of("keeper", "keeper 7", how(7, -9), tasks(1), judged(4, "j0", culprit="j0"))
    assert line == "only job j0 ran when keeper 7 died: look at what its runs end"
