"""Old output files go."""

import os
from pathlib import Path

from tests.unit.examples import NEW_YEAR
from tokimori.clock import DAY, SECOND, Moment
from tokimori.executors.keeper_post import MOST, remove_old_output
from tokimori.model.ids import uuid7


def a_file(folder: Path, made: Moment, written: Moment) -> Path:
    """The output of a run made and last written at these moments."""
    run = folder / uuid7(made, os.urandom)
    run.mkdir()
    (run / "1.log").write_text("said")
    for path in (run / "1.log", run):
        os.utime(path, (written / SECOND, written / SECOND))
    return run


def test_what_was_written_long_ago_goes(tmp_path: Path) -> None:
    """A run's folder goes once it was made and last written before the moment; whatever else is there stays."""
    before, old, young = NEW_YEAR, Moment(NEW_YEAR - DAY), Moment(NEW_YEAR + DAY)
    gone, long, new = a_file(tmp_path, old, old), a_file(tmp_path, old, young), a_file(tmp_path, young, young)
    (tmp_path / "~mine").mkdir()
    assert remove_old_output(tmp_path, before) == 1
    assert not gone.exists()
    assert all(path.exists() for path in (long / "1.log", new / "1.log", tmp_path / "~mine"))


def test_a_go_is_bounded(tmp_path: Path) -> None:
    """So many folders at most are removed at once."""
    for _ in range(MOST + 1):
        a_file(tmp_path, Moment(NEW_YEAR - DAY), Moment(NEW_YEAR - DAY))
    assert [remove_old_output(tmp_path, NEW_YEAR) for _ in range(2)] == [MOST, 1]


def test_where_nothing_ever_ran_nothing_goes(tmp_path: Path) -> None:
    """A node that has made no folder yet has nothing to remove."""
    assert remove_old_output(tmp_path / "none", NEW_YEAR) == 0
