"""Functions that fork: the child runs nothing of the node's, and says nothing in its parent's name."""

import os
from collections.abc import Iterator

import pytest

from tests.integration.apps.conftest import AppProgram
from tests.integration.cli.conftest import lent, stop
from tests.laws import one_in

APP = """
import asyncio, os, sys, time
import multiprocessing
import tokimori

app = tokimori.App("jobs")

def child(how):
    task = tokimori.current_task()
    task.progress(0.5, "from the child")
    if how == "raises":
        raise ValueError("in the child")
    if how == "exits":
        sys.exit(3)
    if how == "lives":
        time.sleep(60)
    print("said by the child")

def reaped(pid, how):
    if how == "lives":
        return str(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

@app.job(max_running=0)
def thread(how: str) -> object:
    print("before")
    if (pid := os.fork()) == 0:
        return child(how)
    return reaped(pid, how)

@app.job(max_running=0)
async def coroutine(how: str) -> object:
    print("before")
    await asyncio.sleep(0)
    if (pid := os.fork()) == 0:
        if how == "awaits":
            await asyncio.sleep(0)
        return child(how)
    return reaped(pid, how)

@app.job(max_running=0)
async def beside(seconds: float) -> int:
    for _ in range(100):
        await asyncio.sleep(0)
    return os.getpid()

@app.job(max_running=0)
async def pooled() -> int:
    process = multiprocessing.get_context("fork").Process(target=child, args=("returns",))
    process.start()
    process.join()
    return process.exitcode

@app.job(max_running=0)
def where() -> int:
    return os.getpid()
"""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProgram]:
    """One with this app, in one process, on each store."""
    program = AppProgram(tmp_path_factory.mktemp("forks"))
    program.app.write_text(APP)
    with lent(program, request.param):
        node = program.work("--processes", "1")
        try:
            yield program
        finally:
            assert stop(node) == 0


@pytest.mark.parametrize("how", one_in(2, ["returns", "raises", "exits", "awaits", "lives"]))
@pytest.mark.parametrize("job", ["thread", "coroutine"])
def test_the_child_of_a_function_owns_nothing_of_the_node(program: AppProgram, job: str, how: str) -> None:
    """It ends as a program does where it comes back up the stack, and all runs are those of the worker process."""
    if (job, how) == ("thread", "awaits"):
        how = "returns"
    worker = int(program.outcome("where")["result"])
    beside = [program.json("job", "trigger", "beside", "--payload", '{"seconds": 1}')["id"] for _ in range(2)]
    run = program.outcome(job, f'{{"how": "{how}"}}')
    assert (run["attempt"], run["progress"]) == (1, None)
    if how == "lives":
        assert int(run["result"].strip('"')) != worker
    else:
        assert int(run["result"]) == {"returns": 0, "raises": 1, "exits": 3, "awaits": 1}[how]
    assert program("run", "logs", run["id"]) == "before\n"
    for _ in range(3):
        assert int(program.outcome("where")["result"]) == worker
    assert {program.json("run", "show", each)["result"] for each in beside} == {str(worker)}


def test_a_process_of_multiprocessing_ends_by_itself(program: AppProgram) -> None:
    """It returns to whoever made it, and not to the worker process."""
    assert program.outcome("pooled")["result"] == "0"
    assert os.path.exists(f"/proc/{program.outcome('where')['result']}")  # noqa: PTH110
