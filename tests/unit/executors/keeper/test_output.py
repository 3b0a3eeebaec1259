"""A bounded file, and the first and last bytes."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokimori.clock import Moment
from tokimori.executors.keeper.output import EDGE, MOST_MARKS, Output, Times
from tokimori.model.run import marks_in, times_since

sizes = st.lists(st.integers(1, 3 * EDGE), max_size=8)


def pieces_of(lengths: list[int]) -> list[bytes]:
    """Pieces of one text in which every four bytes differ from all others."""
    total = sum(lengths)
    text = b"".join(number.to_bytes(4, "big") for number in range(total // 4 + 1))
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    return [text[end - length : end] for end, length in zip(ends, lengths, strict=True)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes, st.sampled_from([1, EDGE - 1, EDGE, 2 * EDGE, 10 * EDGE]))
def test_what_is_kept(tmp_path: Path, lengths: list[int], limit: int) -> None:
    """However it is cut, the first and last 64 KiB are told without overlap; the file holds its limit and the end."""
    output = Output(tmp_path, "run/1.log", limit)
    (tmp_path / "run" / "1.log").unlink(missing_ok=True)
    pieces = pieces_of(lengths)
    everything = b"".join(pieces)
    for number, piece in enumerate(pieces):
        output.write(piece)
        assert output.recent() == b"".join(pieces[: number + 1])[-EDGE:]
    head, tail = output.finish()
    assert output.size == len(everything)
    assert head == everything[:EDGE]
    assert tail == everything[EDGE:][-EDGE:]
    assert file_of(tmp_path) == bounded(everything, limit)


def bounded(everything: bytes, limit: int) -> bytes | None:
    """What the file must hold."""
    missing = len(everything) - limit - EDGE
    if missing <= 0:
        return everything or None
    return everything[:limit] + b"\n[... %d bytes left out ...]\n" % missing + everything[-EDGE:]


def file_of(folder: Path) -> bytes | None:
    """What the file holds; None if there is none."""
    file = folder / "run" / "1.log"
    return file.read_bytes() if file.exists() else None


def test_silence_makes_no_file(tmp_path: Path) -> None:
    """An attempt that writes nothing leaves neither file nor folder."""
    assert Output(tmp_path, "run/1.log", 10).finish() == (b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_only_the_owner_reads(tmp_path: Path) -> None:
    """Output may hold secrets: nobody else may read the file or look into its folder."""
    output = Output(tmp_path, "run/1.log", 10)
    output.write(b"secret")
    output.finish()
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "run" / "1.log").stat().st_mode & 0o777 == 0o600


def test_a_file_that_can_not_be_written_is_complained_of(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where the file can't be written the output is still told, and the administrator hears of it once."""
    (tmp_path / "run").write_text("in the way")
    output = Output(tmp_path, "run/1.log", 1000)
    output.write(b"first")
    output.write(b"second")
    assert output.finish() == (b"firstsecond", b"")
    assert capfd.readouterr().err.count("run/1.log: Not a directory") == 1


def test_a_file_that_can_not_be_closed_ends_no_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file server says with the last call that there was no room: all else that runs goes on."""
    output = Output(tmp_path, "run/1.log", 1000)
    output.write(b"first")

    def close(_: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "close", close)
    assert output.finish() == (b"first", b"")
    monkeypatch.undo()
    assert capfd.readouterr().err.count("run/1.log: Disk quota exceeded") == 1


def test_a_secret_is_neither_in_the_file_nor_told(tmp_path: Path) -> None:
    """Though it comes in two pieces, lies across the first 64 KiB, or was not told whole when it ended."""
    output = Output(tmp_path, "run/1.log", 10 * EDGE, ["value-of-it"])
    pieces = [b"x" * (EDGE - 5) + b"val", b"ue-of-it", b"and value", b"-of-it, value-o"]
    for piece in pieces:
        output.write(piece)
        assert b"value-of-it" not in output.recent()
    shown = b"x" * (EDGE - 5) + b"***and ***, value-o"
    head, tail = output.finish()
    assert (head + tail, output.size) == (shown, len(shown))
    assert file_of(tmp_path) == shown


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3000)), max_size=50))
def test_marks_tell_when_each_byte_came(pieces: list[tuple[int, int]]) -> None:
    """As long as there are few: of pieces within one millisecond one time is told."""
    times, size, at, came = Times(), 0, 5, {}
    for length, passed in pieces:
        at += passed
        times.mark(size, at / 1000)
        came[size] = int(at / 1000 * 1000)
        size += length
    known = dict(marks_in(times_since(Moment(7), times.encoded())))
    assert set(known) <= set(came)
    for place, moment in came.items():
        assert known[max(each for each in known if each <= place)] == 7 + 1000 * moment


def test_a_long_output_has_few_marks() -> None:
    """Of the first and the last bytes, with a coarser time where it writes less at a time than a mark would take."""
    times, size = Times(), 0
    for number in range(200_000):
        times.mark(size, number)
        size += 5
    told = times.encoded()
    marks = list(marks_in(times_since(Moment(0), told)))
    assert len(marks) <= 2 * MOST_MARKS + 2
    assert len(told) < 16 * MOST_MARKS
    assert marks == sorted(set(marks))
    for place in (*range(0, EDGE, 5), *range(size - EDGE, size, 5)):
        found = [moment for at, moment in marks if at <= place][-1] if place % 1000 < 5 else place // 5 * 1_000_000
        assert 0 <= place // 5 - found / 1_000_000 <= 32


def test_what_is_no_mark_ends_them() -> None:
    """They may come from a program of somebody else: nothing that it says takes long or is beyond all years."""
    good = times_since(Moment(0), bytes([1, 2]))
    assert list(marks_in(good + b"\xff" * EDGE)) == [(1, 2000)]
    assert list(marks_in(good + b"\x01" + b"\xff" * 8 + b"\x7f")) == [(1, 2000)]
    assert list(marks_in(good + b"\x01")) == [(1, 2000)]
    assert list(marks_in(b"")) == []
