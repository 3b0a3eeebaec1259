"""Schema of a store on the server: its layout of keys, and settings of the server that the promises need."""

from collections.abc import Mapping, Sequence

from tokimori.clock import Moment
from tokimori.errors import SchemaMismatch, StoreError
from tokimori.ports.store import SchemaStatus
from tokimori.stores.migrations import check_usable
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.redis.layout import OLDEST, SCHEMA

_LEAST = (6, 2)
"""Oldest version of Redis with the commands of our scripts; Valkey reports one that it equals."""
SETTINGS = ("appendonly", "appendfsync", "maxmemory-policy")


async def read_promises(db: RedisConnections) -> Sequence[str]:
    """Return the promises that the server can't keep. Raises `StoreError` if it is too old."""
    info = info_of(await db.do("INFO"))
    version = info.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < _LEAST:
        raise StoreError(f"store {db.address.name} is Redis {version}: {'.'.join(map(str, _LEAST))} or newer is needed")
    try:
        settings = {name: value for name in SETTINGS for _, value in [await db.do("CONFIG", "GET", name)]}
    except (StoreError, ValueError):
        settings = {}
    return broken_promises(info, settings)


def info_of(text: str) -> dict[str, str]:
    """Return the lines `name:value` of an INFO."""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def broken_promises(info: Mapping[str, str], settings: Mapping[str, str]) -> Sequence[str]:
    """Return one sentence for each promise that the server can't keep. `settings`: empty if it hides them."""
    policy = settings.get("maxmemory-policy", info.get("maxmemory_policy", "noeviction"))
    faults = []
    if info.get("aof_enabled") != "1":
        faults.append(
            "the server has appendonly = no: what it acknowledged since its last snapshot is lost when it restarts"
        )
    elif not settings:
        faults.append(
            "the server does not tell its appendfsync: unless it is always, what it acknowledged last can be lost "
            "when its machine fails"
        )
    elif settings["appendfsync"] != "always":
        faults.append(
            f"the server has appendfsync = {settings['appendfsync']}, not always: what it acknowledged last can be "
            "lost when its machine fails"
        )
    if policy != "noeviction":
        faults.append(
            f"the server has maxmemory-policy = {policy}, not noeviction: short of memory it may drop jobs and runs"
        )
    if info.get("role", "master") != "master":
        faults.append("the server is a replica: what is written here is refused, or lost when it is synchronised")
    elif info.get("connected_slaves", "0") != "0":
        faults.append(
            "the server has replicas, which lag behind: what it acknowledged last can be lost when one takes its place"
        )
    return tuple(faults)


# The second program finds it noted, and leaves it: a script is never run beside another one.
_NOTE = """
if tonumber(redis.call('HGET', KEYS[1], 'version') or 0) < tonumber(ARGV[1]) then
    redis.call('HSET', KEYS[1], 'version', ARGV[1], 'oldest', ARGV[2], 'migrated', ARGV[3])
end"""


async def status(db: RedisConnections) -> SchemaStatus:
    """See `Schema.schema`."""
    noted = await db.do("EXISTS", _key(db))  # read first: a concurrent migration writes its note at once
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
    """See `Schema.migrate`. It only writes the note: keys are made with their content."""
    check_usable(await status(db))
    await db.do("EVAL", _NOTE, "1", _key(db), str(SCHEMA), str(OLDEST), str(now))
    return await status(db)


def _key(db: RedisConnections) -> str:
    return f"{db.address.prefix}schema"
