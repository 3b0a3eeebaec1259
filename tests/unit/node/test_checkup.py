"""What is wrong with a machine: each fault is made here for real."""

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.examples import NEW_YEAR
from tokimori.clock import DAY, Moment
from tokimori.config.settings import load_settings
from tokimori.executors.keeper.kernel import boot_identity
from tokimori.node import checkup
from tokimori.node.background import Note, write_note
from tokimori.service.doctor.finding import Finding, Level


def wrong(tmp_path: Path, now: Moment = NEW_YEAR, **said: object) -> list[Finding]:
    """What is wrong, with a state folder of its own."""
    flags = {"state_dir": str(tmp_path / "state"), **{f"log.{name}": value for name, value in said.items()}}
    settings = load_settings(flags, {"HOME": str(tmp_path)}, cwd=tmp_path).settings
    return [each for each in checkup.of_this_machine(settings, now) if each.level is not Level.OK]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def rules_of_2029(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "tzdata_version", lambda: "2029b")


def test_nothing_is_wrong(tmp_path: Path, state: Path) -> None:
    """A private folder with room, on a machine with new rules of time zones."""
    (state / "t.log").touch()
    assert wrong(tmp_path, file=str(state / "t.log")) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """It is no fault: a node makes it."""
    assert [(each.check, each.level) for each in wrong(tmp_path)] == [("permissions", Level.WARN)]


def test_a_folder_into_which_others_look(tmp_path: Path, state: Path) -> None:
    """It is named, with the files in it that others may read, and the commands that mend it."""
    state.chmod(0o755)
    (state / "secret").touch(mode=0o600)
    (state / "t.db").touch()
    (state / "t.db").chmod(0o644)
    found = wrong(tmp_path)
    assert [each.mend for each in found] == [f"`chmod go= {state}`", f"`chmod go= {state / 't.db'}`"]


def test_a_folder_that_others_may_write(tmp_path: Path, state: Path) -> None:
    """It is a failure: others could put their own things there."""
    state.chmod(0o777)
    (found,) = wrong(tmp_path)
    assert (found.level, "may be written by others" in found.text) == (Level.FAIL, True)


@pytest.mark.parametrize("place", ["of the kernel", "a folder", "below a file"])
def test_a_log_that_can_not_be_written(tmp_path: Path, state: Path, place: str) -> None:
    """It is named before messages are lost, also for root, who may write whatever can be written."""
    (state / "of the kernel").symlink_to("/proc/sys/kernel/ostype")
    (state / "a folder").mkdir(mode=0o700)
    (state / "below a file").touch(mode=0o600)
    log = state / place / "t.log" if place == "below a file" else state / place
    assert [each.check for each in wrong(tmp_path, file=str(log))] == ["log"]


def test_a_disk_that_is_nearly_full(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little room is a warning, and none is a failure."""
    for free, level in ((checkup.LITTLE - 1, Level.WARN), (checkup.NONE - 1, Level.FAIL)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: Usage(free))
        assert [(each.check, each.level) for each in wrong(tmp_path)] == [("disk", level)]


class Usage:
    """As shutil gives it."""

    def __init__(self, free: int) -> None:
        self.free = free


def test_old_rules_of_zones(tmp_path: Path, state: Path) -> None:
    """Rules of two years ago are old; those of last year are not."""
    assert wrong(tmp_path, Moment(NEW_YEAR + 364 * DAY)) == []
    assert [each.check for each in wrong(tmp_path, Moment(NEW_YEAR + 366 * DAY))] == ["zones"]


def test_a_node_that_has_gone(tmp_path: Path, state: Path) -> None:
    """A note that is left over is told, with what became of its process."""
    write_note(state, Note(pid=os.getpid(), began=1, boot=boot_identity(), log="/l"))
    (found,) = wrong(tmp_path)
    assert (found.check, "belongs to another program now" in found.text) == ("service", True)
