"""A run that does not end costs its neighbours nothing that they can't bear, as processes, on two stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apps.conftest import until
from tests.integration.apps.test_never_begun_again import Till, below
from tests.integration.cli.conftest import stop
from tests.servers import postgres
from tokimori.model.settle import NEVER_AGAIN

APP = """
import ctypes, os, time
from pathlib import Path
import tokimori

app = tokimori.App("jobs")
HOME = Path(os.environ["HOME"])

def begins(name: str) -> None:
    with (HOME / name).open("a") as file:
        file.write("begun\\n")

def waits(name: str) -> None:
    begins(name)
    while not (HOME / f"end {name}").exists():
        time.sleep(0.05)

@app.job(timeout=0.3, timeout_grace=0.3)
def stuck() -> None:
    begins("stuck")
    time.sleep(1000)

@app.job(timeout_grace=0.3)
def stuck_in_c() -> None:
    begins("stuck_in_c")
    ctypes.CDLL(None).sleep(1000)

@app.job(retry={"attempts": 1, "lost_attempts": 0, "asked_retries": 0})
def charge() -> None:
    waits("charge")

@app.job(lost_attempts=0, attempts=1)
def slow() -> None:
    waits("slow")

@app.job(lost_attempts=1)
def twice() -> None:
    waits("twice")

@app.job(timeout_grace=60)
def deaf() -> None:
    begins("deaf")
    while True:
        try:
            time.sleep(0.05)
        except BaseException:
            pass

@app.job()
def exits() -> None:
    begins("exits")
    if not os.fork():
        os._exit(1)
    os._exit(3)

@app.job(lost_attempts=0)
def crashes() -> None:
    begins("crashes")
    os.kill(os.getpid(), 11)

@app.job(own_process=True, max_running=0)
def alone(ends: str = "") -> int:
    begins("alone")
    if ends:
        os._exit(3)
    while not (HOME / "end alone").exists():
        time.sleep(0.05)
    return os.getpid()

@app.job()
def last() -> None:
    begins("last")
"""


@pytest.fixture(params=["sqlite", "postgres"])
def till(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Till]:
    """One on each store."""
    if request.param == "sqlite":
        yield Till(tmp_path, app=APP)
        return
    yield Till(tmp_path, postgres.server().make("drained"), app=APP)
    postgres.server().drop("drained")


def test_the_neighbours_of_a_stuck_function_go_on_to_their_ends(till: Till) -> None:
    """Another process takes over at once; it is ended as soon as nothing runs there but what does not end."""
    till.environment["TOKIMORI_NODE_STOP_GRACE"] = "30"
    node = till.open()
    try:
        runs = till.begin("charge", "slow", "stuck")
        (old,) = below(node.pid, "tokimori-worker")
        until(lambda: "draining for run" in till("run", "why", runs["charge"]))
        assert runs["stuck"] in till("run", "why", runs["charge"])
        assert till.seen(runs["stuck"])["state"] == "running"
        till.outcome("last")
        assert (till.home / "last").read_text() == "begun\n"
        for job in ("charge", "slow"):
            (till.home / f"end {job}").touch()
            until(lambda job=job: till.seen(runs[job])["state"] == "succeeded")  # type: ignore[misc]
        until(lambda: old not in below(node.pid, "tokimori-worker"))
        until(lambda: till.seen(runs["stuck"])["state"] == "failed")
        assert "took longer than" in till.seen(runs["stuck"])["error"]
        assert {till.seen(runs[job])["attempt"] for job in ("charge", "slow")} == {1}
    finally:
        assert stop(node) == 0
    till.begun_once()


@pytest.mark.prove
def test_what_still_runs_when_the_time_is_over_is_lost(till: Till) -> None:
    """It counts, it is begun again only as far as its job allows, and says which run was at fault: cancelled in C."""
    till.environment["TOKIMORI_APP_DRAIN"] = "1"
    node = till.open()
    try:
        runs = till.begin("charge", "twice", "stuck_in_c")
        till("run", "cancel", runs["stuck_in_c"])
        until(lambda: till.seen(runs["charge"])["state"] == "failed")
        because = f"Worker process 1 was stopped because run {runs['stuck_in_c']} ignored the order to end"
        assert till.seen(runs["charge"])["error"] == f"{because}; {NEVER_AGAIN}"
        until(lambda: till.seen(runs["twice"])["attempt"] == 2)
        (lost,) = [each for each in till.json("run", "show", runs["twice"])["attempts"] if each["outcome"] == "lost"]
        assert (lost["error"], till.seen(runs["twice"])["lost"]) == (f"{because}.", 1)
        until(lambda: till.seen(runs["stuck_in_c"])["state"] == "cancelled")
        assert f"run {runs['stuck_in_c']} of stuck_in_c does not end; also in it: run " in till.log.read_text()
        (till.home / "end twice").touch()
        until(lambda: till.seen(runs["twice"])["state"] == "succeeded")
    finally:
        assert stop(node) == 0
    till.begun_once()


def test_a_node_that_stops_begins_nothing_again_beside_a_stuck_function(till: Till) -> None:
    """At TERM, after its grace, what is ended with it is lost if it still ran, and fails if it may not be lost."""
    node = till.open()
    runs = till.begin("charge", "deaf", "stuck_in_c")
    assert stop(node) == 0
    till.failed(runs["charge"], "its node stopped it")
    deaf = till.seen(runs["deaf"])
    assert (deaf["state"], deaf["lost"]) == ("ready", 1)
    assert f"because run {runs['stuck_in_c']} ignored the order to end" in deaf["error"]
    till.begun_once()


def test_a_function_that_ends_its_process_fails_and_its_neighbours_name_it(till: Till) -> None:
    """It is known where it says so (`os._exit`): it has failed by itself; else all that ran there are named."""
    node = till.open()
    try:
        runs = till.begin("charge", "twice", "exits")
        until(lambda: till.seen(runs["exits"])["state"] == "failed")
        ended = till.seen(runs["exits"])
        assert (ended["error"], ended["attempt"], ended["lost"]) == ("it ended its worker process: os._exit(3)", 1, 0)
        until(lambda: till.seen(runs["charge"])["state"] == "failed")
        by = f"its worker process was ended by run {runs['exits']} "
        assert till.seen(runs["charge"])["error"].startswith(by)
        until(lambda: till.seen(runs["twice"])["attempt"] == 2)
        assert f"run {runs['exits']} of exits ended its worker process" in till.log.read_text()
        crash = till.begin("crashes")["crashes"]
        until(lambda: till.seen(crash)["state"] == "failed")
        until(lambda: till.seen(runs["twice"])["attempt"] == 3)
        *_, lost = [each for each in till.json("run", "show", runs["twice"])["attempts"] if each["outcome"] == "lost"]
        assert f"; beside it ran run {crash}" in lost["error"]
        (till.home / "end twice").touch()
        until(lambda: till.seen(runs["twice"])["state"] == "succeeded")
    finally:
        assert stop(node) == 0
    till.begun_once()


@pytest.mark.parametrize("till", ["sqlite"], indirect=True)
def test_a_run_with_a_process_of_its_own_shares_it_with_nobody(till: Till) -> None:
    """It is started for it and ended afterwards, also where a definition says so; who ends it takes nobody along."""
    till("job", "add", "told", "--function", "jobs.alone", "--own-process")
    assert till.error("job", "add", "no", "--own-process", "--", "true")["field"] == "own_process"
    node = till.open()
    try:
        (common,) = below(node.pid, "tokimori-worker")
        runs = [till.json("job", "trigger", job)["id"] for job in ("alone", "alone", "told", "charge")]
        for job in ("charge", "alone"):
            until(lambda job=job: (till.home / job).exists())  # type: ignore[misc]
        until(lambda: (till.home / "alone").read_text() == 3 * "begun\n")
        assert len(below(node.pid, "tokimori-worker")) == 4
        ended = till.outcome("alone", '{"ends": "so"}', code=1)
        assert (ended["error"], ended["lost"]) == ("it ended its worker process: os._exit(3)", 0)
        (till.home / "end alone").touch()
        until(lambda: all(till.seen(run)["state"] == "succeeded" for run in runs[:3]))
        pids = {till.seen(run)["result"] for run in runs[:3]}
        assert len(pids - {str(common)}) == 3
        until(lambda: below(node.pid, "tokimori-worker") == [common])
        assert till.seen(runs[3])["state"] == "running"
    finally:
        assert stop(node) == 0
