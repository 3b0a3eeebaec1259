"""`tokimori db …`"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec import Struct

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_answer, print_fields, print_json, print_lines, print_text
from tokimori.cli.progress import copying_bar
from tokimori.cli.session import Absent, in_bare_service, load, user_name
from tokimori.cli.table import print_found, print_table
from tokimori.errors import Refused, shortened

if TYPE_CHECKING:
    from tokimori.ports.store import SchemaStatus
    from tokimori.service.copying import KindCopied, ReportStep
    from tokimori.stores.migrations import Migration


class PlannedStep(Struct, frozen=True, kw_only=True):
    """A statement of a pending migration, and who has to wait for it."""

    migration: str
    statement: str
    waits: str


class MigrationPlan(Struct, frozen=True, kw_only=True):
    """The steps that `migrate` would take. `effect`: if they take effect together, or one by one.

    `oldest`: nodes since this schema go on meanwhile, and afterwards.
    """

    steps: Sequence[PlannedStep]
    effect: str
    oldest: int


class LockRules(NamedTuple):
    """Rules of a database: `effect` as in `MigrationPlan`, and who waits, by the first words of a statement."""

    effect: str
    waits: Mapping[str, str]


_SAME_ROWS = dict.fromkeys(("UPDATE", "DELETE"), "who wants the same rows of {}")
_ROWS = _SAME_ROWS | {"INSERT": "nobody", "other": "everybody at {}, until it is through"}
_READ = "who writes to {}, while all its rows are read"
_BRIEF = "everybody at {}, for a moment, at its beginning and end"
_COLUMN = "everybody at {}, for a moment, once all transactions there have ended"
RULES = {
    "postgres": LockRules(
        "all together or not at all; what is locked stays so until the end",
        {**_ROWS, "ALTER TABLE ADD COLUMN": _COLUMN, "CREATE INDEX": _READ},
    ),
    "mysql": LockRules(
        "one by one; what was interrupted goes on next time",
        {**_ROWS, "ALTER TABLE ADD COLUMN": _COLUMN, "CREATE INDEX": _BRIEF},
    ),
    "sqlite": LockRules("all together or not at all", {"other": "everybody who writes, to whatever table"}),
    "redis": LockRules("a number is written", {"other": "nobody"}),
}
_KINDS = {"postgresql": "postgres", "mariadb": "mysql", "rediss": "redis", "redis+unix": "redis"}
_NEW = "nobody: it is new"
_STATEMENT = re.compile(
    r"(CREATE INDEX|CREATE TABLE|ALTER TABLE|UPDATE|DELETE|INSERT)\b(?:.*? ON| INTO| FROM)? (\w+)( ADD COLUMN\b)?",
    re.DOTALL,
)
_WIDEST = 100
"""Characters of a statement that are shown; with `-o json` it is whole."""


def plan_of(status: "SchemaStatus", known: "Sequence[Migration]", rules: LockRules) -> MigrationPlan:
    """Return the pending migrations; objects that are no migration are made for this program alone."""
    missing = [each for each in known if each.name in status.pending]
    own = [each for each in status.pending if each not in {migration.name for migration in missing}]
    steps = [step for migration in missing for step in _steps_of(migration, rules)]
    steps += [PlannedStep(migration=name, statement="made for this version alone", waits="nobody") for name in own]
    oldest = max([status.oldest, *(each.oldest for each in missing)])
    return MigrationPlan(steps=steps, effect=rules.effect, oldest=oldest)


def _steps_of(migration: "Migration", rules: LockRules) -> Iterator[PlannedStep]:
    from tokimori.stores.sqlite.connection import statements

    new: set[str] = set()
    for text in statements(re.sub(r"--.*$", "", migration.text, flags=re.MULTILINE)):
        words = " ".join(text.strip().removesuffix(";").split())
        found = _STATEMENT.match(words.replace("UNIQUE INDEX", "INDEX").replace("IF NOT EXISTS ", ""))
        kind, table = ("other", "it") if found is None else (found[1] + (found[3] or ""), found[2])
        new |= {table} if kind == "CREATE TABLE" else set()
        waits = _NEW if table in new else rules.waits.get(kind, rules.waits["other"]).format(table)
        yield PlannedStep(migration=migration.name, statement=words, waits=waits)


def print_plan() -> None:
    """Print what `tokimori db migrate` would do to the store of the settings, and change nothing."""
    plan = asyncio.run(_plan_for(load().settings.job_store))
    if options().as_json:
        print_json(plan)
    elif not plan.steps:
        print_lines("Nothing is pending.")
    else:
        rows = [(each.migration, shortened(each.statement, _WIDEST), each.waits) for each in plan.steps]
        print_table(("MIGRATION", "STATEMENT", "WHO WAITS"), rows)
        print_lines(f"takes effect: {plan.effect}", f"nodes since schema {plan.oldest} go on meanwhile, and afterwards")


async def _plan_for(url: str) -> MigrationPlan:
    from tokimori.client.opening import missing_file
    from tokimori.clock import SystemClock
    from tokimori.stores.migrations import check_usable, known_migrations
    from tokimori.stores.open import open_store

    if missing := missing_file(url):
        message = f"store: {missing} does not exist: `tokimori db migrate` makes it"
        raise Refused(message, field="store", value=missing, allowed="a store in use")
    store, scheme = open_store(url, SystemClock()), url.partition(":")[0].lower()
    kind = _KINDS.get(scheme, scheme)
    known = [] if kind not in RULES or kind == "redis" else known_migrations(f"tokimori.stores.{kind}.migrations")
    await store.open()
    try:
        check_usable(status := await store.schema())
    finally:
        await store.close()
    return plan_of(status, known, RULES.get(kind, RULES["redis"]))


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
    print_answer({"differences": found}, *found or ["The tables are as this version makes them."])
    return Refused.exit_code if found else 0


@db.command()
@click.option("--undo", is_flag=True, help="Let nodes work on it again.")
def retire(undo: bool) -> None:
    """Let no node work on the store any more: another one has taken its place, by a copy or a backup.

    A node that is started there by an old setting would run everything a second time. It ends with an error instead.
    """
    in_bare_service(lambda service: service.db.retire(user_name() or "somebody", undo=undo))
    print_answer(
        {"retired": not undo}, "Nodes may work on the store again." if undo else "No node works on the store any more."
    )


@db.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(source: str, target: str) -> None:
    """Copy everything from the store at one URL to an empty store at another.

    No node may work on either. Copies jobs with their cursors, calendars, runs, attempts, outputs, the ledger and the
    counts of pruned rows, also those of deleted jobs, and compares both sides at the end. If it is interrupted, the
    same command goes on from there; until it is through no node works on the new store.
    """
    with copying_bar() as report:
        kinds = asyncio.run(copied(source, target, report))
    rows = [(each.kind, each.rows, each.written, each.digest[:12]) for each in kinds]
    print_found({"copied": kinds}, ("KIND", "ROWS", "WRITTEN", "DIGEST"), rows)


async def copied(source: str, target: str, report: "ReportStep", *, still: bool = False) -> "Sequence[KindCopied]":
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
        return await copy_store(old, new, report, still=still)


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
