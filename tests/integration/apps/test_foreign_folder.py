"""A node that root starts in a folder where others may put modules of theirs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import stop
from tests.programs.forked import PROGRAM

PLANTED = ("msgspec", "asyncio", "tokimori", "sitecustomize")
LOADS = "import sys; from tokimori.apps.loading import load_app; load_app(*eval(sys.argv[1]))"
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone trusts nobody else")


def plant(folder: Path) -> Path:
    """Modules of another user, under the names of what a worker process imports; the file that they would make."""
    sprung = folder / "sprung"
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(sprung)!r}, 'w').write(__name__)\n")
    return sprung


@only_root
@pytest.mark.parametrize("mode", [0o777, pytest.param(0o1777, marks=pytest.mark.prove)])
def test_nothing_of_others_is_imported(tmp_path: Path, mode: int) -> None:
    """Neither in place of our modules nor as the app: the node says which folder it was."""
    program = AppProgram(tmp_path)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    sprung = plant(foreign)
    program.app.rename(foreign / "jobs.py")
    foreign.chmod(mode)
    with program.log.open("w") as said:
        node = subprocess.Popen(
            [str(PROGRAM), "worker", "jobs:app"], cwd=foreign, env=program.environment, stdout=said, stderr=said
        )
        try:
            until(lambda: f"root imports nothing from {foreign}" in all_logs(tmp_path))
        finally:
            node.terminate()
            node.wait(30)
    assert not sprung.exists()


def all_logs(home: Path) -> str:
    """What the node and its worker processes wrote."""
    return "".join(file.read_text() for file in (home / "node.log", *home.rglob("workers/*.log")))


def test_a_folder_of_ours_is_looked_at_after_our_own_modules(tmp_path: Path) -> None:
    """The app is found where the node was started; what is there takes the place of no module of ours."""
    program = AppProgram(tmp_path)
    sprung = plant(tmp_path)
    node = program.work()
    program("job", "trigger", "double", "--wait", "--payload", '{"number": 21}')
    assert stop(node) == 0
    assert not sprung.exists()


def load(folder: Path, *arguments: object) -> str:
    """What a process says that loads an app, in this folder."""
    command = [sys.executable, "-P", "-c", LOADS, repr(arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


@only_root
@pytest.mark.prove
def test_root_is_told_which_folder_others_may_write(tmp_path: Path) -> None:
    """Also where it was named (`include`), and where the app is a file in it; a folder of root's own is fine."""
    foreign, own = tmp_path / "foreign", tmp_path / "own"
    for folder in (foreign, own):
        folder.mkdir(mode=0o755)
        (folder / "mine.py").write_text("import tokimori\napp = tokimori.App('mine')\n")
    foreign.chmod(0o777)
    assert f"root imports nothing from {foreign}" in load(foreign, "mine:app")
    assert f"root imports nothing from {foreign}" in load(own, "mine:app", (str(foreign),))
    assert f"root imports nothing from {foreign}" in load(own, str(foreign / "mine.py") + ":app")
    assert load(own, "mine:app") == load(foreign, "mine:app", (str(own),)) == load(foreign, f"{own}/mine.py:app") == ""
    os.chown(own, 65534, 65534)
    assert "belongs to nobody" in load(own, "mine:app")
