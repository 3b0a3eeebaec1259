"""Reading log files: the last lines, and those that come."""

import gzip
from pathlib import Path

import pytest

from tokimori.logs import reading
from tokimori.logs.reading import Lines, every_line, last_lines, new_lines

TEXT = b"""2030-01-01T00:00:00.000Z INFO tokimori.node.node: begins
2030-01-01T00:00:00.000Z INFO tokimori.api.access_log: GET /
2030-01-01T00:00:00.000Z ERROR tokimori.api.app: oops
Traceback (most recent call last):
2030-01-01T00:00:00.000Z INFO tokimori.node.node: goes on
"""
JSON = b"""{"time":"x","logger":"tokimori.node.node","message":"begins"}
{"time":"x","logger":"uvicorn.error","message":"GET /"}
"""


@pytest.mark.parametrize(
    ("text", "door", "node"),
    [(TEXT, [b"GET", b"oops", b"Traceback"], [b"begins", b"goes on"]), (JSON, [b"GET"], [b"begins"])],
)
def test_lines_of_the_door(tmp_path: Path, text: bytes, door: list[bytes], node: list[bytes]) -> None:
    """The door's are told from the node's, as text and as JSON, and a traceback goes with its message."""
    file = tmp_path / "t.log"
    file.write_bytes(text)
    for of_the_door, words in ((True, door), (False, node)):
        found = last_lines(file, 10, Lines(of_the_door=of_the_door))
        assert len(found) == len(words)
        assert all(word in line for word, line in zip(words, found, strict=True))


@pytest.mark.parametrize("packed", [True, False])
def test_the_last_lines_go_back_to_the_file_before(tmp_path: Path, *, packed: bool) -> None:
    """Just after a new file was begun, what came before stands in the old one, compressed or not."""
    file, old = tmp_path / "t.log", tmp_path / "t.log.20300101000000"
    (tmp_path / "t.log.20290101000000").write_text("0\n")
    if packed:
        old.with_name(f"{old.name}.gz").write_bytes(gzip.compress(b"1\n2\n"))
    else:
        old.write_bytes(b"1\n2\n")
    assert last_lines(file, 2, every_line) == [b"1\n", b"2\n"]
    file.write_bytes(b"3\n")
    assert last_lines(file, 2, every_line) == [b"2\n", b"3\n"]
    assert last_lines(file, 9, every_line) == [b"1\n", b"2\n", b"3\n"]


def test_there_is_no_file(tmp_path: Path) -> None:
    """It is an error, which whoever asks can tell."""
    with pytest.raises(FileNotFoundError):
        last_lines(tmp_path / "t.log", 1, every_line)


def test_what_comes_is_followed_into_the_next_file(tmp_path: Path) -> None:
    """Whole lines alone are given, each once, the last ones of the old file before those of the new one."""
    file = tmp_path / "t.log"
    file.write_bytes(b"0\n")
    coming = new_lines(file, 9, every_line)
    assert next(coming) == [b"0\n"]
    with file.open("ab") as opened:
        opened.write(b"1\n2")
        opened.flush()
        assert next(coming) == [b"1\n"]
        opened.write(b"3\n")
    file.rename(tmp_path / "t.log.1")
    assert next(coming) == [b"23\n"]
    assert next(coming) == []
    file.write_bytes(b"4\n")
    assert next(coming) == [b"4\n"]


def test_what_is_written_while_the_last_lines_are_read_is_given_once(tmp_path: Path) -> None:
    """Reading megabytes takes a while: a line of meanwhile is neither left out nor given twice."""
    file = tmp_path / "t.log"
    file.write_bytes(b"0\n1\n")

    def while_lines_come(line: bytes) -> bool:
        if line == b"0\n":
            with file.open("ab") as opened:
                opened.write(b"2\n")
        return True

    coming = new_lines(file, 9, while_lines_come)
    assert [*next(coming), *next(coming), *next(coming)] == [b"0\n", b"1\n", b"2\n"]


@pytest.mark.parametrize("packed", [True, False])
def test_of_a_large_file_the_end_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    """Also where it is compressed, and has to be read from its beginning for that."""
    monkeypatch.setattr(reading, "MOST_READ", 1000)
    file, text = tmp_path / "t.log", b"".join(b"%d\n" % number for number in range(9_000))
    if packed:
        (tmp_path / "t.log.20300101000000.gz").write_bytes(gzip.compress(text))
    else:
        file.write_bytes(text)
    assert last_lines(file, 2, every_line) == [b"8998\n", b"8999\n"]
