"""A workspace and a task are written whole, and what is there stays."""

import os
from pathlib import Path

import pytest

from tokimori.errors import AlreadyExists, InvalidInput, Refused
from tokimori.workspace.scaffold import create, initialise
from tokimori.workspace.source import read_source


def everything(folder: Path) -> dict[str, str]:
    """All files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_a_new_task_can_be_built(tmp_path: Path) -> None:
    """It has a function, a schedule, and its description in `.env`, which only its owner can read."""
    place = create(tmp_path, "ping_google", "pings google")
    assert sorted(each.name for each in place.iterdir()) == [".env", "README.md", "function.py", "schedule.py"]
    source = read_source(tmp_path, "ping_google")
    assert source.description == "pings google"
    assert source.env == {"TASK_NAME": "ping_google", "TASK_DESCRIPTION": "pings google"}
    assert (place / ".env").stat().st_mode & 0o777 == 0o600


def test_a_task_that_is_there_stays(tmp_path: Path) -> None:
    """Unless it is said by force; then it is as new."""
    place = create(tmp_path, "t", "")
    (place / "function.py").write_text("mine")
    with pytest.raises(AlreadyExists, match="there already"):
        create(tmp_path, "t", "")
    assert (place / "function.py").read_text() == "mine"
    create(tmp_path, "t", "", force=True)
    assert (place / "function.py").read_text() != "mine"
    (tmp_path / "u.py").write_text("mine")
    with pytest.raises(AlreadyExists):
        create(tmp_path, "u", "", force=True)


@pytest.mark.parametrize("name", ["a b", "../t", "é", "", ".", "x/y"])
def test_a_name_that_is_none_leaves_nothing(tmp_path: Path, name: str) -> None:
    """Nothing is made, here or elsewhere."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    with pytest.raises(InvalidInput, match="is not the name of a task"):
        create(folder, name, "")
    assert [*folder.iterdir(), *tmp_path.iterdir()] == [folder]


@pytest.mark.parametrize("description", ["a\nb", "a\n", "a\fb", "x" * 1001, "a\0"])
def test_a_description_is_one_line(tmp_path: Path, description: str) -> None:
    """Another one is refused, and nothing is made."""
    with pytest.raises(InvalidInput):
        create(tmp_path, "t", description)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    """And nothing is left of the task."""
    with pytest.raises(Refused, match="can't be written"):
        create(tmp_path / "missing", "t", "")
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_is_made_once(tmp_path: Path) -> None:
    """Called again it makes nothing, and changes nothing."""
    folder = tmp_path / "work"
    made = initialise(folder, tmp_path / "state")
    assert [path.name for path in made] == ["tokimori.toml", "hello"]
    (folder / "tokimori.toml").write_text("# mine\n")
    before = everything(folder)
    assert initialise(folder, None) == []
    assert everything(folder) == before
    assert os.listdir(folder / "tasks") == ["hello"]  # noqa: PTH208
