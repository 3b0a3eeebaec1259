"""Bad input: a clear error, its exit code, and nothing changed."""

import sqlite3

import pytest

from tests.integration.cli.conftest import Program

MISSING_RUN = "018cc251-f400-7000-8000-000000000000"

BAD = {
    "bad cron field": ("job add x --noop --schedule", "61 * * * *", "0-59"),
    "impossible date": ("job add x --noop --schedule", "0 0 30 2 *", None),
    "moment in the past": ("job add x --noop --schedule", "at 2001-01-01T00:00:00Z", "future"),
    "unknown zone": ("job add x --noop --schedule @daily --timezone", "Europe/Pariss", "Europe/Paris"),
    "duplicate id": ("job add", "taken --noop", "not in use"),
    "bad id": ("job add --noop", "a/b", "A-Z"),
    "no target": ("job add", "x", "command, function, url, build, noop"),
    "two targets": ("job add x --noop --command", "y", "command, function, url, build, noop"),
    "bad priority": ("job add x --noop --priority", "101", "100"),
    "bad label": ("job add x --noop --label", "a", "KEY=VALUE"),
    "bad edit": ("job update taken --schedule", "61 * * * *", "0-59"),
    "edit of nothing": ("job", "update taken", "at least one"),
    "unknown field": ("job update taken --unset", "nonsense", "one of"),
    "unknown option": ("job add x --noop", "--nonsense", None),
    "unknown store": ("job list --store", "oracle://x", "sqlite:///"),
    "store without its folder": ("job list --store", "sqlite:///no/such/folder/t.db", None),
    "file with too long a name": ("job import crontab", 300 * "f", "a path that this user may reach"),
    "bad run id": ("run show", "x", "8 or more of its first or last digits"),
    "bad moment": ("job next taken --after", "tomorrow", "2030-01-01T00:00:00Z"),
    "bad number of runs": ("run list -n", "0", "'-n': 0 is not in the range 1<=x<=1000"),
    "bad number of moments": ("job next taken -n", "0", "'-n': 0 is not in the range 1<=x<=10000"),
    "backfill of the future": ("job backfill taken --from", "2130-01-01T00:00:00Z", "of `from`, or later"),
    "bad key": ("job trigger taken --key", "", "255"),
}


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A program whose store holds one job, `taken`; the tests that share it change nothing."""
    program = Program(tmp_path_factory.mktemp("unchanged"))
    program("job", "add", "taken", "--schedule", "@hourly", "--noop")
    return program


ODD = {
    "NaN": "is not JSON",
    '{"a": Infinity}': "is not JSON",
    '{"a": 1e999}': "is not JSON",
    '{"a": 1, "a": 2}': "the key 'a' stands 2 times in one object",
    '[{"b": {"a": 1, "b": 2, "a": null}}]': "the key 'a' stands 2 times in one object",
    '"\\ud800"': "is not JSON",
    '"\udcff"': "characters of Unicode",
    "[" * 10_000 + "]" * 10_000: "is not JSON",
    "": "is not JSON",
    "plain": "is not JSON",
}


@pytest.mark.parametrize("payload", ODD, ids=lambda text: ascii(text[:20]))
@pytest.mark.parametrize("line", ["job trigger taken", "job update taken", "job add x --noop"])
def test_odd_payloads_are_refused_in_words(line: str, payload: str, unchanged: Program) -> None:
    """What is no JSON, what another reader would read otherwise, and what no store can keep."""
    before = unchanged.contents()
    error = unchanged.error(*line.split(), "--payload", payload)
    assert (error["code"], error["field"]) == ("invalid_input", "payload")
    assert ODD[payload] in f"{error['message']} {error['allowed']}"
    assert unchanged.contents() == before


@pytest.mark.parametrize("line", ["restore", "db copy sqlite:///tmp/none.db", "job list --store"])
def test_a_path_that_is_no_text_is_refused_in_words(line: str, unchanged: Program) -> None:
    """A file of another encoding, as some old disks have."""
    last = "a\udcff.db" if line == "restore" else "sqlite:///tmp/a\U0001f600\udcff.db"
    (unchanged.home / "a\udcff.db").write_text("x" * 4096)
    assert unchanged.error(*line.split(), last)["code"] in ("invalid_input", "refused", "store_error")


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case: str, unchanged: Program) -> None:
    """Exit code 2, with what is allowed; the store is as it was."""
    before = unchanged.contents()
    words, last, allowed = BAD[case]
    line = [*words.split(), *(last.split() if case in ("duplicate id", "edit of nothing") else [last])]
    error = unchanged.error(*line)
    assert error["message"]
    if allowed is not None:
        assert allowed in (error["allowed"] or "") + error["message"]
    assert unchanged.contents() == before


@pytest.mark.parametrize(
    "line",
    [
        "job show x",
        "job update x --owner a",
        "job delete x",
        "job pause x",
        "job resume x",
        "job trigger x",
        "job next x",
        "job skips x",
        f"run show {MISSING_RUN}",
        f"run logs {MISSING_RUN}",
        f"run cancel {MISSING_RUN}",
    ],
)
def test_what_is_missing_is_not_found(line: str, unchanged: Program) -> None:
    """Exit code 3."""
    assert unchanged.error(*line.split(), code=3)["code"] == "not_found"


def test_a_newer_schema_is_refused(program: Program) -> None:
    """By every command but `db status`; nothing is written."""
    program("job", "add", "j", "--noop")
    with sqlite3.connect(program.database) as connection:
        connection.execute("INSERT INTO tokimori_schema_migrations VALUES (999, 'later', 'x', 0, 999)")
    connection.close()
    before = program.contents()
    for line in ("job list", "job add k --noop", "db migrate", "serve --no-http", "serve -d --no-http"):
        assert program.error(*line.split())["code"] == "schema_mismatch"
    assert program.json("db", "status")["version"] == 999
    assert program.contents() == before


@pytest.mark.parametrize("line", ["serve --no-http", "serve -d --no-http"])
def test_a_state_dir_that_can_not_be_made_is_refused(line: str, program: Program) -> None:
    """Where a file is in its way, a node says so, and does not start."""
    (program.home / "state").write_text("a file")
    error = program.error(*line.split())
    assert (error["code"], error["field"]) == ("store_error", "state_dir")


def test_a_paused_job_is_not_triggered(program: Program) -> None:
    """It is refused, exit code 2."""
    program("job", "add", "j", "--noop")
    program("job", "pause", "j")
    assert program.error("job", "trigger", "j")["code"] == "refused"


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("no_such_key = 1", "no_such_key"),
        ("[http]\nport = 'x'", "port"),
        ("[http\nport = 1", "tokimori.toml"),
        ("time_zone = 'Mars/Olympus'\n[http]\nport = -1", "Mars/Olympus"),
    ],
)
def test_bad_settings_are_refused(toml: str, said: str, program: Program) -> None:
    """An unknown or ill-typed key, bad TOML: by every command, with the file's name, and no store is made."""
    (program.home / "tokimori.toml").write_text(toml)
    for line in ("config check", "job list", "serve --no-http"):
        error = program.error(*line.split())
        assert error["code"] == "invalid_config"
        assert said in error["message"]
        assert "tokimori.toml" in error["message"]
    assert not program.database.exists()


def test_every_fault_of_the_settings_is_listed(program: Program) -> None:
    """At once, not one after the other."""
    (program.home / "bad.toml").write_text("time_zone = 'Mars/Olympus'\nnonsense = 1\n[http]\nport = -1\n")
    config = ("config", "check", "-c", str(program.home / "bad.toml"))
    assert len(program.error(*config)["message"].splitlines()) == 3
    lines = program.error(*config, "--store", "oracle://me:secret@host/x")["message"].splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("flag: store: oracle: not the URL of a store; allowed: sqlite:///")
    assert "secret" not in lines[-1]
