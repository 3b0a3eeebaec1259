"""Ids of runs as people give them."""

from tests.integration.cli.conftest import Program


def test_a_run_is_found_by_how_its_id_begins(program: Program) -> None:
    """In every command, with dashes or without; several are named, and too little or nothing is refused."""
    program("job", "add", "job", "--noop")
    runs = [program.json("job", "trigger", "job")["id"] for _ in range(2)]
    same = next(n for n in range(36) if runs[0][n] != runs[1][n])
    first = runs[0][: max(same + 1, 8)]
    assert program.json("run", "show", first)["id"] == runs[0]
    assert program.json("run", "show", first.replace("-", "").upper())["id"] == runs[0]
    assert program.json("run", "hold", first)["state"] == "held"
    assert program.json("run", "resume", first)["state"] in ("waiting", "ready")
    assert program.json("run", "cancel", first)["state"] == "cancelled"
    assert program("run", "logs", first) == ""
    assert [run["id"] for run in program.json("run", "list", "--before", runs[1][: same + 1])] == runs[:1]
    several = program.error("run", "show", runs[0][:8], code=2)
    assert all(run in several["message"] for run in runs)
    assert program.error("run", "show", "ffffffff", code=3)["code"] == "not_found"
    for text in (runs[0][:7], "job", "01a2126g"):
        assert program.error("run", "show", text, code=2)["allowed"].startswith("a run's id, or 8 or more of its")


def test_runs_are_listed_since_so_long_ago(program: Program) -> None:
    """A length counts back from now; a day begins at its midnight; other texts are refused with what is allowed."""
    program("job", "add", "job", "--noop")
    program("job", "trigger", "job")
    assert len(program.json("run", "list", "--since", "1h30m")) == 1
    assert program.json("run", "list", "--until", "PT1H") == []
    assert len(program.json("run", "list", "--since", "2026-01-01")) == 1
    assert "how long ago" in program.error("run", "list", "--since", "1y", code=2)["allowed"]
    assert program("run", "list", "-o", "ids").count("\n") == 1
    assert program("run", "list", "-o", "csv").startswith("ID,JOB,STATE")
    assert program("run", "list", "-o", "jsonl").startswith('{"id":')


def test_a_shell_is_told_what_may_follow(program: Program) -> None:
    """Words, ids of jobs and zones; where the store can't be asked, nothing, and no error."""
    program("job", "add", "nightly", "--noop")
    words = {"job show ni": "nightly", "job show ": "nightly", "job add --timezone europe/par": "Europe/Paris"}
    for line, expected in words.items():
        *before, incomplete = line.split(" ")
        asked = {"COMP_WORDS": " ".join(["tokimori", *before, incomplete]), "COMP_CWORD": str(len(before) + 1)}
        program.environment.update(asked, _TOKIMORI_COMPLETE="bash_complete")
        assert f"plain,{expected}" in program("ignored").splitlines()
    program.environment["TOKIMORI_STORE"] = "sqlite:////nowhere/at/all.db"
    program.environment.update(COMP_WORDS="tokimori job show ni", COMP_CWORD="3")
    done = program.run("ignored")
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)
    del program.environment["_TOKIMORI_COMPLETE"]
    assert "_tokimori_completion" in program("completion", "bash")
