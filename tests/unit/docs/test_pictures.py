"""`make pictures`: what is drawn, and the company that is drawn."""

from collections import defaultdict
from pathlib import Path

from docs.pictures.browser import paths
from docs.pictures.company import NOW, Turn, parts, play
from docs.pictures.history import Company
from docs.pictures.things import add_things
from tokimori.web.screens.registry import SCREENS


def test_every_screen_has_a_picture() -> None:
    """Each with a name of its own, so that a new screen is looked at, too."""
    found = paths(defaultdict(lambda: "x"))
    assert len(found) == len(SCREENS) - 2
    assert len(set(found)) == len(set(found.values())) == len(found)
    assert all("{" not in path for path in found.values())


def test_a_run_goes_the_same_way_each_time() -> None:
    """Pictures differ by what has changed."""
    assert play(Turn("etl-orders-load", NOW, NOW), 34) == play(Turn("etl-orders-load", NOW, NOW), 34)


async def test_its_jobs_are_valid(tmp_path: Path) -> None:
    """What is declared of the company is accepted by the service."""
    company = Company(tmp_path)
    await company.store.open()
    await company.store.migrate()
    await add_things(company.acting("ana"))
    for part in parts():
        await company.acting("ana").jobs.add(part.job_id, **part.fields)
    assert len(await company.service.jobs.list(limit=1000)) == 60 + 2 + 2 + 1
    await company.store.close()
