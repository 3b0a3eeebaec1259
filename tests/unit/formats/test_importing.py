"""Files of other schedulers, as pages of entries."""

from collections.abc import Iterable

from tokimori.formats.importing import at_once
from tokimori.service.validation import MOST_LISTED
from tokimori.translators.entries import Entry, Inactive


async def test_what_is_read_at_once_comes_in_page_by_page() -> None:
    """A transaction adds a page of jobs, however many files a source has."""

    def read() -> Iterable[Entry]:
        return (Inactive(str(number), "") for number in range(2 * MOST_LISTED + 1))

    assert [len(list(page)) async for page in at_once(read)()] == [MOST_LISTED, MOST_LISTED, 1]
