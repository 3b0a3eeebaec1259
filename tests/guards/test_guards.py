"""Each guard is needed: a test fails without it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.guards.guard import STORE_NAMES, Guard
from tests.guards.guards import GUARDS, PAGE, ROOT, page
from tests.guards.survivors import SURVIVORS

TESTS_FAILED = 1
"""Pytest's exit code: the tests were run, and some failed."""


@cache
def text_of(path: Path) -> str:
    """Of a file that more than one guard is looked for in."""
    return path.read_text()


def test_the_page_shows_the_guards() -> None:
    """The page of guards is what the table says."""
    assert PAGE.read_text() == page(), "run: python -m tests.guards"


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_stands_where_the_table_says(guard: Guard) -> None:
    """What would be taken out is there, and so is its test."""
    assert any(guard.text in text_of(path) for path in (ROOT / "src/tokimori").glob(guard.files))
    file, _, test = guard.test.partition("::")
    assert f"def {test}(" in text_of(ROOT / file)


def test_a_line_that_may_be_broken_is_there() -> None:
    """What is said of mutants that survive is said of lines that are there."""
    for survivor in SURVIVORS:
        assert survivor.text in (ROOT / "src/tokimori" / survivor.file).read_text()


@pytest.mark.prove
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_test_fails_without_the_guard(guard: Guard, tmp_path: Path) -> None:
    """In a copy of the package without the guard its test fails; nothing else was changed."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    only = ("-k", " or ".join(_stores_of(guard))) if "contract" in guard.test else ()
    assert guard.take_out(tmp_path / "src/tokimori")
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:unraisableexception",  # told while a traceback is made, they end that with a SystemError
            "-p",
            "no:schemathesis",  # no guard's test uses it, and it takes as long to load as hypothesis
            "--hypothesis-profile",
            "prove",
            guard.test,
            *only,
            "--basetemp",
            str(tmp_path / "made"),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    end_all_of(tmp_path)
    assert ended.returncode == TESTS_FAILED, ended.stdout[-2000:]
    assert re.search(r"\d failed", ended.stdout)
    failed = " ".join(re.findall(r"^FAILED \S+", ended.stdout, re.MULTILINE))
    assert {store for store in STORE_NAMES if re.search(rf"\b{store}\b", failed)} >= set(guard.stores), failed


def _stores_of(guard: Guard) -> tuple[str, ...]:
    """On which stores a test of all of them is run."""
    return guard.where or (("sqlite",) if "rules" in guard.files else ("postgres",))


def end_all_of(folder: Path) -> None:
    """Whatever a package without guards has left running: a keeper that does not end, for one."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended
