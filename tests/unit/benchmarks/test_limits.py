"""`make limits`, on a store that is small."""

import json
from pathlib import Path

import pytest

from benchmarks.limits.__main__ import main


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_every_verb_of_the_limits_is_measured(tmp_path: Path) -> None:
    """The rows that are filled in are such as the product makes, and each verb has a figure in the end."""
    found = tmp_path / "found.json"
    size = ["--rows", "20000", "--jobs", "5000", "--queues", "1000", "--payloads", "100"]
    assert main(["--store", "SQLite", "--found", str(found), *size]) == 0
    cells = json.loads(found.read_text())["SQLite"]
    assert {"list: 100 newest runs", "HTTP: 100 jobs, first page", "claim beside the deleted job"} <= set(cells)
