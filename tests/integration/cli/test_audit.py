"""`tokimori audit list`."""

from getpass import getuser

from tests.integration.cli.conftest import Program


def test_changes_on_the_command_line_are_listed(program: Program) -> None:
    """Newest first, by the user who made them; with --json also how that was and is."""
    program("job", "add", "report", "--noop")
    program("job", "pause", "report", "--reason", "repairs")
    first, *rest = program("audit", "list").splitlines()
    assert first.split() == ["AT", "WHO", "WHAT", "OF", "ID"]
    assert [line.split()[-5:-1] for line in rest] == [
        [getuser(), what, "job", "report"] for what in ("jobs.pause", "jobs.add")
    ]
    paused, added = program.json("audit", "list")
    assert (paused["before"]["state"], paused["after"]["state"]) == ("enabled", "paused")
    assert paused["after"]["reason"] == "repairs" and added["before"] is None
    assert program.json("audit", "list", "--after", paused["id"], "-n", "1") == [added]
