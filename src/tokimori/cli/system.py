"""`tokimori system …`: a node in the background. The scheduler is the node, and the bus its door.

What only work needs is imported when it is used, so that help need not wait for it.
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click
from msgspec import Struct

from tokimori.cli.command import CommandWithArguments, Group, arguments_given
from tokimori.cli.editor import editor_options, open_in
from tokimori.cli.errors import DONE
from tokimori.cli.moment import Length
from tokimori.cli.output import print_notice
from tokimori.cli.session import load
from tokimori.cli.table import print_found

OFFLINE = 3
"""The exit code of `status` if no node runs, as that of systemctl."""
_LOOK = 0.5
"""Seconds between two looks at a log, and (twice as many) at services."""
_LINES = 100

system = Group(
    "system",
    help="A node in the background: start, stop, restart, status, logs; install, uninstall, update.",
    nouns={
        "install": ("tokimori.cli.system_unit:install", "Write a unit of systemd for a node."),
        "uninstall": ("tokimori.cli.system_unit:uninstall", "Remove what install has made, and nothing else."),
        "update": ("tokimori.cli.system_update:update", "Install another version; the old one comes back if it fails."),
    },
)


class Service(Struct, frozen=True, kw_only=True):
    """A part of a node on this machine: `scheduler` or `bus`. `says`: ready, or the reason; `by`: its starter."""

    name: str
    status: str
    pid: int | None
    says: str
    address: str | None
    by: str | None


@system.command(cls=CommandWithArguments)
@click.option("--timeout", type=Length(), default=60.0, metavar="LENGTH", help="How long to wait until it is ready.")
def start(*, timeout: float) -> int:
    """Start a node in the background, and wait until it is ready. Arguments after -- are for `tokimori serve`.

    If one runs already nothing happens. Exit code 1 if it is not ready in time; it goes on trying.
    """
    from tokimori.cli.serve import make_folders
    from tokimori.cli.system_process import start_node
    from tokimori.node.background import one_at_a_time

    loaded = load()
    make_folders(loaded.settings)
    with one_at_a_time(loaded.settings.state_dir):
        return start_node(loaded, arguments_given() or (), timeout)


@system.command()
@click.option("--now", is_flag=True, help="Release its runs at once, as a second TERM does.")
@click.option("--timeout", type=Length(), metavar="LENGTH", help="How long to wait; by default the grace and 30 s.")
def stop(*, now: bool, timeout: float | None) -> int:
    """Stop the node in the background: it claims no more, and its runs get node.stop_grace to finish.

    Says for which runs it waits. Another program that has the pid of a node that has gone is left alone.
    """
    from tokimori.cli.system_process import stop_node

    return stop_node(load(), timeout, now=now)


@system.command(cls=CommandWithArguments)
@click.option("--now", is_flag=True, help="Release its runs at once, as a second TERM does.")
@click.option("--timeout", type=Length(), default=60.0, metavar="LENGTH", help="How long to wait until it is ready.")
def restart(*, now: bool, timeout: float) -> int:
    """Stop the node in the background, if one runs, and start it again with the arguments that it had."""
    from tokimori.cli.serve import make_folders
    from tokimori.cli.system_process import start_node, stop_node
    from tokimori.node.background import Absent, background_state, one_at_a_time

    loaded = load()
    make_folders(loaded.settings)
    found = background_state(loaded.settings.state_dir)
    before = () if isinstance(found, Absent) else found.note.arguments
    if not isinstance(found, Absent):
        stop_node(loaded, None, now=now)
    given = arguments_given()
    with one_at_a_time(loaded.settings.state_dir):
        return start_node(loaded, before if given is None else given, timeout)


@system.command()
@click.option("-w", "--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
def status(*, watch: bool) -> int:
    """Show the nodes of this state folder and their addresses; exit code 3 if none runs."""
    folder = load().settings.state_dir
    while True:
        found = list(services(folder))
        if watch and sys.stdout.isatty():
            click.clear()
        _print(found)
        if not watch:
            return DONE if any(each.status == "online" for each in found) else OFFLINE
        sys.stdout.flush()
        time.sleep(2 * _LOOK)


def services(folder: Path) -> Iterable[Service]:
    """Yield the node that was started in the background, and all others of the folder that have a door."""
    from tokimori.node.background import Living, Stale, background_state, stopped_at
    from tokimori.node.open_doors import READY, SILENT, doors, readiness

    found, states = background_state(folder), {door: readiness(door.address) for door in doors(folder)}
    ours = found.note.pid if isinstance(found, Living) else None
    if ours is not None:
        door_state = next((text for door, text in states.items() if door.pid == ours), READY)
        yield Service(name="scheduler", status="online", pid=ours, says=door_state, address=None, by="system start")
    elif isinstance(found, Stale):
        yield Service(name="scheduler", status="offline", pid=None, says=found.why, address=None, by="system start")
    for door, text in states.items():
        by = "system start" if door.pid is not None and door.pid == ours else "another way"
        if by != "system start":
            yield Service(name="scheduler", status="online", pid=door.pid, says=text, address=None, by=by)
        shown = "offline" if text.startswith(SILENT) else "online"
        yield Service(name="bus", status=shown, pid=door.pid, says=text, address=door.address, by=by)
    if ours is None and not states and not isinstance(found, Stale):
        says = _last_stop(stopped_at(folder))
        yield Service(name="scheduler", status="offline", pid=None, says=says, address=None, by=None)


def _last_stop(at: float | None) -> str:
    if at is None:
        return "never started"
    when, today = time.localtime(at), time.localtime()
    return time.strftime("stopped at %H:%M:%S" + ("" if when[:3] == today[:3] else " on %Y-%m-%d"), when)


def _print(found: Iterable[Service]) -> None:
    rows = [(each.name, each.status.upper(), each.pid, each.by, each.address, each.says) for each in found]
    print_found(list(found), ("NAME", "STATUS", "PID", "STARTED BY", "ADDRESS", "SAYS"), rows, spare=("STARTED BY",))


@system.command()
@click.option("--scheduler", is_flag=True, help="Only what concerns the node itself.")
@click.option("--bus", is_flag=True, help="Only what concerns its HTTP server: requests, if http.access_log says so.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(0, 100_000), default=_LINES, show_default=True, help="How many.")
@editor_options
def logs(*, scheduler: bool, bus: bool, follow: bool, lines: int, editor: str | None) -> None:
    """Print the last lines of the node's log, or open it in an editor. What its runs write is in `tokimori logs`."""
    from tokimori.cli.system_process import log_of
    from tokimori.errors import NotFound
    from tokimori.logs.reading import Lines, every_line, last_lines, new_lines
    from tokimori.node.background import Absent, background_state

    loaded = load()
    found = background_state(loaded.settings.state_dir)
    file = log_of(loaded) if isinstance(found, Absent) else Path(found.note.log)
    if editor is not None and file.exists():
        open_in(editor, file)
        return
    wanted = every_line if scheduler == bus else Lines(of_the_door=bus)
    try:
        for each in new_lines(file, lines, wanted) if follow else [last_lines(file, lines, wanted)]:
            _write(each)
            if follow:
                time.sleep(_LOOK)
    except OSError as fault:
        message = (
            f"the log {file} can't be read ({fault.strerror or fault}): a node that systemd started writes to the "
            "journal, which `journalctl -u tokimori` shows"
        )
        raise NotFound(message, field="log.file", value=str(file), allowed="a log file") from None
    except KeyboardInterrupt:
        print_notice("")


def _write(lines: Iterable[bytes]) -> None:
    """Write the lines as they are: nothing in them controls a terminal."""
    for line in lines:
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
