"""`tokimori config import`: another system's settings as ours."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.table import print_table
from tokimori.errors import InvalidFile, InvalidInput, Refused

if TYPE_CHECKING:
    from tokimori.translators.became import Became

_STDIN = "-"
_PRIVATE = 0o600
"""The store's URL may hold a password."""


@click.command(
    cls=Command,
    examples=(
        ("config import config/default.toml --to tokimori.toml", "Koyomi's settings"),
        ("config import config/perfectsched.yml", "with a section [env.NAME] for each environment"),
        ("config import dsn.txt", "one line such as dbi:Pg:dbname=jobs;host=db1, as a URL"),
    ),
)
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "system",
    type=click.Choice(["koyomi", "keiji", "perfectsched", "url"]),
    help="Whose settings they are, where their text does not tell; url: one DSN or URL.",
)
@click.option("--to", "place", type=click.Path(path_type=Path), metavar="FILE", help="Write a new file of settings.")
def import_settings(*, file: str, system: str | None, place: Path | None) -> None:
    """Translate the settings of Koyomi, Keiji or PerfectSched; - reads standard input.

    What each key became is told, or why it has no equal: as comments of the settings that are printed, or in a table
    with --to. Nothing else is changed.
    """
    from tokimori.config.machine import this_machine
    from tokimori.config.settings import settings_table
    from tokimori.translators.foreign_settings import recognised, translated, write_settings

    text, base = _text_of(file)
    table = {setting.name: setting for setting in settings_table()}
    try:
        system = system or recognised(text)
        found = translated(text, system, base=base, table=table, home=this_machine(os.environ).home)
    except InvalidInput as fault:
        raise InvalidFile(
            f"{_name(file)}: {fault.message}", field=fault.field, value=fault.value, allowed=fault.allowed
        ) from None
    toml = write_settings(found, f"Settings of {system}, from {_name(file)}, by `tokimori config import`.")
    if place is not None:
        _write_new(place, toml)
    if options().as_json:
        print_json(_as_json(found, system, place))
    elif place is None:
        print_lines(toml.removesuffix("\n"))
    else:
        _tell(found, place)


def _text_of(file: str) -> tuple[str, Path]:
    """The text, and the folder in which its relative paths begin. Raises `InvalidFile`."""
    from tokimori.translators.foreign_settings import LARGEST

    try:
        with sys.stdin.buffer if file == _STDIN else Path(file).open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) <= LARGEST:
            return data.decode("utf-8-sig"), Path.cwd() if file == _STDIN else Path(file).absolute().parent
        why = f"it is too large; at most {LARGEST} bytes"
    except (OSError, ValueError) as fault:
        why = "is not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else f"can't be read: {_cause(fault)}"
    raise InvalidFile(f"{_name(file)}: {why}", field="file", value=file, allowed="a file of settings")


def _cause(fault: Exception) -> str:
    return (fault.strerror if isinstance(fault, OSError) else None) or str(fault)


def _name(file: str) -> str:
    """The file in messages and in the text; a name of other bytes than UTF-8 has no text of its own."""
    return "stdin" if file == _STDIN else file.encode(errors="backslashreplace").decode()


def _write_new(place: Path, text: str) -> None:
    """A file that only its user reads. Raises `Refused` where there is one already."""
    try:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w", encoding="utf-8") as opened:
            opened.write(text)
    except (OSError, ValueError) as fault:
        message = f"{place}: can't be written: {_cause(fault)}"
        raise Refused(message, field="to", value=str(place), allowed="the path of a new file") from None


def _as_json(found: "Sequence[Became]", system: str, place: Path | None) -> object:
    """The settings with their sections, and what each key became."""
    from tokimori.translators.foreign_settings import settings_of

    sections = settings_of(found)
    return {
        "format": system,
        "file": None if place is None else str(place),
        "settings": sections.pop(None),
        "env": sections,
        "keys": [
            {"key": each.key, "env": each.env, "value": each.given, "became": list(each.settings), "why": each.why}
            for each in found
        ],
    }


def _tell(found: "Sequence[Became]", place: Path) -> None:
    from tokimori.translators.foreign_settings import became_text, name_of

    rows = [(name_of(each), each.given, became_text(each) or "-", each.why) for each in found]
    print_table(("KEY", "VALUE", "BECAME", "WHY"), rows)
    print_lines(f"wrote {place}")
