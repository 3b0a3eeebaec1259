"""Pages of the manual, each typed as it stands there, in a fresh folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.manual.reading import MANUAL, Reader, blocks
from tests.servers import postgres

READ_ONLY = {
    *(
        f"how-to/{name}.md"
        for name in ("alarms", "channels", "notifications", "operations", "orders", "secrets", "tasks", "why")
    ),
    *(f"coming-from/{name}.md" for name in ("kala", "keiji", "kojo", "moving", "perfectsched", "settings-of-others")),
    "reference/events.md",
    "reference/limits.md",
    "explanation/threats.md",
    "explanation/benchmarks.md",
    "explanation/ledger.md",
}
"""Pages whose commands other tests try, or that stand for many."""
PAGES = sorted(
    name
    for page in MANUAL.rglob("*.md")
    if (name := str(page.relative_to(MANUAL))) not in READ_ONLY
    and name != "how-to/index.md"
    and any(each.language in ("console", "python") for each in blocks(page))
)
DATABASE = "postgresql://tokimori:secret@db:5432/tokimori"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """The address of a database of PostgreSQL, empty."""
    yield postgres.loans.url_of(tmp_path)
    postgres.loans.give_back(tmp_path)


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_says(name: str, tmp_path: Path, database: str) -> None:
    """Every command on the page ends and prints as it says there."""
    with Reader(tmp_path / "machines", {DATABASE: database}) as reader:
        if name.startswith("how-to/"):
            reader.read(MANUAL / "how-to/index.md")
        assert reader.read(MANUAL / name) > 0
