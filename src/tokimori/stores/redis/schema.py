"""The schema of a store on the server: which layout of keys it has."""

from tokimori.clock import Moment
from tokimori.errors import SchemaMismatch
from tokimori.ports.store import SchemaStatus
from tokimori.stores.migrations import check_usable
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.redis.layout import OLDEST, SCHEMA

# Whoever comes second finds it noted, and leaves it: a script is never run beside another one.
_NOTE = """
if tonumber(redis.call('HGET', KEYS[1], 'version') or 0) < tonumber(ARGV[1]) then
    redis.call('HSET', KEYS[1], 'version', ARGV[1], 'oldest', ARGV[2], 'migrated', ARGV[3])
end"""


async def status(db: RedisConnections) -> SchemaStatus:
    """See `Schema.schema`."""
    noted = await db.do("EXISTS", _key(db))  # asked first: who migrates meanwhile notes all at once
    version, oldest = await db.do("HMGET", _key(db), "version", "oldest")
    if noted and version is None:
        raise SchemaMismatch(f"the keys {db.address.prefix}* are of a trial version: delete them, or use another name")
    found = None if version is None else int(version)
    return SchemaStatus(
        version=found,
        newest=SCHEMA,
        pending=(f"keys of schema {SCHEMA}",) if (found or 0) < SCHEMA else (),
        oldest=int(oldest or 0),
    )


async def migrate(db: RedisConnections, now: Moment) -> SchemaStatus:
    """See `Schema.migrate`. There is nothing to make but the note: keys come with what they hold."""
    check_usable(await status(db))
    await db.do("EVAL", _NOTE, "1", _key(db), str(SCHEMA), str(OLDEST), str(now))
    return await status(db)


def _key(db: RedisConnections) -> str:
    return f"{db.address.prefix}schema"
