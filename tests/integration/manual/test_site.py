"""The manual as a site."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.forked import ROOT


@pytest.mark.prove
def test_the_manual_is_built_without_a_warning(tmp_path: Path) -> None:
    """Every link leads somewhere, every page stands in the tree, and the site can be searched from a folder."""
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    index = json.loads((tmp_path / "search/search_index.js").read_text().removeprefix("var __index = "))
    found = {each["location"].partition("#")[0] for each in index["docs"]}
    pages = {str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")}
    assert found == {page.replace("README.html", "index.html") for page in pages}


def test_each_page_is_linked_from_another() -> None:
    """Who reads plain files finds each page without the tree of the site."""
    pages = {page.resolve(): page.read_text() for page in (ROOT / "docs").rglob("*.md")}
    linked = {
        (page.parent / link).resolve()
        for page, text in pages.items()
        for link in re.findall(r"\]\(([^)#\s]+\.md)", text)
        if (page.parent / link).resolve() != page
    }
    assert sorted(set(pages) - linked) == [(ROOT / "docs/index.md").resolve()]


def test_each_page_of_how_to_asks_a_question() -> None:
    """What is looked up stands in the reference; a page of how to is found by the question that people ask."""
    pages = [page for page in (ROOT / "docs/how-to").glob("*.md") if page.name != "index.md"]
    titles = {page.name: page.read_text().partition("\n")[0] for page in pages}
    assert [name for name, title in titles.items() if not re.fullmatch(r"# (How|What|Why) .+\?", title)] == []
    index = (ROOT / "docs/how-to/index.md").read_text()
    assert [name for name, title in titles.items() if f"[{title[2:]}]({name})" not in index] == []
