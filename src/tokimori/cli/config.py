"""`tokimori config …`"""

import os
import re
import stat
import sys
from collections.abc import Sequence
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.moment import machine_zone
from tokimori.cli.output import print_answer, print_json, print_lines
from tokimori.cli.session import load
from tokimori.cli.table import print_found, print_table
from tokimori.errors import InvalidFile, InvalidInput, Refused

if TYPE_CHECKING:
    from tokimori.translators.became import Became

_PASSWORD = re.compile(r"(://[^\s/@:]*:)[^\s@]*@")
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
    help="Whose settings they are, if their text does not say it; url: one DSN or URL.",
)
@click.option(
    "--to",
    "place",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a file of settings, or change the one that is there.",
)
def import_settings(*, file: str, system: str | None, place: Path | None) -> None:
    """Translate the settings of Koyomi, Keiji or PerfectSched; - reads standard input.

    For each key the new setting is named, or the reason that there is none: in comments of the printed settings, or
    with --to in a table. An existing file gets the settings in their places, and the difference is shown.
    """
    from tokimori.config.settings import settings_table
    from tokimori.config.value import this_machine
    from tokimori.translators.foreign_settings import recognised, translated, write_settings

    text = _text_of(file)
    old = None if place is None else _text_at(place)
    table = {setting.name: setting for setting in settings_table()}
    try:
        system = system or recognised(text)
        found = translated(
            text,
            system,
            base=Path.cwd(),  # as `job import`: their programs too begin where they are called
            table=table,
            home=this_machine(os.environ).home,
            zone=partial(machine_zone, os.environ),
            old=old,
        )
    except InvalidInput as fault:
        raise InvalidFile(
            f"{_name(file)}: {fault.message}", field=fault.field, value=fault.value, allowed=fault.allowed
        ) from None
    toml = write_settings(found, f"Settings of {system}, from {_name(file)}, by `tokimori config import`.")
    if place is not None:
        _write(place, toml if old is None else _merged(old, found, place))
    if options().as_json:
        print_json(_as_json(found, system, place))
    elif place is None:
        print_lines(toml.removesuffix("\n"))
    else:
        _print_import(found, place, old)


def _text_of(file: str) -> str:
    """Return the text. Raises `InvalidFile`."""
    from tokimori.translators.foreign_settings import LARGEST

    try:
        with sys.stdin.buffer if file == _STDIN else Path(file).open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) <= LARGEST:
            return data.decode("utf-8-sig")
        why = f"it is too large; at most {LARGEST} bytes"
    except (OSError, ValueError) as fault:
        why = "is not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else f"can't be read: {_cause(fault)}"
    raise InvalidFile(f"{_name(file)}: {why}", field="file", value=file, allowed="a file of settings")


def _cause(fault: Exception) -> str:
    return (fault.strerror if isinstance(fault, OSError) else None) or str(fault)


def _name(file: str) -> str:
    """Return the file in messages and in the text; a name of other bytes than UTF-8 has no text of its own."""
    return "stdin" if file == _STDIN else file.encode(errors="backslashreplace").decode()


def _text_at(place: Path) -> str | None:
    """Return the text of the file; None if it does not exist."""
    try:
        return place.read_text(encoding="utf-8") if place.exists() else None
    except (OSError, ValueError) as fault:
        raise _unwritten(place, fault) from None


def _merged(old: str, found: "Sequence[Became]", place: Path) -> str:
    from tokimori.translators.foreign_settings import merged

    try:
        return merged(old, found)
    except InvalidFile as fault:
        raise Refused(f"{place}: {fault.message}", field="to", value=str(place), allowed=fault.allowed) from None


def _write(place: Path, text: str) -> None:
    """Write a file that only its user reads, or change one that is there, at once. Raises `Refused`."""
    place = place.resolve()
    new = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        mode = place.stat().st_mode if place.exists() else _PRIVATE
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w", encoding="utf-8") as opened:
            opened.write(text)
        new.chmod(stat.S_IMODE(mode))
        new.replace(place)
    except (OSError, ValueError) as fault:
        raise _unwritten(place, fault) from None


def _unwritten(place: Path, fault: Exception) -> Refused:
    message = f"{place}: can't be written: {_cause(fault)}"
    return Refused(message, field="to", value=str(place), allowed="a file of settings, or the path of a new one")


def _as_json(found: "Sequence[Became]", system: str, place: Path | None) -> object:
    """Return the settings with their sections, and what each key became."""
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


def _print_import(found: "Sequence[Became]", place: Path, old: str | None) -> None:
    from tokimori.translators.foreign_settings import became_text, name_of

    rows = [(name_of(each), each.given, became_text(each) or "-", each.why) for each in found]
    print_table(("KEY", "VALUE", "BECAME", "WHY"), rows)
    if old is None:
        print_lines(f"wrote {place}")
        return
    before, after = (_PASSWORD.sub(r"\1***@", text).splitlines() for text in (old, place.read_text(encoding="utf-8")))
    changes = [*unified_diff(before, after, str(place), f"{place}, merged", n=1, lineterm="")]
    print_lines(*(changes or [f"{place} says all of it already"]))


config = Group(
    "config",
    help="The settings of nodes and of this program.",
    nouns={"import": ("tokimori.cli.config:import_settings", "Translate settings of Koyomi, Keiji, PerfectSched.")},
)


@config.command()
def show() -> None:
    """Show every setting, and where its value came from."""

    from tokimori.config.settings import shown_settings

    shown = shown_settings(load())
    print_found(
        shown, ("SETTING", "VALUE", "FROM"), [(each.name, _as_typed(each.value), each.origin) for each in shown]
    )


@config.command()
def check() -> None:
    """Check the settings and list every fault. Exit code 2 if there is one."""

    from tokimori.clock import SystemClock
    from tokimori.stores.open import open_store

    loaded = load(check_store=lambda url: open_store(url, SystemClock()))  # only reads the URL, connects nothing
    print_answer({"ok": True, "warnings": loaded.warnings}, "the settings are fine")


def _as_typed(value: object) -> object:
    """Return the value as a file of settings has it: `true`, not `True`."""

    from msgspec import json

    return value if value is None or isinstance(value, str) else json.encode(value).decode()
