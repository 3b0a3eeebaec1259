import logging
import os
import sys

from msgspec import json

from tokimori.logs.setup import JsonFormatter, TextFormatter


def record(message: str, *arguments: object, failed: bool = False) -> logging.LogRecord:
    exception = None
    if failed:
        try:
            os.environ["GONE"]
        except KeyError:
            exception = sys.exc_info()
    made = logging.LogRecord("tokimori.node", logging.WARNING, "", 0, message, arguments, exception)
    made.created = 1_893_456_000.25
    return made


def test_text_line() -> None:
    """A line for people begins with the moment in UTC, the level and the logger."""
    line = TextFormatter().format(record("lost %d runs", 3))
    assert line == "2030-01-01T00:00:00.250Z WARNING tokimori.node: lost 3 runs"


def test_texts_of_others_control_no_terminal() -> None:
    """A line of the log shows what would move the cursor or turn letters round; JSON says the same as before."""
    evil = "a\x1b[2J\x9b2J\u202eb\x7f\r"
    assert TextFormatter().format(record("%s", evil)).endswith(r"a\x1b[2J\x9b2J\u202eb\x7f\r")
    line = JsonFormatter().format(record("%s", evil))
    assert line.isprintable()
    assert json.decode(line)["message"] == evil


def test_text_exception() -> None:
    """An exception stands below its line."""
    lines = TextFormatter().format(record("oops", failed=True)).splitlines()
    assert lines[0].endswith("oops")
    assert lines[-1] == "KeyError: 'GONE'"


def test_json_line() -> None:
    """A JSON line is one object on one line, with an exception only where there is one."""
    line = JsonFormatter().format(record("two\nlines %s", "“x”"))
    assert "\n" not in line
    assert json.decode(line) == {
        "time": "2030-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "tokimori.node",
        "message": "two\nlines “x”",
    }


def test_json_of_what_is_no_unicode() -> None:
    """The name of a file that is not UTF-8 costs no message."""
    assert json.decode(JsonFormatter().format(record("no %s", "\udcff")))["message"] == r"no \udcff"


def test_json_exception() -> None:
    """An exception is a text of its own."""
    decoded = json.decode(JsonFormatter().format(record("oops", failed=True)))
    assert decoded["exception"].endswith("KeyError: 'GONE'")
