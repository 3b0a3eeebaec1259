"""Functions run in worker processes: what they return, raise and do to their process becomes the outcome of the run."""

import json
import os
import signal
import time
from datetime import datetime
from pathlib import Path

import pytest

import tokimori
from tests.integration.apps.conftest import APP, AppProgram, until
from tests.integration.cli.conftest import stop
from tests.programs.forked import Started


def test_a_function_gets_its_arguments_and_gives_its_result(working: AppProgram) -> None:
    """The payload is typed, and what it prints is the run's output; a payload that does not fit is a failure."""
    run = working.outcome("double", '{"number": 21}')
    assert (run["state"], run["result"]) == ("succeeded", "42")
    assert working("run", "logs", run["id"]) == "doubling 21\n"
    wrong = working.outcome("double", '{"number": "x"}', code=1)
    assert wrong["error"].startswith("InvalidInput: payload: it does not fit double(number: int)")


def test_an_exception_is_the_error_and_its_traceback_the_output(working: AppProgram) -> None:
    """The process lives on."""
    run = working.outcome("raises", code=1)
    assert run["error"] == "ValueError: no good"
    assert "in raises" in working("run", "logs", run["id"])
    assert working.outcome("double", '{"number": 1}')["pid"] > 0


def test_each_line_of_a_function_has_its_own_time(working: AppProgram) -> None:
    """Of what it prints, and of what is written past Python; between its start and its end."""
    run = working.outcome("slow_words")
    lines = [line.split(" ") for line in working("run", "logs", run["id"], "--timestamps").splitlines()]
    assert [word for _, word in lines] == ["first", "last"]
    (attempt,) = working.json("run", "show", run["id"])["attempts"]
    said = (lines[0][0], lines[1][0], attempt["started"], attempt["ended"])
    first, last, start, end = (datetime.fromisoformat(text).timestamp() for text in said)
    assert start - 0.002 <= first <= last - 0.3
    assert last <= end


def test_a_function_costs_what_can_be_known(working: AppProgram) -> None:
    """Among many the time of its thread, on the loop nothing; with a process of its own the memory, too."""
    shared, alone, loop, among = (
        working.outcome(job, payload)
        for job, payload in (
            *((job, None) for job in ("costs", "costs_alone", "costs_on_its_loop")),
            ("sleeps", '{"seconds": 0}'),
        )
    )
    assert 0.2 <= shared["cpu"] < 2
    assert (shared["memory"], among["cpu"], among["memory"]) == (None, None, None)
    for each in (alone, loop):
        assert 0.2 <= each["cpu"] < 4
        assert 200 << 20 <= each["memory"] < 600 << 20


def test_a_function_that_uses_more_than_it_may_is_ended(working: AppProgram) -> None:
    """It is interrupted, and killed after its grace; the error says which limit, and one among many has none."""
    hoards = working.outcome("hoards", code=1)
    assert hoards["error"].startswith("it had more memory than max_memory allows: ")
    assert hoards["cause"] == "failed: it had more memory than max_memory allows: # MiB of #"
    burns = working.outcome("burns", code=1)
    assert burns["error"].startswith("it used more processor time than max_cpu allows: 0.")
    assert burns["cpu"] > 0.5
    refused = working.error("job", "add", "no", "--function", "jobs.burns", "--max-memory", "10")
    assert refused["message"] == "max_memory: a function shares its process with other runs"


def test_what_a_noisy_function_says_is_kept(working: AppProgram) -> None:
    """KojoFitness 46 and 48: logging, warnings and an uncaught exception, in their order in the output of the run."""
    run = working.outcome("noisy", code=1)
    assert run["error"] == "OSError: uncaught"
    output = working("run", "logs", run["id"])
    found = [
        output.find(words) for words in ("mine: logged", "UserWarning: warned", "printed\n", "OSError: uncaught\n")
    ]
    assert -1 not in found
    assert found == sorted(found)


def test_a_result_that_is_no_json_is_the_error(working: AppProgram) -> None:
    """The run has failed and says what a function may return; the process lives on."""
    run = working.outcome("returns_no_json", code=1)
    assert run["error"].startswith("result: a value of the type object can't be written as JSON; allowed: JSON,")
    assert working.outcome("double", '{"number": 1}')["state"] == "succeeded"


def test_a_worker_process_takes_no_core_from_its_node(working: AppProgram) -> None:
    """However many functions burn CPU: the node's loop, which all of them wait for, goes first."""
    assert os.sched_getscheduler(working.outcome("double", '{"number": 1}')["pid"]) == os.SCHED_BATCH


def test_a_dead_process_is_replaced_and_its_run_settled_at_once(working: AppProgram) -> None:
    """A function that kills its process loses its four attempts within seconds, and all others go on."""
    began = time.monotonic()
    run = working.outcome("dies", code=1)
    assert (run["state"], run["lost"]) == ("failed", 4)
    assert "its worker process died (signal 9, SIGKILL)" in run["error"]
    assert time.monotonic() - began < 30
    assert working("run", "logs", run["id"]) == "its last words\n"
    assert working.outcome("double", '{"number": 1}')["state"] == "succeeded"


def test_the_log_says_which_line_ended_a_process_in_c(working: AppProgram) -> None:
    """A segmentation fault leaves no exception: the stack is all that says whose code it was."""
    assert "its worker process died (signal 11, SIGSEGV)" in working.outcome("crashes", code=1)["error"]
    until(lambda: "in crashes" in working.log.read_text())


def test_who_ignores_its_time_out_is_killed_with_its_children(working: AppProgram) -> None:
    """It holds the interpreter, so that nothing in its process can end it; the child that it started goes, too."""
    run = working.outcome("deaf", code=1)
    assert run["error"] == "it took longer than 0.5 s"
    child = int((working.home / "child").read_text())
    until(lambda: not Path(f"/proc/{child}").exists())


@pytest.mark.prove
def test_whoever_holds_the_interpreter_keeps_its_run(working: AppProgram) -> None:
    """For longer than any lease: the node beats in a process of its own, and nobody takes the run over."""
    run = working.outcome("holds_the_interpreter", '{"seconds": 9}')
    assert (run["state"], run["attempt"], run["lost"]) == ("succeeded", 1, 0)


def test_coroutines_share_a_process(working: AppProgram) -> None:
    """Twenty that sleep a second take little more than one, in two processes."""
    began = time.monotonic()
    with tokimori.open(working.environment["TOKIMORI_STORE"]) as client:
        runs = [client.jobs.trigger("sleeps", payload={"seconds": 1}).id for _ in range(20)]
        ended = [client.runs.wait(run) for run in runs]
    assert {run.state for run in ended} == {"succeeded"}
    assert len({run.pid for run in ended}) <= 2
    assert time.monotonic() - began < 15


def test_a_function_asks_for_runs_of_its_app(working: AppProgram) -> None:
    """`enqueue` within a run reaches the store of the node, and that run is the parent."""
    first = working.outcome("chain", '{"number": 2}')

    def found() -> list[str]:
        return [run["state"] for run in working.json("run", "list", "--job", "chain")]

    until(lambda: found() == ["succeeded"] * 3)
    runs = working.json("run", "list", "--job", "chain")
    assert first["id"] in {run.get("parent_id") for run in runs}


def test_a_cancelled_function_is_interrupted(working: AppProgram) -> None:
    """A coroutine is told at its next wait."""
    run = working.json("job", "trigger", "sleeps", "--payload", '{"seconds": 1000}')
    until(lambda: working.json("run", "show", run["id"])["state"] == "running")
    working("run", "cancel", run["id"])
    until(lambda: working.json("run", "show", run["id"])["state"] == "cancelled")


def test_new_code_takes_over_while_old_code_finishes(program: AppProgram) -> None:
    """HUP lets processes with the code of now take over: nothing that runs is disturbed, and nothing is lost.

    Code that can't be loaded changes nothing.
    """
    node = program.work()
    assert program.outcome("version")["result"] == '"one"'
    slow = program.json("job", "trigger", "sleeps", "--payload", '{"seconds": 4}')["id"]
    until(lambda: program.json("run", "show", slow)["state"] == "running")
    program.app.write_text("nonsense(")
    node.send_signal(signal.SIGHUP)
    until(lambda: program.log.exists() and "can't be loaded" in program.log.read_text())
    assert program.outcome("version")["result"] == '"one"'
    program.app.write_text(APP.replace('"one"', '"two"'))
    node.send_signal(signal.SIGUSR1)
    until(lambda: program.outcome("version")["result"] == '"two"')
    until(lambda: program.json("run", "show", slow)["state"] == "succeeded")
    assert program.json("run", "show", slow)["attempt"] == 1
    assert stop(node) == 0


FRESH = """
@app.job()
def fresh() -> str:
    return "here"

@app.handler("late")
def late() -> str:
    return "known"
"""


def test_new_code_brings_its_jobs_handlers_and_settings(program: AppProgram) -> None:
    """With a HUP the node has all that a new one would have; settings that are none change nothing, and are told."""
    node = program.work()
    program("job", "add", "by-hand", "--function", "late")
    waiting = program.json("job", "trigger", "by-hand")["id"]
    assert "handler of the function 'late'" in program("run", "why", waiting)
    program.app.write_text(APP + FRESH)
    (program.home / "beside.py").write_text("import pathlib\npathlib.Path('required').touch()")
    settings = program.home / "tokimori.toml"
    settings.write_text("[app]\nconcurrency = 0\n")
    node.send_signal(signal.SIGHUP)
    until(lambda: "the old settings stay in force" in program.log.read_text())
    settings.unlink()
    until(lambda: program.json("run", "show", waiting)["state"] == "succeeded")
    until(lambda: "fresh" in {job["id"] for job in program.json("job", "list")})
    assert program.outcome("fresh")["result"] == '"here"'
    (known,) = program.json("node", "list")
    assert {"late", "jobs.fresh"} <= set(known["labels"]["tokimori:handlers"].split())
    assert not (program.home / "required").exists()
    settings.write_text('[app]\nrequire = ["beside"]\n\n[node]\nstop_grace = 7\n')
    node.send_signal(signal.SIGHUP)
    until((program.home / "required").exists)
    until(lambda: "settings beyond app.* have changed" in program.log.read_text())
    assert stop(node) == 0


def waiting_without_processes(program: AppProgram, code: str, says: str, why: str) -> tuple[Started, str]:
    """A node whose only process was replaced by one with this code, which comes to nothing; and a run that it leaves.

    The log of the node, and the reasons of the run, say that.
    """
    node = program.work("--processes", "1", "--max-runs-per-process", "1")
    program.app.write_text(code)
    assert program.outcome("version")["result"] == '"one"'
    until(lambda: program.log.exists() and says in program.log.read_text())
    run: str = program.json("job", "trigger", "version")["id"]
    time.sleep(1.5)
    assert program.json("run", "show", run)["state"] == "ready"
    assert why in program("run", "why", run)
    return node, run


def test_a_node_claims_no_function_that_it_can_not_start(program: AppProgram) -> None:
    """Each process is replaced by one whose file is broken: that is said once, and mended by the file alone."""
    node, run = waiting_without_processes(
        program, "nonsense(", "no function is started here", "can start none now (app: 'jobs:app' can't be loaded"
    )
    program.app.write_text(APP.replace('"one"', '"two"'))
    until(lambda: program.json("run", "show", run)["state"] == "succeeded")
    told = program.log.read_text()
    assert (told.count("can't be loaded"), told.count("functions are started again")) == (1, 1)
    assert program.json("run", "show", run)["attempt"] == 1
    assert stop(node) == 0


NEWER = """
import tokimori.apps.routes
tokimori.apps.routes.language = lambda: "that of a newer version"
"""


@pytest.mark.prove
def test_a_node_that_was_upgraded_gives_no_run_to_processes_of_another_version(program: AppProgram) -> None:
    """What it told them they would not understand, and lost each run: now the log says what to do, and runs wait."""
    node, run = waiting_without_processes(
        program, APP + NEWER, "start the node, or the program", "have two versions of Tokimori"
    )
    assert stop(node) == 0
    program.app.write_text(APP)
    node = program.work()
    until(lambda: program.json("run", "show", run)["state"] == "succeeded")
    assert program.json("run", "show", run)["attempt"] == 1
    assert stop(node) == 0


def test_code_that_changes_takes_over_by_itself(program: AppProgram) -> None:
    """With --reload nobody has to tell the node, and a file that is saved twice in a second is seen twice."""
    second = int(time.time())
    os.utime(program.app, (second, second))
    node = program.work("--reload")
    assert program.outcome("version")["result"] == '"one"'
    beside = program.home / "jobs.new"
    beside.write_text(APP.replace('"one"', '"two"'))
    os.utime(beside, (second + 0.5, second + 0.5))
    beside.rename(program.app)
    until(lambda: program.outcome("version")["result"] == '"two"')
    assert stop(node) == 0


@pytest.mark.parametrize(
    ("source", "first"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        (APP.replace("@app.job()", "@app.job(id='same')"), "id: the app 'jobs' has two jobs 'same'"),
    ],
    ids=["an import fails", "two jobs have one id"],
)
def test_an_app_that_cannot_be_loaded_starts_no_node(program: AppProgram, source: str, first: str) -> None:
    """One error says why and what mends it, without a frame of ours; no node, process or job is left."""
    program.app.write_text(source)
    error = program.error("worker", "jobs:app")
    assert (error["code"], error["field"], error["value"]) == ("refused", "app", "jobs:app")
    assert error["message"].startswith(f"app: 'jobs:app' can't be loaded: {first}\n")
    assert [line for line in error["message"].splitlines() if "File" in line and str(program.app) not in line] == []
    assert (program.json("node", "list"), program.json("job", "list")) == ([], [])


def test_a_worker_runs_no_commands(working: AppProgram) -> None:
    """A command waits for a node that runs commands; a function waits for one that has it."""
    working("job", "add", "command", "--command", "true")
    working("job", "add", "elsewhere", "--function", "other.function")
    runs = [working.json("job", "trigger", job)["id"] for job in ("command", "elsewhere")]
    working.outcome("double", '{"number": 1}')
    time.sleep(1)
    command, elsewhere = [working.json("run", "show", run) for run in runs]
    assert (command["state"], elsewhere["state"]) == ("ready", "ready")
    why = [reason["text"] for reason in elsewhere["why"]]
    assert why == [
        "it waits for a node with a handler of the function 'other.function', and none that runs now has one"
    ]


def test_what_a_dead_node_leaves_ends(program: AppProgram) -> None:
    """Worker processes of a node that is killed end with it; the keeper sees to that."""
    node = program.work()
    pid = program.outcome("double", '{"number": 1}')["pid"]
    node.kill()
    node.communicate()
    until(lambda: not _lives(pid), within=10)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_jobs_payload_is_what_its_runs_get(working: AppProgram) -> None:
    """From the command line: shown, edited, and another one where it is asked for; commands get it, too."""
    working("job", "add", "six", "--function", "jobs.double", "--payload", '{"number": 3}')
    run = working.outcome("six")
    assert (run["result"], run["payload"]) == ("6", '{"number": 3}')
    assert '{"number": 3}' in working("job", "show", "six")
    working("job", "update", "six", "--payload", '{"number": 4}')
    assert working.outcome("six")["result"] == "8"
    assert working.outcome("six", '{"number": 5}')["result"] == "10"
    working("job", "update", "six", "--payload", "{number: 4}", code=2)
    working("job", "add", "told", "--payload", '{"number": 3}', "--command", 'echo "$TOKIMORI_PAYLOAD"')
    until(lambda: working.json("job", "show", "told")["payload"] == '{"number": 3}')


@pytest.mark.parametrize("first_ends", ["retries", "dies"])
def test_what_an_attempt_has_kept_the_next_one_gets(working: AppProgram, first_ends: str) -> None:
    """Whether it asked for that, or its process was killed."""
    run = working.outcome("steps", json.dumps({"first_ends": first_ends}))
    assert (run["result"], run["attempt"], run["checkpoint"]) == ("[1,2]", 2, None)


@pytest.mark.prove
def test_what_a_killed_node_has_kept_goes_on_elsewhere(program: AppProgram) -> None:
    """The progress is seen while the run runs; another node takes the run over, and begins where the first was."""
    first = program.work()
    run = program.json("job", "trigger", "steps", "--payload", '{"first_ends": "sleeps"}')["id"]
    until(lambda: program.json("run", "show", run)["progress"] is not None)
    seen = program.json("run", "show", run)
    assert (seen["state"], seen["progress"]) == ("running", {"fraction": 0.4, "text": "two of five"})
    assert seen["checkpoint"] == "[1]"
    assert "40% two of five" in program("run", "show", run)
    first.kill()
    first.communicate()
    second = program.work()
    try:
        until(lambda: program.json("run", "show", run)["state"] == "succeeded", within=60)
    finally:
        assert stop(second) == 0
    ended = program.json("run", "show", run)
    assert (ended["result"], ended["attempt"], ended["lost"]) == ("[1,2]", 2, 1)


def test_what_a_function_asks_for_by_a_client_has_its_run_as_parent(program: AppProgram) -> None:
    """Whatever client it opens; and `ps` shows what each process does meanwhile."""
    url = program.environment["TOKIMORI_STORE"]
    program.app.write_text(
        "import time, tokimori\napp = tokimori.App()\n@app.job\ndef asks():\n"
        f"    with tokimori.open({url!r}) as client:\n"
        "        client.jobs.trigger('asked')\n        client.jobs.trigger_many('asked', [{}])\n"
        "    time.sleep(2)\n"
        "@app.job\nasync def waits():\n"
        f"    async with tokimori.open_async({url!r}) as client:\n        await client.jobs.trigger('asked')\n"
    )
    program("job", "add", "asked", "--noop")
    node = program.work()
    try:
        run = program.json("job", "trigger", "asks")["id"]

        def shown(pid: int) -> str:
            return Path(f"/proc/{pid}/cmdline").read_text()

        until(lambda: program.json("run", "show", run)["pid"] is not None)
        pid = program.json("run", "show", run)["pid"]
        until(lambda: shown(pid).startswith("tokimori: worker ") and f"asks {run}" in shown(pid))
        assert shown(node.pid).startswith("tokimori: server ")
        other = program.outcome("waits")
        until(lambda: program.json("run", "show", run)["state"] == "succeeded")
        parents = [each["parent_id"] for each in program.json("run", "list", "--job", "asked")]
        assert sorted(parents) == sorted([run, run, other["id"]])
    finally:
        assert stop(node) == 0


@pytest.mark.parametrize(("parent", "payload"), [("double", '{"number": 21}'), ("sleeps", "0")])
def test_a_child_without_parameters_runs_whatever_its_parent_left(
    working: AppProgram, parent: str, payload: str
) -> None:
    """Its parent's result and payload are not for it, also when the run is repeated; one of its own is refused."""
    child = f"after-{parent}"
    working("job", "add", child, "--function", "jobs.version", "--after", parent)
    working.outcome(parent, payload)
    until(lambda: [each["state"] for each in working.json("run", "list", "--job", child)] == ["succeeded"])
    working("run", "retry", working.json("run", "list", "--job", child)[0]["id"])
    until(lambda: [each["state"] for each in working.json("run", "list", "--job", child)] == ["succeeded"] * 2)
    assert "does not fit version()" in working.outcome(child, '{"number": 1}', code=1)["error"]
