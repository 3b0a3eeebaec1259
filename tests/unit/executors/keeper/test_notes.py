"""Whose session is it?"""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from tokimori.executors.keeper.kernel import ProcessSeen, boot_identity, boottime, see
from tokimori.executors.keeper.notes import SUFFIX, end_what_dead_keepers_left, is_marked, is_ours

MARKED = [b"PATH=/bin", b"TOKIMORI_RUN_ID=r", b"TOKIMORI_TOKEN=1"]


def test_marks() -> None:
    """What a keeper spawns carries both marks; anything else does not."""
    assert is_marked(MARKED)
    assert not is_marked(MARKED[:2])
    assert not is_marked([b"NOT_TOKIMORI_RUN_ID=r", b"TOKIMORI_TOKEN=1"])
    assert not is_marked([])


def test_what_is_run_under_a_lock_is_marked_too() -> None:
    """By the lock and its token: no run may have anything to do with it."""
    assert is_marked([b"TOKIMORI_LOCK=table", b"TOKIMORI_LOCK_TOKEN=1"])
    assert not is_marked([b"TOKIMORI_LOCK=table", b"TOKIMORI_TOKEN=1"])


def test_a_session_whose_leader_lives_is_a_stranger_s() -> None:
    """If somebody has the dead keeper's pid, the session of that number is not the keeper's."""
    assert not is_ours(7, [ProcessSeen(7, 7, 7), ProcessSeen(8, 8, 7)], lambda _pid: MARKED)


def test_a_session_without_a_leader_is_ours_if_it_carries_our_mark() -> None:
    """Among members of a session whose leader is gone, one with our mark proves that they are the keeper's."""
    living = [ProcessSeen(8, 8, 7), ProcessSeen(9, 9, 7), ProcessSeen(10, 10, 10)]
    assert is_ours(7, living, {8: [], 9: MARKED, 10: []}.__getitem__)
    assert not is_ours(7, living, {8: [], 9: [], 10: MARKED}.__getitem__)
    assert not is_ours(6, living, lambda _pid: MARKED)


def test_a_session_is_ours_if_anything_in_it_is_older_than_the_keeper_s_last_word() -> None:
    """A stranger can have got the number only after the keeper was dead."""
    assert is_ours(7, [ProcessSeen(8, 8, 7, 5.0), ProcessSeen(9, 9, 7, 9.0)], lambda _pid: [], 5.0)
    assert not is_ours(7, [ProcessSeen(8, 8, 7, 5.1)], lambda _pid: [], 5.0)


def test_a_note_that_vanishes_hinders_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keeper leaves while another one starts, or two start beside each other behind one that was killed."""
    note = tmp_path / f"1-1{SUFFIX}"
    note.write_text(boot_identity())
    monkeypatch.setattr(fcntl, "flock", lambda *_: note.unlink())
    end_what_dead_keepers_left(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_who_ends_what_a_dead_keeper_left_is_not_taken_for_it(tmp_path: Path) -> None:
    """Two nodes start at once behind a dead one: none of them goes on before all of that is ended."""
    line = ["sh", "-c", "sleep 1000 >/dev/null & echo $!"]
    leader = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True)
    left = int(leader.communicate()[0])
    note = tmp_path / f"{leader.pid}-1{SUFFIX}"
    note.write_text(f"{boot_identity()}\n{boottime() + 1}")
    with note.open() as judged:
        fcntl.flock(judged, fcntl.LOCK_SH)
        end_what_dead_keepers_left(tmp_path)
    assert see(left) is None
    assert not note.exists()


def test_the_boot_identity_is_stable() -> None:
    """Within one boot and one pid namespace the identity stays the same."""
    assert boot_identity() == boot_identity()
    assert str(os.stat("/proc/self/ns/pid").st_ino) in boot_identity()  # noqa: PTH116
