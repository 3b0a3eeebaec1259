"""Named days off: statements on their table."""

from tokimori.model.calendar import Calendar, decode_calendar, encode_calendar
from tokimori.stores.mysql.part import Part
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import sql
from tokimori.stores.rules.errors import no_calendar


class MysqlCalendars(Part):
    """See `tokimori.ports.store.Calendars`."""

    async def put_calendar(self, calendar: Calendar) -> None:
        """See `Calendars.put_calendar`."""
        row = (calendar.name, encode_calendar(calendar))
        await self._write(sql("REPLACE INTO tokimori_calendars (name, definition) VALUES %s", row))

    async def get_calendar(self, name: str) -> Calendar:
        """See `Calendars.get_calendar`."""
        for (text,) in await self._db.rows(sql("SELECT definition FROM tokimori_calendars WHERE name = %s", name)):
            return decode_calendar(text)
        raise no_calendar(name)

    async def list_calendars(self) -> list[Calendar]:
        """See `Calendars.list_calendars`."""
        rows = await self._db.rows("SELECT definition FROM tokimori_calendars ORDER BY name")
        return [decode_calendar(text) for (text,) in rows]

    async def delete_calendar(self, name: str) -> None:
        """See `Calendars.delete_calendar`."""
        await self._write(sql("DELETE FROM tokimori_calendars WHERE name = %s", name))

    async def _write(self, statement: str) -> None:
        async def write(transaction: Transaction) -> None:
            await transaction.ask(statement)
            await transaction.commit()

        await self._db.transact(write)
