"""What the imports of other schedulers share."""

from collections.abc import Iterable

from tokimori.cli.moving import PAGE, at_once
from tokimori.translators.moving import Entry, LeftOut


async def test_what_is_read_at_once_comes_in_page_by_page() -> None:
    """A transaction adds a page of jobs, however many files a source has."""

    async def read() -> Iterable[Entry]:
        return (LeftOut(str(number), "") for number in range(2 * PAGE + 1))

    assert [len(list(page)) async for page in at_once(read)()] == [PAGE, PAGE, 1]
