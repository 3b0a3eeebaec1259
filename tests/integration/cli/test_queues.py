"""`tokimori queue …`, as people and scripts use it."""

import pytest

from tests.integration.cli.conftest import Program
from tokimori.client.client import open as open_client


def test_a_queue_from_the_command_line(program: Program) -> None:
    """Paused, listed, told of by its job and its run, and resumed; the client sees the same."""
    program("job", "add", "report", "--noop", "--queue", "mail")
    assert "queue mail is paused since" in program("queue", "pause", "mail", "--reason", "repairs")
    _, line = program("queue", "list").splitlines()
    assert line.split()[:2] == ["mail", "1"]
    assert line.endswith("repairs")
    assert ": repairs" in program("job", "show", "report")
    for command in ("explain", "why"):
        assert "`tokimori queue resume mail` ends that" in program("job", command, "report")
    run = program.json("job", "trigger", "report")
    assert "queue mail is paused" in program("run", "show", run["id"])
    with open_client(f"sqlite://{program.database}") as client:
        (pause,) = client.queues.pauses()
        assert (pause.queue, pause.reason) == ("mail", "repairs")
        assert client.queues.list()[0].pauses == tuple(client.jobs.pauses("report")) == (pause,)
        assert client.queues.resume("mail") == pause
        assert client.queues.pause("mail").reason is None
        assert client.queues.pause(reason="fire").queue == "*"
        assert client.queues.resume() is not None
    assert program.json("queue", "resume", "mail") == {"queue": "mail", "resumed": True, "still_paused": []}
    assert program("queue", "resume", "mail") == "queue mail was not paused\n"


def test_everything_from_the_command_line(program: Program) -> None:
    """With --all in place of a name."""
    program("job", "add", "report", "--noop")
    assert "everything is paused since" in program("queue", "pause", "--all", "--now")
    assert program.json("queue", "pause", "--all")["queue"] == "*"
    assert program("queue", "resume", "--all") == "resumed everything\n"


def test_what_stays_paused_is_told(program: Program) -> None:
    """A queue with a pause of its own, and everything when one queue is resumed: each with the command that ends it."""
    program("job", "add", "report", "--noop", "--queue", "mail")
    program("queue", "pause", "mail", "--reason", "repairs")
    program("queue", "pause", "--all")
    assert program.json("queue", "resume", "mail")["still_paused"] == ["*"]
    program("queue", "pause", "mail")
    told = program.run("queue", "resume", "--all")
    assert told.stdout == "resumed everything\n"
    assert "queue mail is paused" in told.stderr and "`tokimori queue resume mail` ends that" in told.stderr


@pytest.mark.parametrize("arguments", [("pause",), ("resume",), ("pause", "mail", "--all"), ("pause", "a b")])
def test_mistakes_are_refused(program: Program, arguments: tuple[str, ...]) -> None:
    """Neither a name nor --all, both, and what no queue can be called."""
    program("db", "migrate")
    assert program.error("queue", *arguments, code=2)["field"] in {"name", "queue"}


def test_a_queue_without_jobs_is_paused_with_a_warning(program: Program) -> None:
    """Its name may be misspelt, or its jobs come later; a store that is not there is not made for a pause."""
    assert program.error("queue", "pause", "mail")["field"] == "store"
    program("job", "add", "report", "--noop", "--queue", "mail")
    told = program.run("queue", "pause", "mial")
    assert (told.returncode, told.stdout.startswith("queue mial is paused since")) == (0, True)
    assert "no job is in the queue mial: `tokimori queue list` shows" in told.stderr
