"""`tokimori db …`"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_fields, print_json, print_lines, print_text
from tokimori.cli.progress import copying_bar
from tokimori.cli.session import Absent, in_bare_service, user_name
from tokimori.cli.table import print_table
from tokimori.errors import Refused

if TYPE_CHECKING:
    from tokimori.ports.store import SchemaStatus
    from tokimori.service.copying import KindCopied, Tell

db = Group("db", help="The store's tables.")


@db.command()
def status() -> None:
    """Show which migrations have been applied, and which are pending."""
    _print(in_bare_service(lambda service: service.db.status()))


@db.command()
@click.option("--plan", "planned", is_flag=True, help="Show each statement and who waits for it, and do nothing.")
def migrate(planned: bool) -> None:
    """Apply the pending migrations.

    Nodes may work meanwhile, if the plan says so. docs/how-to/upgrade.md has the steps of an upgrade.
    """
    if planned:
        from tokimori.cli.db_plan import print_plan

        return print_plan()
    return _print(in_bare_service(lambda service: service.db.migrate(), Absent.MADE))


@db.command()
@click.option("--all", "whole", is_flag=True, help="Everything that an empty store needs.")
def sql(whole: bool) -> None:
    """Print the pending migrations as SQL, for somebody who may change the tables."""
    text = in_bare_service(lambda service: service.db.sql(whole=whole))
    if options().as_json:
        print_json({"sql": text})
    else:
        print_text(text or "-- Nothing is pending.\n")


@db.command()
def check() -> int:
    """Compare tables, columns, indexes and functions with those that this version makes.

    Exit code 2 if something is missing or different.
    """
    found = in_bare_service(lambda service: service.db.check())
    if options().as_json:
        print_json({"differences": found})
    else:
        print_lines(*found or ["The tables are as this version makes them."])
    return Refused.exit_code if found else 0


@db.command()
@click.option("--undo", is_flag=True, help="Let nodes work on it again.")
def retire(undo: bool) -> None:
    """Let no node work on the store any more: another one has taken its place, by a copy or a backup.

    A node that is started there by an old setting would run everything a second time. It ends with an error instead.
    """
    in_bare_service(lambda service: service.db.retire(user_name() or "somebody", undo=undo))
    if options().as_json:
        print_json({"retired": not undo})
    else:
        print_lines("Nodes may work on the store again." if undo else "No node works on the store any more.")


@db.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(source: str, target: str) -> None:
    """Copy everything from the store at one URL to an empty store at another.

    No node may work on either. Copies jobs with their cursors, calendars, runs, attempts, outputs, the ledger and the
    counts of pruned rows, also those of deleted jobs, and compares both sides at the end. If it is interrupted, the
    same command goes on from there; until it is through no node works on the new store.
    """
    with copying_bar() as tell:
        kinds = asyncio.run(copied(source, target, tell))
    if options().as_json:
        print_json({"copied": kinds})
        return
    rows = [(each.kind, each.rows, each.written, each.digest[:12]) for each in kinds]
    print_table(("KIND", "ROWS", "WRITTEN", "DIGEST"), rows)


async def copied(source: str, target: str, tell: "Tell", *, still: bool = False) -> "Sequence[KindCopied]":
    """Copy everything from the store at one URL to the store at another. Raises what `copy_store` does."""
    from tokimori.client.opening import missing_file
    from tokimori.clock import SystemClock
    from tokimori.service.copying import copy_store
    from tokimori.stores.open import open_store

    if missing := missing_file(source):
        message = f"FROM: store {missing} does not exist"
        raise Refused(message, field="from", value=missing, allowed="a store in use")
    old, new = open_store(source, SystemClock()), open_store(target, SystemClock())
    async with AsyncExitStack() as stack:
        for store in (old, new):
            await store.open()
            stack.push_async_callback(store.close)
        return await copy_store(old, new, tell, still=still)


def _print(found: "SchemaStatus") -> None:
    if options().as_json:
        print_json(found)
        return
    print_fields(
        [
            ("schema", "none yet" if found.version is None else found.version),
            ("newest known", found.newest),
            ("usable from schema", found.oldest or "none yet"),
            ("pending", ", ".join(found.pending) or "nothing"),
        ]
    )
