"""`tokimori config …`, `tokimori db …` and help, whole."""

import re
from importlib.metadata import version

from tests.integration.cli.conftest import Program


def test_settings_say_where_they_came_from(program: Program) -> None:
    """Flag, variable, file or default."""
    (program.home / "tokimori.toml").write_text("time_zone = 'Asia/Tokyo'\n")
    shown = {
        each["name"]: (each["value"], each["origin"]) for each in program.json("config", "show", "--store", "memory:")
    }
    assert shown["store"] == ("memory:", "flag")
    assert shown["state_dir"] == (str(program.home / "state"), "TOKIMORI_STATE_DIR")
    assert shown["time_zone"][0] == "Asia/Tokyo"
    assert shown["time_zone"][1].endswith("tokimori.toml")
    assert shown["http.port"] == (8000, "default")
    assert "Asia/Tokyo" in program("config", "show")
    assert re.search(r"http\.enabled +true +default", program("config", "show"))
    assert program("config", "check") == "the settings are fine\n"
    assert program.json("job", "add", "j", "--noop")["time_zone"] == "Asia/Tokyo"


def test_a_section_of_the_file_is_in_force(program: Program) -> None:
    """TOKIMORI_ENV names it; `config show` says so, and where it is not there every command refuses to go on."""
    (program.home / "tokimori.toml").write_text("[env.tokyo]\ntime_zone = 'Asia/Tokyo'\n")
    program.environment["TOKIMORI_ENV"] = "tokyo"
    assert re.search(r"(?m)^env +tokyo +TOKIMORI_ENV$", program("config", "show"))
    assert program.json("job", "add", "j", "--noop")["time_zone"] == "Asia/Tokyo"
    program.environment["TOKIMORI_ENV"] = "oslo"
    error = program.error("job", "list")
    assert error["code"] == "invalid_config"
    assert error["message"].endswith("has no section [env.oslo]; sections that there are: tokyo")


def test_a_store_that_cannot_be_is_a_fault_of_the_settings(program: Program) -> None:
    """`config check` finds it before a node does, and asks no store."""
    error = program.error("config", "check", "--store", "foo://x")
    assert error["code"] == "invalid_config"
    assert error["message"].startswith("flag: store: foo: not the URL of a store")
    assert program("config", "check") == "the settings are fine\n"
    assert not program.database.exists()


def test_the_program_says_which_version_it_is(program: Program) -> None:
    """The first thing that a report of a bug needs."""
    assert program("--version") == f"tokimori {version('tokimori')}\n"


def test_an_unknown_variable_is_only_warned_of(program: Program) -> None:
    """It may be meant for another version."""
    program.environment["TOKIMORI_NONSENSE"] = "1"
    ended = program.run("config", "check", "--json")
    assert ended.returncode == 0
    assert "TOKIMORI_NONSENSE" in ended.stderr


def test_a_store_gets_its_tables_from_whoever_comes_first(program: Program) -> None:
    """`db status` makes none, `db migrate` does, and what adds something too; what only looks refuses a wrong path."""
    refused = program.error("db", "status")
    assert (refused["code"], refused["field"]) == ("store_error", "store")
    assert "does not exist: `tokimori db migrate`" in refused["message"]
    assert not program.database.exists()
    program.database.touch()
    assert program.json("db", "status")["version"] is None
    assert "none yet" in program("db", "status")
    migrated = program.json("db", "migrate")
    assert migrated["version"] == migrated["newest"]
    program.database.unlink()
    assert "does not exist" in program.error("job", "list")["message"]
    assert not program.database.exists()
    program("job", "add", "j", "--noop")
    assert program.json("db", "status")["pending"] == []


def test_the_default_store_makes_its_folder(program: Program) -> None:
    """And nobody else may look inside."""
    del program.environment["TOKIMORI_STORE"]
    program("job", "add", "j", "--noop")
    state = program.home / "state"
    assert (state / "tokimori.db").exists()
    assert state.stat().st_mode & 0o777 == 0o700


def test_every_command_has_help(program: Program) -> None:
    """Without touching the store."""
    for line in ("", "serve", "job", "job add", "job import", "run", "run logs", "node", "db", "config"):
        assert program(*line.split(), "--help").startswith(f"Usage: tokimori{' ' if line else ''}{line}")
    assert "[-- ARGV...]" in program("job", "add", "--help")
    assert not program.database.exists()
