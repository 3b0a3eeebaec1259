"""The layout of keys: which migrations were applied, and applying the rest."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tokimori.clock import Moment
from tokimori.ports.store import SchemaStatus
from tokimori.stores import migrations
from tokimori.stores.migrations import Applied, Migration, pending, status_of
from tokimori.stores.redis.connections import Connections

# Whoever comes second finds the migration noted, and leaves it: a script is never run beside another one.
_GUARDED = """
if redis.call('HEXISTS', KEYS[1] .. 'schema', ARGV[{place}]) == 0 then
    (function() {text} end)()
    redis.call('HSET', KEYS[1] .. 'schema', ARGV[{place}], ARGV[{place} + 1])
end
"""


class _Note(NamedTuple):
    """What is kept of an applied migration."""

    checksum: str
    oldest: int | None
    name: str
    applied: int


def known_migrations() -> list[Migration]:
    """The migrations of this version, oldest first."""
    return migrations.known_migrations("tokimori.stores.redis.migrations", ".lua")


async def status(db: Connections, known: Sequence[Migration]) -> SchemaStatus:
    """See `Schema.schema`."""
    flat = await db.do("HGETALL", f"{db.address.prefix}schema")
    notes = {
        int(number): msgspec.json.decode(text, type=_Note) for number, text in zip(flat[::2], flat[1::2], strict=True)
    }
    return status_of((Applied(number, note.checksum, note.oldest) for number, note in notes.items()), known)


async def migrate(db: Connections, known: Sequence[Migration], now: Moment) -> SchemaStatus:
    """See `Schema.migrate`. All migrations are one script: whoever comes meanwhile sees none of them, or all."""
    lacking = pending(await status(db, known), known)
    if lacking:
        script = "".join(_GUARDED.format(text=each.text, place=2 * n + 1) for n, each in enumerate(lacking))
        notes = [text for each in lacking for text in (str(each.version), _note(each, now))]
        await db.do("EVAL", script, "1", db.address.prefix, *notes)
    return await status(db, known)


def _note(migration: Migration, now: Moment) -> str:
    return msgspec.json.encode(_Note(migration.checksum, migration.oldest, migration.name, now)).decode()
