"""Files and databases of other schedulers, as pages of entries."""

import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tokimori.errors import InvalidFile
from tokimori.formats.format import Pages
from tokimori.service.asking import MOST_LISTED

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry, Row

STDIN = "-"


def text_of(file: str) -> str:
    """Read a file, or standard input; bytes that are not UTF-8 are decoded by `surrogateescape`."""
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as fault:
        raise InvalidFile(f"{file}: it can't be read: {fault.strerror}") from None
    return data.decode("utf-8", "surrogateescape")


def name_of(file: str) -> str:
    """Return the name of a file in messages."""
    return "stdin" if file == STDIN else file


def mapping_in(text: str, file: str) -> Mapping[str, object]:
    """Read an object of JSON, or of TOML if the file's name ends so. Raises `InvalidFile`."""
    kind = "TOML" if file.lower().endswith(".toml") else "JSON"
    try:
        found: object = tomllib.loads(text) if kind == "TOML" else msgspec.json.decode(text)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as fault:
        raise InvalidFile(f"{file}: not {kind}: {fault}", field="source", value=file, allowed=kind) from None
    if isinstance(found, Mapping):
        return found
    raise InvalidFile(f"{file}: it holds no object", field="source", value=file, allowed="an object with names")


def of_files(files: Sequence[str], read: "Callable[[str], Iterable[Entry]]") -> "list[Entry]":
    """Read all files. What is wrong with one that can't be read is refused, and counts as no entry."""
    from tokimori.translators.entries import Unread

    found: list[Entry] = []
    for file in files:
        try:
            found += read(file)
        except InvalidFile as fault:
            for line in fault.message.splitlines():
                place, _, why = line.partition(": ")
                found.append(Unread(place, why))
    return found


def at_once(read: "Callable[[], Iterable[Entry]]") -> Pages:
    """Return the pages of a source that is read at once. Its jobs come in some at a time all the same."""

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        found = iter(read())
        while page := list(islice(found, MOST_LISTED)):
            yield page

    return pages


def of_table(database: str, table: str, read: "Callable[[Sequence[Row]], Iterator[Entry]]", key: str = "id") -> Pages:
    """Return the pages of one table."""

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import check_there, opened
        from tokimori.sources.tables import pages as pages_of

        async with opened(database) as tables:
            await check_there(tables, (table,))
            async for rows in pages_of(tables, table, key):
                yield read(rows)

    return pages
