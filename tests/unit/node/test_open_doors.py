"""Which doors are open."""

import os
import stat
from pathlib import Path

import pytest

from tokimori.node.open_doors import Door, door_lines, doors, noted_door, open_doors


def test_a_door_is_known_as_long_as_it_is_open(tmp_path: Path) -> None:
    """Several nodes of a folder are told, in order; nothing is left of them."""
    assert open_doors(tmp_path) == []
    with noted_door(tmp_path, "http://127.0.0.1:8001/"):
        with noted_door(tmp_path, "http://127.0.0.1:8000/"):
            assert open_doors(tmp_path) == ["http://127.0.0.1:8000/", "http://127.0.0.1:8001/"]
            assert doors(tmp_path)[0] == Door("http://127.0.0.1:8000/", os.getpid())
            modes = {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "doors").iterdir()}
            assert (stat.S_IMODE((tmp_path / "doors").stat().st_mode), modes) == (0o700, {0o600})
        assert open_doors(tmp_path) == ["http://127.0.0.1:8001/"]
    assert list((tmp_path / "doors").iterdir()) == []


def test_a_dead_node_is_not_told_of(tmp_path: Path) -> None:
    """A process that was killed leaves a file; who finds that nobody holds it removes it."""
    child = os.fork()
    if child == 0:
        door = noted_door(tmp_path, "http://127.0.0.1:8000/")
        door.__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list((tmp_path / "doors").iterdir())) == 1
    assert open_doors(tmp_path) == []
    assert list((tmp_path / "doors").iterdir()) == []


def test_a_dead_node_whose_lock_is_still_held_is_not_told_of(tmp_path: Path) -> None:
    """What a killed process had open may outlive it: a child that it was just starting holds the lock for a while."""
    waits, goes_on = os.pipe()
    node = os.fork()
    if node == 0:
        door = noted_door(tmp_path, "http://127.0.0.1:8000/")
        door.__enter__()
        if os.fork() == 0:
            os.close(goes_on)
            os.read(waits, 1)
        os._exit(0)
    os.waitpid(node, 0)
    assert len(list((tmp_path / "doors").iterdir())) == 1
    assert doors(tmp_path) == []
    assert len(list((tmp_path / "doors").iterdir())) == 1
    os.close(goes_on)
    os.close(waits)


def test_a_door_of_another_container_is_open_as_long_as_it_is_locked(tmp_path: Path) -> None:
    """Its pid means nothing here: whether such a process lives here says nothing."""
    with noted_door(tmp_path, "http://127.0.0.1:8000/"):
        (file,) = (tmp_path / "doors").iterdir()
        for pid in (os.getpid(), 2**22 + 1):
            file.write_text(f"http://127.0.0.1:8000/\n{pid}\nanother boot, or another namespace\n")
            assert doors(tmp_path) == [Door("http://127.0.0.1:8000/", None)]
        with noted_door(tmp_path, "http://127.0.0.1:8000/"):
            assert {door.pid for door in doors(tmp_path)} == {None, os.getpid()}


def test_only_what_this_user_wrote_is_believed(tmp_path: Path) -> None:
    """An address that others may have written would be given the secret."""
    with noted_door(tmp_path, "http://127.0.0.1:8000/"):
        (file,) = (tmp_path / "doors").iterdir()
        file.chmod(0o666)
        assert open_doors(tmp_path) == []
        file.chmod(0o600)
        (tmp_path / "doors" / "link").symlink_to(file)
        assert open_doors(tmp_path) == ["http://127.0.0.1:8000/"]


def test_a_node_whose_door_cannot_be_noted_works_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Only the command that prints the address misses it, and the log says so."""
    (tmp_path / "doors").touch()
    with noted_door(tmp_path, "http://127.0.0.1:8000/"):
        assert open_doors(tmp_path) == []
    assert "will not find this node" in caplog.text


def test_the_secret_is_told_to_whoever_started_the_node_alone() -> None:
    """Where others read along, the node names the command."""
    address, secret = "http://127.0.0.1:8000/", "s" * 43
    assert door_lines(address, secret, with_secret=True) == (f"Its page is at {address}?secret={secret}",)
    lines = door_lines(address, secret, with_secret=False)
    assert lines[0] == f"Its page is at {address}" and "tokimori node address" in lines[1]
    assert secret not in "".join(lines)
