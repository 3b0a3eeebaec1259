"""Files of other schedulers, as pages of entries."""

from collections.abc import AsyncIterator, Iterable, Sequence
from unittest.mock import AsyncMock, patch

import pytest

from tests.unit.service.world import World
from tokimori.formats.crontab import CrontabRequest
from tokimori.formats.importing import ImportTally, _stored, at_once, bring_in, check
from tokimori.service.validation import MOST_LISTED
from tokimori.translators.crontab import Crontab, read_crontab
from tokimori.translators.entries import Entry, Inactive


async def test_what_is_read_at_once_comes_in_page_by_page() -> None:
    """A transaction adds a page of jobs, however many files a source has."""

    def read() -> Iterable[Entry]:
        return (Inactive(str(number), "") for number in range(2 * MOST_LISTED + 1))

    assert [len(list(page)) async for page in at_once(read)()] == [MOST_LISTED, MOST_LISTED, 1]


async def imported(world: World, lines: Sequence[str], size: int, *, update: bool = False) -> ImportTally:
    """Import a crontab of these lines in pages of this size."""
    entries = list(read_crontab("\n".join(lines), Crontab(file="tab", zone="UTC", owner="ann")))

    async def pages() -> AsyncIterator[Iterable[Entry]]:
        for first in range(0, len(entries), size):
            yield entries[first : first + size]

    request = CrontabRequest(text="", time_zone="UTC", update=update)
    families = await check(pages, request, lambda lines, _: lines)
    return await bring_in(world.service, pages, families, request, lambda job, changes: None)


@pytest.mark.parametrize("size", [1, 2, 10])
async def test_each_line_of_a_crontab_is_a_job_of_its_own_on_whichever_page(size: int) -> None:
    """Equal lines on two pages are two jobs; a line that comes in above gives no job of a later page away."""
    world, lines = World(), ["0 1 * * * make a", "0 2 * * * make b", "0 1 * * * make a", "0 1 * * * make a"]
    assert (await imported(world, lines, size)).added == ["make", "make-2", "make-3", "make-4"]
    assert len((await imported(world, lines, size)).unchanged) == 4
    lines = ["0 0 * * * make new", *lines[:3], "0 9 * * * make a"]
    done = await imported(world, lines, size, update=True)
    assert (done.added, done.unchanged, done.changed) == (["make-6", "make-5"], ["make", "make-2", "make-3"], {})


async def test_jobs_of_a_program_are_read_once_however_many_pages_its_lines_fill() -> None:
    """A crontab of 10,000 lines of one program would read them all again on each of its ten pages."""
    world, lines = World(), [f"{number} 1 * * * make {number}" for number in range(40)]
    await imported(world, lines, 40)
    with patch("tokimori.formats.importing._stored", AsyncMock(side_effect=_stored)) as read:
        await imported(world, lines, 4)
    assert read.await_count == 40 + 1 + 40
