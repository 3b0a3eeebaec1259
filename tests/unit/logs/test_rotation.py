import gzip
from pathlib import Path

import pytest

from tokimori.logs.reading import Rotation, finish, name_of_old, old_files

DAY = 86_400.0


def rotation(**said: object) -> Rotation:
    """By size alone, unless something else is said."""
    return Rotation(**{"max_size": 100, "max_age": 0.0, "keep": 2, "compress": True, **said})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "more", "modified", "now", "is_over"),
    [
        (0, 1000, 0, 10 * DAY, False),  # an empty file is never left behind
        (90, 10, 0, 0, False),
        (90, 11, 0, 0, True),
        (50, 1, DAY - 1, DAY, True),  # the day has changed
        (50, 1, DAY, 2 * DAY - 1, False),
        (50, 1, 2 * DAY, DAY, False),  # a clock that was set back
    ],
)
def test_when_a_file_is_over(size: int, more: int, modified: float, now: float, *, is_over: bool) -> None:
    """It is over where the line would make it too large, or where a new period has begun since its last line."""
    assert rotation(max_age=DAY).is_over(size, more, modified, now) is is_over


def test_age_alone_is_off_by_default() -> None:
    """Without an age a file that has room is never left behind."""
    assert not rotation().is_over(50, 1, 0, 1000 * DAY)


@pytest.mark.parametrize("name", ["t.log", "[t]*?.log"])
def test_the_old_ones_are_named_by_the_time(tmp_path: Path, name: str) -> None:
    """The name ends with the time as Keiji's do, and two of one second get numbers, whose order is that of making."""
    path = tmp_path / name
    made = []
    for _ in range(11):
        made.append(name_of_old(path, 0))
        made[-1].touch()
    made.append(name_of_old(path, 1))
    made[-1].touch()
    assert made[0].name == f"{name}.19700101000000"
    assert made[1].name == f"{name}.19700101000000-2"
    (tmp_path / f"{name}.backup").touch()
    assert old_files(path) == made
    for old in made[:10]:
        old.unlink()
    assert name_of_old(path, 0).name == f"{name}.19700101000000-12"  # nobody takes the place of one that was removed


def test_the_oldest_are_removed_and_the_others_compressed(tmp_path: Path) -> None:
    """Of five old files two are left, as gzip, whatever was compressed before; a file of another name stays."""
    path = tmp_path / "t.log"
    for second in range(4):
        name_of_old(path, second).write_text(f"{second}\n")
    finish(path, rotation(keep=0))
    name_of_old(path, 4).write_text("4\n")
    other = tmp_path / "t.log.mine"
    other.write_text("mine")
    finish(path, rotation())
    assert [each.name for each in old_files(path)] == ["t.log.19700101000003.gz", "t.log.19700101000004.gz"]
    assert [gzip.decompress(each.read_bytes()) for each in old_files(path)] == [b"3\n", b"4\n"]
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in old_files(path))
    assert sorted(each.name for each in tmp_path.iterdir()) == [*(each.name for each in old_files(path)), other.name]


def test_nothing_is_compressed_unless_asked(tmp_path: Path) -> None:
    """Without compression the old file stays as it is."""
    old = name_of_old(tmp_path / "t.log", 0)
    old.write_text("x")
    finish(tmp_path / "t.log", rotation(compress=False))
    assert old.read_text() == "x"
