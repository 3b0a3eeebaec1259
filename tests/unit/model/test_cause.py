"""Causes: failures that have one are told by one short text, whatever varies in what they say."""

import time

import pytest

from tokimori.model.cause import LONGEST_CAUSE, cause_id, last_line, reckoned, steady
from tokimori.model.ids import RunId
from tokimori.model.run import Output


def of_output(text: str, tail: bytes = b"") -> str:
    """The cause of a command that exited with 3 after this output."""
    output = Output(run_id=RunId("run"), attempt=1, size=9, head=text.encode(), tail=tail)
    return reckoned("failed", 3, None, "exit code 3", output)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("connection refused: db-3:5432", "connection refused: db-#"),
        ("2026-11-29 02:10:36,210 ERROR db: refused (10.0.0.3:5432)", "ERROR db: refused (#)"),
        ("[2026-11-29T02:10:36.123Z] failed after 3.5s", "failed after #s"),
        ("Nov 29 02:10:36 host app[123]: bad and/or worse", "host app[#]: bad and/or worse"),
        ("29/Nov/2026:02:10:36 +0000 broken", "broken"),
        ("run 0197a1b2-1111-7222-8333-944455556666 has failed", "run # has failed"),
        ("at 0xdeadbeef in facade, tag ab12cd34ef", "at # in facade, tag #"),
        ("cp: cannot stat '/var/lib/x/file': No such file", "cp: cannot stat '…': No such file"),
        ("no such file, open 'src/app/main.py'", "no such file, open '…'"),
        ("C:\\Users\\x\\a.txt is missing", "… is missing"),
        ("GET https://api.example.org/v1/users/42?x=1 returned 503", "GET https://api.example.org/… returned #"),
        ("ValueError: [1, 2, 3] is bad", "ValueError: [#] is bad"),
        ("connect to fe80::1 failed", "connect to # failed"),
        ("std::bad_alloc", "std::bad_alloc"),
        ("no <b>room</b> left", "no <b>room</b> left"),
    ],
)
def test_what_varies_is_taken_out(line: str, cause: str) -> None:
    """Numbers, hex, UUIDs, dates, addresses and paths are taken out of a line, and its words stay."""
    assert steady(line) == cause
    assert steady(steady(line)) == cause


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("doing\n\x1b[31mError\x1b[0m: no\x07 luck\n\n-----\n", "Error: no luck"),
        ("10 %\r55 %\rdisk full\r\n", "disk full"),
        ("X: boo\n\tat a.b(c.java:3)\nCaused by: y: zed\n\tat q.r(S.java:1)\n\t... 3 more\n", "Caused by: y: zed"),
        ("panic: oh no\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:8 +0x18\nexit status 2\n", "panic: oh no"),
        ("cc: bad flag\nmake[1]: *** [Makefile:2: all] Error 1\nmake: *** [all] Error 2\n", "cc: bad flag"),
        (
            "Error: x is undefined\n    at Object.<anonymous> (/a/b.js:1:7)\n\nNode.js v18.19.0\n",
            "Error: x is undefined",
        ),
        ("Traceback (most recent call last):\n  File 'x', line 3\nKeyError: 'id'\n", "KeyError: 'id'"),
        ("exit status 2\n", "exit status 2"),
        ("\n\n***\n12\n", ""),
    ],
)
def test_the_last_line_that_says_something_counts(text: str, line: str) -> None:
    """The last line with words is the one, without frames of a stack and what is behind a failure as its echo."""
    assert last_line(text) == line
    assert last_line(text.encode()) == line


def test_kind_and_exit_come_first() -> None:
    """A cause names how it ended; what an error or an output says comes behind, and a bare exit code is no line."""
    assert of_output("work\nno disk left on /dev/sda1\n") == "exit 3: no disk left on …"
    assert of_output("first", b"and last") == "exit 3: and last"
    assert reckoned("failed", 3, None, "exit code 3", None) == "exit 3"
    assert reckoned("failed", None, 9, "signal 9 (SIGKILL)", None) == "signal 9"
    assert reckoned("timed out", None, 15, "it took longer than 30 s", None) == "timed out"
    assert reckoned("lost", None, None, "node 0197a1b2-1111-7222-8333-944455556666 died", None) == "lost: node # died"
    assert reckoned("failed", None, None, "Traceback …\nKeyError: 'a7'", None) == "failed: KeyError: 'a#'"


def test_a_cause_is_short_and_soon_found() -> None:
    """Of hostile output a cause has at most 200 characters, and takes some milliseconds."""
    began = time.perf_counter()
    hostile = ("a/", "1-", "a.b/", "aaaa", "/", ":", "0a:", "Jan ", "x://", " at", "\x1b[", "\x1b]", "\x1bP", "\u202e")
    for text in hostile:
        assert len(of_output(text * 20_000)) <= LONGEST_CAUSE
    assert time.perf_counter() - began < 1
    assert cause_id("exit 3") == cause_id("exit 3") != cause_id("exit 4")
