"""Tests that forked processes run."""

import os
import subprocess
import sys
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
    assert "2 failed, 2 passed, 1 skipped, 1 warning, 1 error" in said
    assert "test_one.py::test_ends_its_process - Its process has ended with 7." in said
    assert "Captured stderr call" in said and "a warning" in said
