import gzip
import logging
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tokimori.logs import file
from tokimori.logs.file import LogFile
from tokimori.logs.reading import Rotation, old_files

SMALL = Rotation(max_size=1000, max_age=0, keep=0, compress=False)


def write(output: LogFile, text: str) -> None:
    """One message."""
    output.handle(logging.LogRecord("x", logging.INFO, "", 0, text, None, None))


def open_log(path: Path, rotation: Rotation | None = None, told: list[str] | None = None) -> LogFile:
    """A log file whose messages are bare texts."""
    lines: list[str] = [] if told is None else told
    return LogFile(path, rotation, lines.append)


def everything(path: Path) -> list[str]:
    """All lines, the oldest first."""
    files = [*old_files(path), path]
    texts = [gzip.decompress(each.read_bytes()) if each.suffix == ".gz" else each.read_bytes() for each in files]
    return [line for text in texts for line in text.decode().splitlines()]


def test_a_full_file_is_left_behind(tmp_path: Path) -> None:
    """Where a line would make the file too large a new one begins with it, both for the owner alone."""
    path = tmp_path / "t.log"
    output = open_log(path, SMALL)
    for number in range(30):
        write(output, f"{number:099}")
    output.close()
    assert [each.stat().st_size for each in [*old_files(path), path]] == [1000, 1000, 1000]
    assert {each.stat().st_mode & 0o777 for each in [*old_files(path), path]} == {0o600}
    assert [int(line) for line in everything(path)] == list(range(30))


def test_a_file_of_yesterday_is_left_behind(tmp_path: Path) -> None:
    """The first line of a new day begins a new file."""
    path, now = tmp_path / "t.log", [0.0]
    output = LogFile(path, Rotation(max_size=10**6, max_age=86_400, keep=0, compress=True), print, lambda: now[0])
    write(output, "one")
    os.utime(path, (10, 10))
    now[0] = 86_400
    write(output, "two")
    output.close()
    assert [each.name for each in old_files(path)] == ["t.log.19700102000000.gz"]
    assert everything(path) == ["one", "two"]
    assert path.read_text() == "two\n"


def test_many_writers_lose_no_line(tmp_path: Path) -> None:
    """Several that write to one file, and leave it behind in turn, keep every line whole, once, in their order."""
    path = tmp_path / "t.log"
    outputs = [open_log(path, SMALL) for _ in range(4)]

    def fill(number: int) -> None:
        for count in range(200):
            write(outputs[number], f"{number} {count:03} {'x' * 40}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(4)))
    for output in outputs:
        output.close()
    lines = everything(path)
    assert len(lines) == 800
    for number in range(4):
        assert [line.split()[1] for line in lines if line[0] == str(number)] == [f"{count:03}" for count in range(200)]
    assert all(each.stat().st_size <= 1000 + 3 * 50 for each in old_files(path))  # who looked at once wrote at once


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """As on a full disk, this process can make no file larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_once_and_does_no_harm(tmp_path: Path) -> None:
    """What can't be written is told once, counted, and told to the file when there is room again; lines stay whole."""
    path, told = tmp_path / "t.log", list[str]()
    output = open_log(path, None, told)
    write(output, "a" * 99)
    with files_no_larger_than(150):
        write(output, "b" * 99)
        write(output, "c" * 99)
    write(output, "d")
    output.close()
    assert told == [
        f"log.file: {path} can't be written (File too large): messages are lost there until it can; everything else"
        " goes on"
    ]
    assert everything(path) == [
        "a" * 99,
        "b" * 50,
        "2 messages were not written to this file: File too large",
        "d",
    ]


def test_a_device_without_room(tmp_path: Path) -> None:
    """Where the file is a device that takes nothing, nothing is raised or moved away, and it is told once."""
    told = list[str]()
    output = open_log(Path("/dev/full"), SMALL, told)
    write(output, "a" * 2000)
    write(output, "b")
    output.close()
    assert len(told) == 1
    assert "No space left on device" in told[0]


def test_a_folder_where_nothing_can_be_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full file that can't be moved away grows on: a line counts more than the size."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "rename", refuse)
    output = open_log(tmp_path / "t.log", SMALL)
    for number in range(30):
        write(output, f"{number:099}")
    output.close()
    assert len(everything(tmp_path / "t.log")) == 30


def test_old_files_are_compressed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left behind is compressed, no line of it is lost, and only so many are kept."""
    monkeypatch.setattr(file, "FINISHING", 60)
    path = tmp_path / "t.log"
    output = open_log(path, Rotation(max_size=1000, max_age=0, keep=3, compress=True))
    for number in range(100):
        write(output, f"{number:099}")
    output.close()
    output = open_log(path, Rotation(max_size=1000, max_age=0, keep=3, compress=True))
    for number in range(100, 110):
        write(output, f"{number:099}")
    output.close()
    assert [each.suffix for each in old_files(path)] == [".gz"] * 3
    assert [int(line) for line in everything(path)] == list(range(70, 110))
