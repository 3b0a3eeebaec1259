"""There is one environment for each set of locked dependencies, and none where a build depends on nothing."""

import os
import sys
import threading
from pathlib import Path

import pytest

from tokimori.errors import Refused
from tokimori.executors import builds as module
from tokimori.executors.builds import Environments, key_of
from tokimori.model.build import Manifest

LOCK = ("a==1 --hash=sha256:0",)


class Made:
    """Stands for what makes environments: processes of Python and pip, which take seconds."""

    def __init__(self) -> None:
        self.called: list[list[str]] = []
        self.fails = False

    def __call__(self, argv: list[str], for_whom: str, closing: threading.Event) -> None:
        self.called.append(argv)
        Path(argv[-1]).mkdir(parents=True, exist_ok=True) if argv[1:3] == ["-m", "venv"] else None
        if self.fails and "pip" in argv:
            raise Refused(f"build: the environment of {for_whom} can't be made")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    found = Made()
    monkeypatch.setattr(module, "_run", found)
    return found


def test_a_build_that_depends_on_nothing_needs_none(tmp_path: Path, made: Made) -> None:
    """The node's own Python runs it."""
    assert Environments(tmp_path).python_for(Manifest(task="t")) == sys.executable
    assert (made.called, list(tmp_path.iterdir())) == ([], [])


def test_an_environment_is_made_once(tmp_path: Path, made: Made) -> None:
    """Of all tasks with the same lock; each line is installed with its hash, and nothing beside."""
    python = Environments(tmp_path).python_for(Manifest(task="t", lock=LOCK))
    assert Environments(tmp_path).python_for(Manifest(task="u", lock=LOCK)) == python
    assert python == str(tmp_path / key_of(LOCK) / "bin" / "python")
    assert len(made.called) == 2
    assert {"--require-hashes", "--no-deps"} < set(made.called[1])
    assert (tmp_path / key_of(LOCK) / "tokimori-lock.txt").read_text() == "a==1 --hash=sha256:0\n"


def test_one_that_was_left_half_made_is_made_anew(tmp_path: Path, made: Made) -> None:
    """The error says whose it is; the next try begins from nothing."""
    made.fails = True
    manifest = Manifest(task="t", lock=LOCK, locked_for="Python 3.11 on linux")
    with pytest.raises(Refused, match=r"the task 't' \(locked for Python 3\.11 on linux\)"):
        Environments(tmp_path).python_for(manifest)
    made.fails = False
    (tmp_path / key_of(LOCK) / "left").touch()
    Environments(tmp_path).python_for(manifest)
    assert not (tmp_path / key_of(LOCK) / "left").exists()


def test_one_that_nothing_has_wanted_for_long_is_removed(tmp_path: Path, made: Made) -> None:
    """One that is wanted stays, and so does what is made now: others wait for it."""
    environments = Environments(tmp_path)
    environments.python_for(Manifest(task="t", lock=LOCK))
    ready = tmp_path / key_of(LOCK) / "tokimori-ready"
    environments.forget(0)
    assert ready.exists()
    os.utime(ready, (1, 1))
    environments.forget(2)
    assert not ready.parent.exists()


def test_other_locks_have_other_environments() -> None:
    """Their names are known from the lock alone."""
    assert len({key_of(LOCK), key_of(()), key_of((*LOCK, "b==1"))}) == 3


def test_what_can_not_be_made_says_why(tmp_path: Path) -> None:
    """The last that the program said is in the error."""
    with pytest.raises(Refused, match=r"of somebody can't be made: no such thing"):
        module._run(
            [sys.executable, "-c", "print('no such thing'); raise SystemExit(1)"], "somebody", threading.Event()
        )


class Begun(threading.Event):
    """Is set as soon as there is a file."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def is_set(self) -> bool:
        return self._file.exists()


@pytest.mark.parametrize("inner", [False, True])
def test_a_node_that_stops_waits_for_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: bool
) -> None:
    """What makes it is ended, with what that has started: while that has its output open, the output does not end."""
    monkeypatch.setattr(module, "_LOOK", 0.01)
    file = tmp_path / "begun"
    sleeps = f"import time; open({str(file)!r}, 'w'); time.sleep(600)"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleeps!r}])"
    with pytest.raises(Refused, match=r"its process was ended \(-9\)"):
        module._run([sys.executable, "-c", starts if inner else sleeps], "somebody", Begun(file))


def test_a_node_that_stops_waits_for_no_other_node(tmp_path: Path, made: Made) -> None:
    """One that makes the same environment has as long as pip gets."""
    other, stops = Environments(tmp_path), Environments(tmp_path)
    stops.close()
    with other._locked(key_of(LOCK)), pytest.raises(Refused, match="another node"):
        stops.python_for(Manifest(task="t", lock=LOCK))
    assert made.called == []
