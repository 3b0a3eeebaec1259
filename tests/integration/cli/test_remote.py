"""The command line, asked of a node instead of the store: each command prints the same."""

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of

READS = """
job list
job show a
job explain a
job why a
job skips a
job counts a
job next a
job graph
schedule explain "0 3 * * *"
calendar list
calendar show c
queue list
run list --json
run list --job-prefix a --since 2020-01-01T00:00:00Z --until 2100-01-01 --state succeeded --queue default
job list --prefix a --state enabled --queue default
run list --label =x
run show RUN
run why RUN
run logs RUN
run logs -f RUN
lock list
export toml
export json
export toml --set r
export crontab
node list
secret list
db status
apply jobs.toml --dry-run
job show nobody
run list --before no-uuid
"""
"""Commands that change nothing; RUN is a run that has ended."""
CHANGES = """
job update a --priority 3
apply jobs.toml --prune
queue resume mail
apply rest.toml
"""
"""Commands that can be said twice, once here and once there, after what undoes them."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """One on a store of its own."""
    return Program(tmp_path_factory.mktemp("remote"))


@pytest.fixture(scope="module")
def site(program: Program) -> Iterator[Site]:
    """Its node, with a job, a calendar and a file of jobs beside it."""
    with site_of(program) as site:
        program("calendar", "add", "c", "--date", "12-25")
        program("job", "add", "a", "--schedule", "0 3 * * *", "--command", "echo told")
        (program.home / "jobs.toml").write_text('set = "s"\n[[jobs]]\nid = "b"\nnoop = true\n')
        (program.home / "empty.toml").write_text("")
        (program.home / "rest.toml").write_text('set = "r"\n[queues.mail]\npaused = true\n[calendars.d]\n')
        yield site


@pytest.fixture(scope="module")
def run(program: Program, site: Site) -> str:
    """A run that has succeeded, asked for at the node; its job is left as it was."""
    asked = json.loads(program("--server", site.entry, "--json", "job", "trigger", "a", "--wait"))
    assert (asked["state"], asked["exit_code"]) == ("succeeded", 0)
    return str(asked["id"])


@pytest.fixture
def elsewhere(program: Program, site: Site) -> Program:
    """The same program on a machine that has neither store nor state folder, with the node as its context."""
    home = program.home / "elsewhere"
    home.mkdir(exist_ok=True)
    other = Program(home)
    other.environment = {
        name: value for name, value in other.environment.items() if name not in ("TOKIMORI_STORE", "TOKIMORI_STATE_DIR")
    }
    other.environment |= {"TOKIMORI_STATE_DIR": str(home / "state")}
    (home / "token").write_text(f"{site.secret}\n")
    for name in ("jobs.toml", "rest.toml"):
        (home / name).write_text((program.home / name).read_text())
    other("context", "add", "prod", site.url, "--token-file", "token")
    other("context", "use", "prod")
    return other


def lines(text: str) -> list[list[str]]:
    return [shlex.split(line) for line in text.strip().splitlines()]


@pytest.mark.prove
def test_what_is_read_is_the_same(program: Program, elsewhere: Program, run: str) -> None:
    """Output, errors and exit code."""
    until(lambda: program.run("run", "logs", run).stdout == "told\n")
    for line in lines(READS):
        asked = [run if word == "RUN" else word for word in line]
        here, there = program.run(*asked), elsewhere.run(*asked)
        assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr), line


@pytest.mark.prove
def test_what_is_changed_is_the_same(program: Program, elsewhere: Program) -> None:
    """Each change, asked there and then here, from the same start: by the same author, with the same answer."""
    for line in lines(CHANGES):
        program.run("apply", "jobs.toml")
        there = elsewhere.run(*line)
        program.run("apply", "jobs.toml")
        program.run("apply", "empty.toml", "--set", "r", "--prune")
        here = program.run(*line)
        assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr), line
    assert elsewhere.json("job", "pause", "a")["by"] == program.json("job", "pause", "a")["by"] is not None
    elsewhere("job", "resume", "a")


def test_logs_are_followed(elsewhere: Program, program: Program, tmp_path: Path) -> None:
    """What a run writes comes while it runs, and its end is the exit code."""
    os.mkfifo(tmp_path / "go")
    elsewhere("job", "add", "slow", "--command", f"echo first; read line < {tmp_path / 'go'}; echo last; exit 3")
    asked = elsewhere.json("job", "trigger", "slow")["id"]
    until(lambda: program.run("run", "logs", asked).stdout == "first\n")
    (tmp_path / "go").write_text("\n")
    ended = elsewhere.run("run", "logs", "-f", asked)
    assert (ended.returncode, ended.stdout) == (1, "first\nlast\n")
    timed = [asks("run", "logs", asked, "--timestamps") for asks in (elsewhere, program)]
    assert timed[0] == timed[1]
    assert [line.partition("Z ")[2] for line in timed[0].splitlines()] == ["first", "last"]


def test_where_is_asked(program: Program, elsewhere: Program, site: Site) -> None:
    """A store that is named goes before the context in use; two places, and what only a store can do, are refused."""
    assert [job["id"] for job in elsewhere.json("job", "list")]
    assert elsewhere.error("job", "list", "--store", f"sqlite://{elsewhere.home}/none.db")["code"] == "store_error"
    for line in (
        ("job", "list", "--server", site.entry, "--context", "prod"),
        ("lock", "m", "--", "true"),
        ("db", "migrate"),
        ("serve", "--context", "prod"),
        ("job", "list", "--server", "ftp://h"),
        ("context", "add", "bad", site.entry),
        ("context", "add", "bad", "sqlite:///x"),
    ):
        before, _, rest = (line, None, ()) if "--" not in line else (line[:2], None, line[2:])
        ended = elsewhere.run("--json", *before, *rest)
        assert (ended.returncode, ended.stdout) == (2, ""), line
        assert json.loads(ended.stderr)["error"]["code"] in ("invalid_input", "refused")
        assert site.secret not in ended.stderr
    assert elsewhere.error("job", "list", "--context", "nowhere", code=3)["field"] == "context"
    file = elsewhere.home / ".config/tokimori/contexts.json"
    assert (file.stat().st_mode & 0o777, site.secret in file.read_text()) == (0o600, False)
    assert "prod" in elsewhere("context", "list")
    elsewhere("context", "use", "--none")
    assert elsewhere.error("job", "list")["code"] == "store_error"
