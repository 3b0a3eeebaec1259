"""`tokimori job import systemd`"""

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command
from tokimori.cli.completing import zones
from tokimori.cli.machine_zone import machine_zone
from tokimori.cli.moving import Wish, at_once, move, with_move_options
from tokimori.errors import InvalidFile
from tokimori.schedules.zones import check_zone

if TYPE_CHECKING:
    from tokimori.translators.moving import Entry, LeftOut

MOST_FILES = 20_000
"""Files below the folders that are given: far more than any machine has."""
_UNITS = (".timer", ".service")
_OF_ALL = ("timer.d", "service.d")
"""Folders of drop-ins for every unit of a kind."""
NOTES = (
    "systemd still starts these timers: `systemctl disable --now NAME.timer` ends that, or they run twice",
    "without User= a command runs as the user of the node, and not as root; only a node that runs as root can run "
    "commands as other users",
    "times that clocks skip do not run, as in systemd",
)


@click.command(cls=Command)
@click.argument("sources", metavar="DIR|FILE...", nargs=-1, required=True)
@click.option("--anywhere", is_flag=True, help="Let any node run the jobs, and not only one on this host.")
@click.option("--user", metavar="NAME", help="The owner of user units; without User= the jobs run as that user.")
@click.option(
    "--timezone",
    "time_zone",
    metavar="ZONE",
    shell_complete=zones,
    help="The zone of times without one, instead of this machine's.",
)
@with_move_options
def systemd(
    sources: tuple[str, ...],
    *,
    anywhere: bool,
    user: str | None,
    time_zone: str | None,
    dry_run: bool,
    skip_refused: bool,
    update: bool,
) -> None:
    """Import timers of systemd: folders such as /etc/systemd/system and /usr/lib/systemd/system, or single files.

    The services of the timers must be among the files. Drop-ins (NAME.d/*.conf) count. Where the folders hold
    timers.target.wants, a timer that is in none of these is added paused. All timers are checked before anything is
    imported. Jobs that exist already stay as they are.
    """
    from tokimori.translators.systemd import Systemd, read_systemd

    zone = machine_zone(os.environ) if time_zone is None else check_zone(time_zone)
    said = Systemd(zone, None if anywhere else socket.gethostname(), user)

    async def read() -> "Iterable[Entry]":
        files, aliases = _files(sources)
        return [*read_systemd(files, said), *aliases]

    move(at_once(read), NOTES, Wish(dry_run=dry_run, skip_refused=skip_refused, update=update))


def _files(sources: Sequence[str]) -> tuple[Mapping[str, str], "Sequence[LeftOut]"]:
    """The texts of the units by name, and other names of timers.

    Of a name that is there twice the first one counts, as in systemd's path.
    """
    found: dict[str, str] = {}
    aliases: dict[str, str] = {}
    for source in sources:
        for name, path in _paths(Path(source)):
            if name not in found:
                found[name] = _text(path)
                if (other := _aliased(path)) is not None:
                    aliases[name] = other
            if len(found) > MOST_FILES:
                raise InvalidFile(f"{source}: over {MOST_FILES} files", field="source", allowed="folders of unit files")
    return _without_aliases(found, aliases)


def _aliased(path: Path) -> str | None:
    """The timer of which a link is only another name (Alias=); an instance is one of its own."""
    if path.suffix != ".timer" or not path.is_symlink() or "@" in path.name or path.parent.name.endswith(".wants"):
        return None
    other = path.resolve().name
    return other if other != path.name and other.endswith(".timer") else None


def _without_aliases(
    found: Mapping[str, str], aliases: Mapping[str, str]
) -> tuple[Mapping[str, str], "Sequence[LeftOut]"]:
    """A timer that is here under its own name and another one comes once."""
    from tokimori.translators.moving import LeftOut

    twice = {name: other for name, other in aliases.items() if other in found}
    units = {name: text for name, text in found.items() if name not in twice}
    return units, [LeftOut(name, f"it is another name of {other}") for name, other in twice.items()]


def _paths(source: Path) -> Iterator[tuple[str, Path]]:
    """The unit files of a folder, with the folders of drop-ins and of links, each with its name for the translator."""
    if not source.is_dir():
        yield source.name, source
        return
    for path in _listed(source):
        if path.name.endswith(_UNITS) and not path.is_dir():
            yield path.name, path
        elif path.is_dir() and (path.name in _OF_ALL or path.name.endswith((".timer.d", ".service.d"))):
            yield from ((f"{path.name}/{each.name}", each) for each in _listed(path) if each.suffix == ".conf")
        elif path.is_dir() and path.name.endswith(".wants"):
            yield from ((f"{path.name}/{each.name}", each) for each in _listed(path) if each.suffix == ".timer")


def _listed(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as fault:
        raise InvalidFile(f"{folder}: it can't be read: {fault.strerror}", field="source") from None


def _text(path: Path) -> str:
    """The text of a file; nothing for a unit that is masked, and for a link that says only that one is wanted."""
    from tokimori.cli.importing import text_of

    if path.parent.name.endswith(".wants") or (path.is_symlink() and str(path.readlink()) == os.devnull):
        return ""
    return text_of(str(path))
