"""How the program ends."""

import errno
import json
import os
from typing import Any

import click
import pytest

from tokimori.cli.command import Command, Group
from tokimori.cli.errors import run
from tokimori.errors import (
    AlreadyExists,
    Bug,
    Conflict,
    InvalidConfig,
    InvalidInput,
    NotFound,
    Refused,
    SchemaMismatch,
    StoreUnavailable,
)

EXIT_CODES = [
    (InvalidInput("m"), 2),
    (InvalidConfig(["a", "b"]), 2),
    (Refused("m"), 2),
    (StoreUnavailable("m"), 2),
    (SchemaMismatch("m"), 2),
    (AlreadyExists("m"), 2),
    (NotFound("m"), 3),
    (Conflict("m"), 4),
    (Bug("m"), 70),
    (ZeroDivisionError("m"), 70),
    (KeyboardInterrupt(), 130),
]


def program(error: BaseException | None = None, returned: int | None = None) -> Group:
    """A program with one command, which raises or returns this."""

    def act(number: int | None) -> int | None:
        if error is not None:
            raise error
        return returned if number is None else number

    group = Group("tokimori")
    group.add_command(Command("act", callback=act, params=[click.Option(["--number"], type=int)]))
    return group


@pytest.mark.parametrize(("error", "code"), EXIT_CODES, ids=lambda value: type(value).__name__)
def test_every_error_has_its_exit_code(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """And writes nothing where the answer would stand."""
    assert run(program(error), ["act"]) == code
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (1, 1)])
def test_a_command_says_its_exit_code(returned: int | None, code: int) -> None:
    """Without a word it is 0."""
    assert run(program(returned=returned), ["act"]) == code


def test_an_error_says_what_is_allowed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Below the message, unless the message says it."""
    run(program(InvalidInput("x: 3 is not allowed", allowed="1..2")), ["act"])
    assert capsys.readouterr().err == "error: x: 3 is not allowed\nallowed: 1..2\n"
    run(program(InvalidInput("x: 3 is not in 1..2", allowed="1..2")), ["act"])
    assert capsys.readouterr().err == "error: x: 3 is not in 1..2\n"


def test_what_is_not_there_names_the_list_where_it_would_stand(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that was meant is named by itself."""
    run(program(NotFound("there is no job 'nope'")), ["act"])
    assert capsys.readouterr().err == "error: there is no job 'nope'\nSee `tokimori job list`.\n"
    run(program(NotFound("there is no job 'jj'; did you mean j?")), ["act"])
    assert capsys.readouterr().err == "error: there is no job 'jj'; did you mean j?\n"


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one line of JSON on stderr."""
    (line,) = capsys.readouterr().err.splitlines()
    found: dict[str, Any] = json.loads(line)["error"]
    return found


def test_errors_are_json_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Ours, click's and bugs have one shape, wherever `--json` stands."""
    run(program(NotFound("m", field="id", value="x")), ["--json", "act"])
    assert shown(capsys) == {"code": "not_found", "message": "m", "field": "id", "value": "x", "allowed": None}
    assert run(program(), ["act", "--number", "x", "--json"]) == 2
    assert (shown(capsys)["field"], run(program(), ["act", "--nonsense", "--json"])) == ("number", 2)
    assert shown(capsys)["code"] == "invalid_input"
    run(program(ZeroDivisionError("m")), ["act", "--json"])
    assert shown(capsys)["code"] == "bug"


def test_what_stands_after_two_dashes_asks_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` may be an argument of the job's program."""
    run(program(NotFound("m")), ["act", "--", "--json"])
    assert capsys.readouterr().err.startswith("error: ")


def test_a_bug_shows_its_origin_only_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody is asked to report it."""
    monkeypatch.delenv("TOKIMORI_DEBUG", raising=False)
    run(program(ZeroDivisionError("m")), ["act"])
    quiet = capsys.readouterr().err
    assert "report" in quiet
    assert "Traceback" not in quiet
    run(program(ZeroDivisionError("m")), ["--debug", "act"])
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("TOKIMORI_DEBUG", "1")
    run(program(ZeroDivisionError("m")), ["act"])
    assert "Traceback" in capsys.readouterr().err


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused all the same."""
    assert run(program(), []) == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["EACCES", "EROFS", "ENAMETOOLONG", "ENOTDIR", "EISDIR"])
def test_a_path_that_nobody_reaches_is_no_bug(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever command was given it, the path and the reason are told; without a path it is a bug of ours."""
    fault = getattr(errno, number)
    assert run(program(OSError(fault, os.strerror(fault), "/home/ann/x")), ["act"]) == 2
    assert capsys.readouterr().err.startswith(f"error: /home/ann/x: {os.strerror(fault)}\n")
    assert run(program(OSError(fault, os.strerror(fault))), ["act"]) == 70
