"""What is seen of changes to an app's code."""

import os
from pathlib import Path

from tokimori.node.functions import changed_of, stamps_of


def test_python_files_are_looked_at_and_no_others(tmp_path: Path) -> None:
    """Those below the folders, but not what is hidden or installed."""
    for name in ("app.py", "part/other.py", "notes.txt", ".venv/x.py", "site-packages/y.py", "part/__pycache__/z.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    assert sorted(stamps_of([tmp_path])) == [tmp_path / "app.py", tmp_path / "part/other.py"]
    assert stamps_of([tmp_path / "nothing"]) == {}


def test_no_more_files_are_looked_at_than_are_said(tmp_path: Path) -> None:
    """A folder without end costs no more than its bound."""
    for n in range(5):
        (tmp_path / f"{n}.py").touch()
    assert list(stamps_of([tmp_path], 3)) == [tmp_path / f"{n}.py" for n in range(3)]


def test_a_change_is_what_differs(tmp_path: Path) -> None:
    """A file that is new, another one, or gone."""
    kept, gone, edited = (tmp_path / f"{name}.py" for name in ("kept", "gone", "edited"))
    for path in (kept, gone, edited):
        path.touch()
    before = stamps_of([tmp_path])
    gone.unlink()
    os.utime(edited, ns=(1, 1))
    (tmp_path / "new.py").touch()
    assert changed_of(before, stamps_of([tmp_path])) == [edited, gone, tmp_path / "new.py"]
    assert changed_of(before, before) == []
