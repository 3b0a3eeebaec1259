"""`tokimori job trigger`: forced, debounced, throttled, replaced, and from within a run."""

import pytest

from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM


@pytest.mark.parametrize(
    ("how", "became"),
    [(("--debounce", "60"), "debounced"), (("--throttle", "60"), "throttled"), (("--replace",), "replaced")],
)
def test_requests_that_share_a_key(how: tuple[str, ...], became: str, program: Program) -> None:
    """The second one is answered by the run of the first, and says how."""
    program("job", "add", "j", "--noop")
    asked = ("job", "trigger", "j", "--key", "k", *how)
    first = program.json(*asked, "--payload", "1")
    again = program.json(*asked, "--payload", "2")
    assert (first["became"], again["became"], again["id"]) == ("made", became, first["id"])
    assert again["payload"] == ("1" if became == "throttled" else "2")
    assert program(*asked).endswith(f"({became})\n")
    assert len(program.json("run", "list")) == 1


def test_a_paused_job_is_forced(program: Program) -> None:
    """Its run waits for a node like any other, and the job stays paused."""
    program("job", "add", "j", "--noop")
    program("job", "pause", "j")
    assert "force" in program.error("job", "trigger", "j")["allowed"]
    assert program.json("job", "trigger", "j", "--force")["state"] == "ready"
    assert program.json("job", "show", "j")["state"] == "paused"


def test_a_run_that_triggers_is_the_parent(served: Program) -> None:
    """A command that asks for a run is noted as its parent by itself, unless it is told otherwise."""
    served("job", "add", "other", "--noop")
    store = served.environment["TOKIMORI_STORE"]
    text = f"{PROGRAM} job trigger other --key a && {PROGRAM} job trigger other --key b --no-parent"
    served("job", "add", "asks", "--command", text, "--env", f"TOKIMORI_STORE={store}")
    run = served.json("job", "trigger", "asks", "--wait", "--timeout", "30")
    assert run["state"] == "succeeded", served("run", "logs", run["id"])
    parents = {each["origin"]: each["parent_id"] for each in served.json("run", "list") if each["job_id"] == "other"}
    assert parents == {"m:a": run["id"], "m:b": None}


def test_how_many_may_wait(program: Program) -> None:
    """It is shown with the job, and whoever is one too many is refused."""
    program("job", "add", "j", "--noop", "--max-running", "1", "--max-waiting", "0")
    assert "max waiting" in program("job", "show", "j")
    assert program.json("job", "show", "j")["max_waiting"] == 0
    program("job", "trigger", "j")
    assert program.error("job", "trigger", "j")["field"] == "max_waiting"
    program("job", "update", "j", "--max-waiting", "1")
    program("job", "trigger", "j")
    program("job", "update", "j", "--unset", "max_waiting", "--max-running", "0")
    assert "no limit" in program("job", "show", "j")


def test_a_trace_goes_on_through_commands(served: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks hands it on by TRACEPARENT, so does the command, and what it asks for goes on in the same trace."""
    place, store = f"00-{'a' * 32}-{'b' * 16}-01", served.environment["TOKIMORI_STORE"]
    served("job", "add", "last", "--noop")
    text = f'echo "in $TRACEPARENT"; {PROGRAM} job trigger last'
    served("job", "add", "first", "--command", text, "--env", f"TOKIMORI_STORE={store}")
    monkeypatch.setitem(served.environment, "TRACEPARENT", place)
    run = served.json("job", "trigger", "first", "--wait", "--timeout", "30")
    assert f"in {place}" in served("run", "logs", run["id"])
    assert [run["traceparent"], *(each["traceparent"] for each in served.json("run", "list", "--job", "last"))] == [
        place,
        place,
    ]
    monkeypatch.setitem(served.environment, "TRACEPARENT", "what")
    assert served.json("job", "trigger", "last")["traceparent"] is None
    assert served.json("job", "trigger", "last", "--traceparent", place)["traceparent"] == place
    assert served.error("job", "trigger", "last", "--traceparent", "what")["field"] == "traceparent"
