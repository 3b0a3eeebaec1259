"""`tokimori restore`: what a backup holds goes into the store."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click
from msgspec import Struct

from tokimori.cli.command import Command, options
from tokimori.cli.output import print_answer, print_json, print_lines
from tokimori.cli.progress import copying_bar
from tokimori.cli.session import load
from tokimori.errors import Refused, StoreError
from tokimori.spelling import amount


class WrittenBackup(Struct, frozen=True, kw_only=True):
    """A backup that was written: the file, and its size in bytes."""

    file: str
    size: int


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--replace", is_flag=True, help="Replace a backup that is there.")
def backup(file: Path, *, replace: bool) -> None:
    """Write everything in the store to one SQLite file.

    Nodes may work meanwhile, and nobody waits: the backup is what the store held at one moment. Of Redis alone a copy
    on another server is backed up, as `redis-cli --rdb` makes it. `tokimori restore` takes the file back, into a store
    of any kind.
    """
    from tokimori.client.opening import missing_file
    from tokimori.client.snapshot import check_snapshot, write_snapshot
    from tokimori.stores.open import file_of

    url, target = load().settings.job_store, Path.cwd() / file
    if missing := missing_file(url):
        raise StoreError(f"store {missing} does not exist", field="store", value=missing, allowed="a store in use")
    _check_new(target, replace=replace)
    if url.lower().startswith("sqlite:"):
        source = Path(file_of(url))
        if target.exists() and target.samefile(source):
            raise Refused(f"file: {target} is the store itself", field="file", value=str(target), allowed="another one")
        check_snapshot(source)
        write_snapshot(source, target, replace=replace)
    else:
        _copy_out(url, target)
    written = WrittenBackup(file=str(target), size=target.stat().st_size)
    print_answer(written, f"{written.file}: {written.size} bytes; `tokimori restore` takes it back")


def _check_new(target: Path, *, replace: bool) -> None:
    """Refuse to write over a file, unless it is a backup that may be replaced."""
    from tokimori.client.snapshot import check_snapshot

    if not target.parent.is_dir():
        message = f"file: there is no folder {target.parent}"
        raise Refused(message, field="file", value=str(target), allowed="a file in a folder that there is")
    if not target.exists():
        return
    if not replace:
        message = f"file: {target} exists already: name another one, or add --replace"
        raise Refused(message, field="file", value=str(target), allowed="a new file")
    check_snapshot(target)


def _copy_out(url: str, target: Path) -> None:
    """Copy a store on a server to a new file. One that was not finished is no backup."""
    from tokimori.client.snapshot import remove_database, write_snapshot

    partial = target.with_name(f".{target.name}.{os.getpid()}.copy")
    try:
        asyncio.run(_copied_at_one_moment(url, partial))
        write_snapshot(partial, target, replace=True)
    finally:
        remove_database(partial)


async def _copied_at_one_moment(url: str, target: Path) -> None:
    """Copy what a server's store holds now. A change of a job whose runs have not followed yet is finished before."""
    from tokimori.clock import SystemClock
    from tokimori.service.copying import copy_store, prepare_source, refuse_beating
    from tokimori.stores.open import open_store

    source, new = open_store(url, SystemClock()), open_store(f"sqlite://{quote(str(target))}", SystemClock())
    async with AsyncExitStack() as stack:
        for store in (source, new):
            await store.open()
            stack.push_async_callback(store.close)
        await prepare_source(source)
        for left in reversed(range(_MOST_TRIES)):
            await source.finish_moves()
            async with source.snapshot() as frozen:
                if frozen is None:
                    await refuse_beating(source, _OTHER_SERVER)
                else:
                    try:
                        await frozen.finish_moves()
                    except StoreError:
                        if left:
                            continue
                        raise
                with copying_bar() as report:
                    await copy_store(frozen or source, new, report, still=True)
                return


if TYPE_CHECKING:
    from tokimori.ports.store import Store

_MOST = 1_000
_MOST_TRIES = 10
_TOKENS = "documents WHERE kind = 'token'"
_OTHER_SERVER = "stop it, or back up a copy that `redis-cli --rdb FILE` makes: docs/how-to/backup.md says how"


class Restored(Struct, frozen=True, kw_only=True):
    """Content of the store now: its jobs, up to a thousand, its schema, and the names of its tokens."""

    jobs: int
    schema: int | None
    tokens: tuple[str, ...] = ()


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--replace", is_flag=True, help="Put it in the place of all that the store holds now (SQLite).")
@click.option("--without-tokens", is_flag=True, help="Leave out the tokens: whoever had one gets in no more.")
def restore(file: Path, *, replace: bool, without_tokens: bool) -> None:
    """Put what a backup holds into the store, which must be empty.

    No node may work on it. With --replace a store in an SQLite file may hold something: that is gone then, so make a
    backup before. Runs that ran when the backup was made are taken over by the first node, as after a crash. The
    tokens that come back are listed: some may have been revoked since.
    """
    from tokimori.client.opening import make_state_dir
    from tokimori.client.snapshot import check_schema, check_snapshot

    loaded, source = load(), Path.cwd() / file
    if not source.is_file():
        raise Refused(f"file: there is no {source}", field="file", value=str(source), allowed="a backup")
    inside = check_snapshot(source)
    check_schema(source, inside)  # and once more what was copied of it
    url = loaded.settings.job_store
    if url.lower().startswith("sqlite:"):
        make_state_dir(loaded.settings.state_dir)
        _check_alone(inside, url)
        restored = _put(source, url, inside, replace=replace, without_tokens=without_tokens)
    elif replace:
        message = "--replace: only an SQLite store is replaced: empty the database with its own tool, and restore then"
        raise Refused(message, field="replace", allowed="an empty store")
    else:
        restored = _copy(source, url, inside, without_tokens=without_tokens)
    if options().as_json:
        print_json(restored)
    else:
        many = amount(restored.jobs, "or more job" if restored.jobs == _MOST else "job")
        print_lines(f"restored: {many}, schema {restored.schema}; `tokimori doctor` looks at it")
        if restored.tokens:
            tokens = ", ".join(restored.tokens)
            print_lines(f"tokens that let somebody in again: {tokens}; `tokimori token revoke NAME` ends one")


def _check_alone(inside: frozenset[str], url: str) -> None:
    """Refuse to replace what others keep in the same file: the whole of it takes the place of the whole."""
    from tokimori.client.snapshot import check_snapshot
    from tokimori.stores.open import file_of, namespace_of

    own, target = namespace_of(url).name, Path(file_of(url))
    if own not in inside:
        message = f"file: it holds the installations {_named(inside)}, and the store is {_named(frozenset({own}))}"
        raise Refused(message, field="file", allowed="a backup of this installation")
    there = check_snapshot(target) if target.exists() and target.stat().st_size else frozenset()
    if others := there - {own}:
        message = f"store: {target} is also the store of the installations {_named(others)}, which would be replaced"
        raise Refused(message, field="store", value=str(target), allowed="a file of one installation")


def _named(installations: frozenset[str]) -> str:
    return ", ".join(f"?namespace={name}" if name else "without a namespace" for name in sorted(installations))


def _put(source: Path, url: str, inside: frozenset[str], *, replace: bool, without_tokens: bool) -> Restored:
    """Copy the file beside the store, look at the copy as a store, and put that in place."""
    from tokimori.client.snapshot import check_rows, check_schema, put_snapshot, remove_database, write_snapshot
    from tokimori.stores.open import file_of

    target, query = Path(file_of(url)), "".join(url.partition("?")[1:])
    if target.exists():
        if target.samefile(source):
            raise Refused(f"file: {source} is the store itself", field="file", value=str(source), allowed="a backup")
        asyncio.run(_check_target(url, replace=replace))
    if not os.access(target.parent, os.W_OK):
        message = f"store: {target} can't be written: {target.parent} is no folder that this user may write"
        raise StoreError(message, field="store", value=str(target), allowed="a file in a folder of this user")
    tried = target.with_name(f".{target.name}.{os.getpid()}.restored")
    try:
        write_snapshot(source, tried, replace=True)
        check_schema(tried, inside)
        check_rows(tried, inside)
        if without_tokens:
            _leave_out(tried, inside, _TOKENS)
        restored = asyncio.run(_looked_at(f"sqlite://{quote(str(tried))}{query}"))
        put_snapshot(tried, target)
    finally:
        remove_database(tried)
    return restored


async def _looked_at(url: str) -> Restored:
    """Return the content of the store. Raises `StoreError`, also if this version can't use it."""
    from tokimori.clock import SystemClock
    from tokimori.service.schema import open_prepared
    from tokimori.stores.open import open_store

    store = open_store(url, SystemClock())
    await open_prepared(store)
    try:
        jobs, tokens = len(await store.list_jobs(limit=_MOST)), await _tokens_of(store)
        return Restored(jobs=jobs, schema=(await store.schema()).version, tokens=tokens)
    except (KeyError, TypeError, ValueError) as fault:
        raise StoreError(f"file: a row of it can't be read ({fault!r}); nothing was restored", field="file") from fault
    finally:
        await store.close()


async def _tokens_of(store: "Store") -> tuple[str, ...]:
    from tokimori.service.tokens import TOKENS

    names: list[str] = []
    while page := await store.list_documents(TOKENS.word, after=names[-1] if names else "", limit=_MOST):
        names += [each.name for each in page]
    return tuple(names)


def _leave_out(file: Path, inside: frozenset[str], what: str) -> None:
    """Delete rows of all installations in the file, which nobody else has open."""
    import sqlite3
    from contextlib import closing

    from tokimori.stores.urls import Namespace

    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        for name in inside:
            db.execute(f"DELETE FROM {Namespace(name).prefix}{what}")
        db.execute("VACUUM")  # hashes of tokens are gone from the file, too


async def _check_target(url: str, *, replace: bool) -> None:
    """Refuse a store on which nodes work, and, unless it is to be replaced, one that holds anything."""
    from tokimori.clock import SystemClock
    from tokimori.service.copying import refuse_beating
    from tokimori.stores.open import open_store

    store = open_store(url, SystemClock())
    await store.open()
    try:
        if (await store.schema()).version is None:
            return
        await refuse_beating(store)
        if not replace and (held := await _first_of(store)) is not None:
            message = f"store: it holds something already ({held}): add --replace to lose that, or name another store"
            raise Refused(message, field="store", value=held, allowed="an empty store")
    finally:
        await store.close()


async def _first_of(store: "Store") -> str | None:
    from tokimori.ports.copying import Kind
    from tokimori.ports.store import RunFilter

    for job in await store.list_jobs(limit=1):
        return f"the job {job.id}"
    for run in await store.list_runs(RunFilter(limit=1, longest=0)):
        return f"the run {run.id}"
    for document in await store.export_rows(Kind.DOCUMENTS, None, 1):
        return f"the document {document}"[:80]
    return None


def _copy(source: Path, url: str, inside: frozenset[str], *, without_tokens: bool) -> Restored:
    """Copy the file into a store on a server, from a copy of its own: opening it as a store changes it."""
    from tokimori.cli.db import copied
    from tokimori.client.snapshot import check_rows, check_schema, remove_database, write_snapshot

    if len(inside) > 1:
        message = f"file: it holds the installations {_named(inside)}: restore it as a file, and copy each from there"
        raise Refused(message, field="file", value=str(source), allowed="a backup of one installation")
    (own,) = inside
    copy, query = source.with_name(f".{source.name}.{os.getpid()}.copy"), f"?namespace={own}" if own else ""
    try:
        write_snapshot(source, copy, replace=True)
        check_schema(copy, inside)
        check_rows(copy, inside)
        if without_tokens:
            _leave_out(copy, inside, _TOKENS)
        with copying_bar() as report:
            asyncio.run(copied(f"sqlite://{quote(str(copy))}{query}", url, report, still=True))
    finally:
        remove_database(copy)
    return asyncio.run(_looked_at(url))
