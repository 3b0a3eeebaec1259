"""Tests that forked processes run."""

import os
import subprocess
import sys
from getpass import getuser
from pathlib import Path

ROOT = Path(__file__).parents[2]
ONE = """
import os
import sys
import warnings

import pytest


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("place")


def test_fails(place):
    print("seen", file=sys.stderr)
    assert place == 1


def test_ends_its_process():
    os._exit(7)


def test_fails_too():
    raise OSError


def test_after_it(place):
    assert place.is_dir()
    warnings.warn("a warning")
"""
OTHER = """
import pytest


@pytest.fixture
def bad():
    yield
    raise ValueError


def test_skipped():
    pytest.skip("a reason")


def test_bad(bad):
    pass
"""

CONFTEST = """
import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    place = session.config.rootpath / "root"
    left = sorted(each.name for each in place.glob("*/pytest-[1-9]"))
    who = "child" if hasattr(session.config, "workerinput") else "parent"
    with (place / who).open("a") as seen:
        print(*left, file=seen)
"""


def test_what_forked_processes_report_is_shown(tmp_path: Path) -> None:
    """Each outcome of a test in a forked process is shown, and who ends its process hides no test after it."""
    for name, text in (("one", ONE), ("other", OTHER)):
        (tmp_path / f"test_{name}.py").write_text(text)
    words = ["-q", "-p", "tests.forks", "-p", "no:cacheprovider", "--forks", "2", "-c", os.devnull, "--rootdir", "."]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *sorted(path.name for path in tmp_path.glob("*.py"))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert found.returncode == 1, found
    said = found.stdout
    assert "3 failed, 2 passed, 1 skipped, 1 warning, 1 error" in said
    assert "test_one.py::test_ends_its_process - Its process has ended with 7." in said
    assert "Captured stderr call" in said and "a warning" in said


def test_older_folders_are_removed_by_the_parent_alone(tmp_path: Path) -> None:
    """A child that ends removes no folder of an earlier run: two that do it at once fail."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in ("one", "other"):
        (tmp_path / f"test_{name}.py").write_text("def test_it(tmp_path):\n    pass\n")
    owner = tmp_path / "root" / f"pytest-of-{getuser()}"
    for number in range(1, 6):
        (owner / f"pytest-{number}").mkdir(parents=True, mode=0o700)
    owner.chmod(0o700)
    words = ["-q", "-p", "tests.forks", "-p", "no:cacheprovider", "--forks", "2", "-c", os.devnull, "--rootdir", "."]
    subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DEBUG_TEMPROOT": str(tmp_path / "root")},
        capture_output=True,
        check=True,
        timeout=60,
    )
    every = "pytest-1 pytest-2 pytest-3 pytest-4 pytest-5 pytest-6"
    assert (tmp_path / "root" / "child").read_text().splitlines() == [every, every]
    assert not (owner / "pytest-1").exists()
