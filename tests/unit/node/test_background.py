"""The note of a node in the background, and what has become of its process."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tokimori.executors.keeper.kernel import boot_identity
from tokimori.node.background import (
    NAME,
    Absent,
    Living,
    Note,
    Process,
    Stale,
    background_state,
    grip,
    judged,
    look,
    remove_note,
    write_note,
)

NOTE = Note(pid=7, began=100, boot="b", log="/l", arguments=("--no-http",))


@pytest.mark.parametrize(
    ("boot", "process", "why"),
    [
        ("c", Process(100, "python"), "started anew"),
        ("b", None, "has ended without a word"),
        ("b", Process(101, "nginx"), "belongs to another program now (nginx), which is left alone"),
    ],
)
def test_a_stale_note(boot: str, process: Process | None, why: str) -> None:
    """A note is stale after a boot, where its process has gone, and where another program has its pid."""
    found = judged(NOTE, boot, process)
    assert isinstance(found, Stale)
    assert why in found.why


def test_a_note_that_holds() -> None:
    """The same pid, begun at the same moment of the same boot, is the node; without a note there is none."""
    assert judged(NOTE, "b", Process(100, "python")) == Living(NOTE)
    assert judged(None, "b", None) == Absent()


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that waits."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def note_of(pid: int) -> Note:
    """The note of a living process."""
    process = look(pid)
    assert process is not None
    return Note(pid=pid, began=process.began, boot=boot_identity(), log="/l")


def test_a_note_is_kept_and_removed(tmp_path: Path, child: "subprocess.Popen[bytes]") -> None:
    """It is for this user alone, its first line is the pid, and another one that took its place is not removed."""
    assert background_state(tmp_path) == Absent()
    note = note_of(child.pid)
    write_note(tmp_path, note)
    assert background_state(tmp_path) == Living(note)
    assert (tmp_path / NAME).read_text().splitlines()[0] == str(child.pid)
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    remove_note(tmp_path, NOTE)
    assert background_state(tmp_path) == Living(note)
    remove_note(tmp_path, note)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_ended_is_not_living(tmp_path: Path, child: "subprocess.Popen[bytes]") -> None:
    """Also where nobody has collected it yet."""
    note = note_of(child.pid)
    write_note(tmp_path, note)
    held = grip(note)
    assert held is not None
    assert not held.ended()
    held.send(signal.SIGKILL)
    assert held.ended(within=30)
    held.send(signal.SIGKILL)
    held.close()
    assert look(child.pid) is None
    assert isinstance(background_state(tmp_path), Stale)
    assert grip(note) is None


def test_nobody_else_is_ever_held(tmp_path: Path) -> None:
    """Where the pid is another program's, there is no way to send that a signal."""
    ours = note_of(os.getpid())
    assert grip(Note(pid=ours.pid, began=ours.began - 1, boot=ours.boot, log="/l")) is None


@pytest.mark.parametrize("text", ["", "7", "7\nnonsense\n", '7\n{"pid": "x"}\n'])
def test_a_note_that_says_nothing(tmp_path: Path, text: str) -> None:
    """A file that is no note of ours, or a link, is none."""
    (tmp_path / NAME).write_text(text)
    assert background_state(tmp_path) == Absent()
    (tmp_path / NAME).rename(tmp_path / "elsewhere")
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    assert background_state(tmp_path) == Absent()
