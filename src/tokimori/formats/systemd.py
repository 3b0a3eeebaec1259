"""Timers of systemd, from their unit files."""

import os
import pwd
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tokimori.clock import Moment
from tokimori.errors import InvalidFile
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Option
from tokimori.formats.importing import at_once, text_of

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry, Inactive

_MOST_SENT = 2_000
MOST_FILES = 20_000
"""Files below the folders that are given: far more than any machine has."""
_UNITS = (".timer", ".service")
_OF_ALL = ("timer.d", "service.d")
"""Folders of drop-ins for every unit of a kind."""
_NOTES = (
    "systemd still starts these timers: `systemctl disable --now NAME.timer` ends that, or they run twice",
    "without User= a command runs as the user of the node, and not as root; only a node that runs as root can run "
    "commands as other users",
    "times that clocks skip do not run, as in systemd",
)


class SystemdRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unit files by name: timers, their services, drop-ins as NAME.d/FILE.conf.

    With `host` only nodes on that host run the jobs; those whose service names no user run as `user`.
    """

    files: Annotated[dict[str, str], Meta(max_length=_MOST_SENT)]
    host: str | None = None
    user: str | None = None


def _read(said: SystemdRequest, now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.systemd import Systemd, read_systemd

    return read_systemd(said.files, Systemd(said.time_zone, said.host, said.user, now))


def _source(given: Given) -> FormatSource:
    from tokimori.translators.systemd import Systemd, read_systemd

    zone, zone_notes = given.zone()
    host, user = None if given.options["anywhere"] else socket.gethostname(), given.options["user"]
    context = Systemd(zone, host, user, given.now, None if user is None else _home_of(user))

    def read() -> "Iterable[Entry]":
        files, aliases = _files(given.sources)
        return [*read_systemd(files, context), *aliases]

    return FormatSource(at_once(read), (*zone_notes, *_NOTES))


def _home_of(user: str) -> str | None:
    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        return None


def _files(sources: Sequence[str]) -> tuple[Mapping[str, str], "Sequence[Inactive]"]:
    """Return the texts of the units by name, and other names of timers.

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
    """Return the timer of which a link is only another name (Alias=); an instance is one of its own."""
    if path.suffix != ".timer" or not path.is_symlink() or "@" in path.name or path.parent.name.endswith(".wants"):
        return None
    other = path.resolve().name
    return other if other != path.name and other.endswith(".timer") else None


def _without_aliases(
    found: Mapping[str, str], aliases: Mapping[str, str]
) -> tuple[Mapping[str, str], "Sequence[Inactive]"]:
    """Leave out the second name of a timer that is here under its own name and another one."""
    from tokimori.translators.entries import Inactive

    twice = {name: other for name, other in aliases.items() if other in found}
    units = {name: text for name, text in found.items() if name not in twice}
    return units, [Inactive(name, f"it is another name of {other}") for name, other in twice.items()]


def _paths(source: Path) -> Iterator[tuple[str, Path]]:
    """Return the unit files of a folder, with the folders of drop-ins and of links, by names for the translator."""
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
    """Read a file; nothing of a unit that is masked, and of a link that says only that one is wanted."""
    if path.parent.name.endswith(".wants") or (path.is_symlink() and str(path.readlink()) == os.devnull):
        return ""
    return text_of(str(path))


FORMAT = Format(
    what="timers of systemd with their services",
    help="""Sources are folders such as /etc/systemd/system and /usr/lib/systemd/system, or files. The services of the
    timers must be among the files. Drop-ins (NAME.d/*.conf) count. If the folders hold timers.target.wants, a
    timer that is in none of these is added paused.""",
    request=SystemdRequest,
    example={
        "files": {
            "report.timer": "[Timer]\nOnCalendar=daily\n",
            "report.service": "[Service]\nType=oneshot\nExecStart=/usr/bin/make report\n",
        },
    },
    read=_read,
    source=_source,
    options=(
        Option("anywhere", "Let any node run the jobs, and not only one on this host."),
        Option("user", "The owner of user units; without User= the jobs run as that user.", "NAME"),
    ),
    metavar="DIR|FILE...",
    takes_many=True,
)
