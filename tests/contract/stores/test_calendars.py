"""Named days off: kept as they are, by name."""

import pytest

from tokimori.errors import NotFound
from tokimori.model.calendar import Calendar
from tokimori.ports.store import Store

GERMANY = Calendar(name="de", description="Feiertage „de“", dates=("12-25", "2026-12-31/2027-01-01"), weekdays=("sun",))


async def test_a_calendar_is_read_as_it_was_put(store: Store) -> None:
    """Each of its fields, and the newest of those with one name."""
    await store.put_calendar(Calendar(name="de"))
    await store.put_calendar(GERMANY)
    assert await store.get_calendar("de") == GERMANY


async def test_calendars_are_listed_by_name(store: Store) -> None:
    """In the order of code points, whatever came first."""
    assert await store.list_calendars() == []
    for name in ("b", "C", "a"):
        await store.put_calendar(Calendar(name=name))
    assert [calendar.name for calendar in await store.list_calendars()] == ["C", "a", "b"]


async def test_a_deleted_calendar_is_gone(store: Store) -> None:
    """And deleting it again is no error, as a reply may have been lost."""
    await store.put_calendar(GERMANY)
    await store.put_calendar(Calendar(name="other"))
    await store.delete_calendar("de")
    await store.delete_calendar("de")
    with pytest.raises(NotFound):
        await store.get_calendar("de")
    assert [calendar.name for calendar in await store.list_calendars()] == ["other"]
