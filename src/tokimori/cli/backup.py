"""`tokimori backup`: everything in the store as one SQLite file."""

import asyncio
import os
from pathlib import Path
from urllib.parse import quote

import click
from msgspec import Struct

from tokimori.cli.command import Command, options
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.progress import copying_bar
from tokimori.cli.session import load
from tokimori.errors import Refused, StoreError


class WrittenBackup(Struct, frozen=True, kw_only=True):
    """A backup that was written: the file, and its size in bytes."""

    file: str
    size: int


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--replace", is_flag=True, help="Replace a backup that is there.")
def backup(file: Path, *, replace: bool) -> None:
    """Write everything in the store to one SQLite file.

    An SQLite store may be in use meanwhile: the backup is what it held at one moment, and nobody waits. Nodes must not
    work on any other store; its own tool, such as pg_dump, needs no such pause. `tokimori restore` takes the file back.
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
        _copy(url, target)
    written = WrittenBackup(file=str(target), size=target.stat().st_size)
    if options().as_json:
        print_json(written)
    else:
        print_lines(f"{written.file}: {written.size} bytes; `tokimori restore` takes it back")


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


def _copy(url: str, target: Path) -> None:
    """Copy a store on a server to a new file. One that was not finished is no backup."""
    from tokimori.cli.db import copied
    from tokimori.client.snapshot import remove_database, write_snapshot

    partial = target.with_name(f".{target.name}.{os.getpid()}.copy")
    try:
        with copying_bar() as tell:
            asyncio.run(copied(url, f"sqlite://{quote(str(partial))}", tell))
        write_snapshot(partial, target, replace=True)
    finally:
        remove_database(partial)
