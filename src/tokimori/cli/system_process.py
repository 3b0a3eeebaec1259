"""Starting and stopping of a node in the background, with the waits for both."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from tokimori.cli.command import options
from tokimori.cli.errors import DONE
from tokimori.cli.output import announce, print_answer, print_notice
from tokimori.errors import Conflict, Refused, TokimoriError
from tokimori.ownership import PRIVATE
from tokimori.spelling import amount

if TYPE_CHECKING:
    from tokimori.config.settings import Loaded
    from tokimori.node.background import Grip, Note
    from tokimori.node.systemd import Listener
    from tokimori.service.service import Service


NOT_READY = 1
"""The exit code where the node runs, and is not ready yet, or has ended at once."""
_LOOK = 0.1
"""Seconds between two looks at a node that starts."""


class StartedNode(Struct, frozen=True, kw_only=True):
    """A node in the background. `address`: where its door is; None: it has none. `ready`, or why it is not."""

    pid: int
    ready: str
    address: str | None
    log: str


class _Child(NamedTuple):
    process: "subprocess.Popen[bytes]"
    note: "Note"
    output: Path


def log_of(loaded: "Loaded") -> Path:
    """Return the log of a node in the background."""
    return loaded.settings.log.file or loaded.settings.state_dir / "logs" / "node.log"


def start_node(loaded: "Loaded", arguments: Sequence[str], timeout: float) -> int:
    """Start the node, unless it runs; return the exit code. Only one caller at a time."""
    from tokimori.node.background import Living, Stale, background_state, remove_note
    from tokimori.node.systemd import Listener

    folder = loaded.settings.state_dir
    match background_state(folder):
        case Living(note=note):
            _print(_started(folder, note), "it runs already")
            return DONE
        case Stale(note=note, why=why):
            print_notice(f"the note of an earlier node is removed: {why}")
            remove_note(folder, note)
        case _:
            pass
    listener = Listener()
    try:
        child = _spawn(loaded, arguments, listener.address)
        return _await_ready(folder, child, listener, time.monotonic() + timeout)
    finally:
        listener.close()


def _spawn(loaded: "Loaded", arguments: Sequence[str], listener: str) -> _Child:
    """Start the node as a process in its own session. Its output goes to `start.log` until its log is open."""
    from tokimori.executors.keeper.kernel import boot_identity
    from tokimori.node.background import Note, look, write_note

    log = log_of(loaded)
    log_file = loaded.settings.state_dir / "start.log"
    try:
        opened = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_APPEND, PRIVATE)
    except OSError as fault:
        raise _not_written("start.log", log_file.parent, fault) from None
    from tokimori.config.secret_files import overridden

    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "tokimori", "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=opened,
            stderr=opened,
            start_new_session=True,
            env={**overridden(os.environ, _settings_for(loaded)), "NOTIFY_SOCKET": listener},
        )
    finally:
        os.close(opened)
    seen = look(process.pid)
    note = Note(
        pid=process.pid,
        began=0 if seen is None else seen.began,
        boot=boot_identity(),
        log=str(log),
        arguments=tuple(arguments),
    )
    try:
        write_note(loaded.settings.state_dir, note)
    except OSError as fault:  # nobody would find this node: the next start would begin another one beside it
        process.terminate()
        process.wait()
        raise _not_written("its note", loaded.settings.state_dir, fault) from None
    return _Child(process, note, log_file)


def _not_written(what: str, folder: Path, fault: OSError) -> Refused:
    message = f"no node was started: {what} can't be written in {folder} ({fault.strerror})"
    return Refused(message, field="state_dir", value=str(folder), allowed="a folder with room, of this user")


def _settings_for(loaded: "Loaded") -> Mapping[str, str]:
    """Return the settings for the node: those of this command, and a bounded log file."""
    from tokimori.config.settings import DEFAULT

    given = options()
    variables = {
        "TOKIMORI_STORE": given.store,
        "TOKIMORI_DATASOURCE_SEMAPHORE_URL": given.semaphore_store,
        "TOKIMORI_LOG_FILE": str(log_of(loaded)),
        "TOKIMORI_LOG_STDERR": "false" if loaded.origins["log.stderr"] == DEFAULT else None,
        "TOKIMORI_LOG_ROTATE": "true" if loaded.origins["log.rotate"] == DEFAULT else None,
    }
    return {name: value for name, value in variables.items() if value is not None}


def _await_ready(folder: Path, child: _Child, listener: "Listener", deadline: float) -> int:
    from tokimori.node.background import remove_note
    from tokimori.node.open_doors import READY

    has_joined = False
    while True:
        has_joined = has_joined or listener.receives_ready(_LOOK)
        if (code := child.process.poll()) is not None:
            remove_note(folder, child.note)
            print_notice(f"the node has ended at once:\n{_last(child.output)}")
            return code if code > 0 else NOT_READY
        if has_joined:
            started = _started(folder, child.note)
            if started.ready == READY:
                _print(started, "the node runs in the background")
                return DONE
            time.sleep(_LOOK)
        if time.monotonic() >= deadline:
            print_notice(
                f"the node runs as pid {child.note.pid}, and is not ready yet; it goes on trying, and its log is "
                f"{child.note.log}; `tokimori system stop` ends it\n{_last(child.output)}"
            )
            return NOT_READY


def _started(folder: Path, note: "Note") -> StartedNode:
    from tokimori.node.open_doors import READY, doors, readiness

    address = next((door.address for door in doors(folder) if door.pid == note.pid), None)
    return StartedNode(
        pid=note.pid, ready=READY if address is None else readiness(address), address=address, log=note.log
    )


def _last(output: Path) -> str:
    return "\n".join(output.read_text(errors="replace").splitlines()[-20:])


def _print(started: StartedNode, what: str) -> None:
    answers = "" if started.address is None else f", and answers at {started.address}"
    print_answer(started, f"{what} as pid {started.pid}{answers}: {started.ready}", f"its log is {started.log}")


_LEEWAY = 30.0
"""Seconds more than the grace until this command gives up waiting."""
_AT_FIRST, _BETWEEN = 0.5, 2.0
"""Seconds until it is said for what the node waits, and between two looks."""
_MEANTIME = 0.3
"""Seconds between two signals: the node is to take them one after the other."""
_NAMED = 3


def stop_node(loaded: "Loaded", timeout: float | None, *, now: bool) -> int:
    """Let the node drain, or with `now` release its runs; return the exit code. Raises `Conflict` after too long."""
    from tokimori.node.background import Absent, Stale, background_state, grip, note_stopped, remove_note

    folder, settings = loaded.settings.state_dir, loaded.settings
    found = background_state(folder)
    if isinstance(found, Absent):
        announce("no node was started in the background here")
        return DONE
    if isinstance(found, Stale) or (held := grip(found.note)) is None:
        why = f": {found.why}" if isinstance(found, Stale) else ""
        announce(f"no node runs in the background here{why}; its note is removed")
        remove_note(folder, found.note)
        return DONE
    try:
        held.send(signal.SIGTERM)
        if now:
            time.sleep(_MEANTIME)
            _hand_back(held)
        else:
            announce(
                f"the node (pid {held.note.pid}) was told to stop: its runs get {settings.node.stop_grace:g} s to "
                "finish; Ctrl-C, or `tokimori system stop --now`, releases them; any node may start them"
            )
        _await_end(held, settings.node.stop_grace + settings.http.drain + _LEEWAY if timeout is None else timeout)
    finally:
        held.close()
    remove_note(folder, found.note)
    note_stopped(folder)
    announce("the node has stopped")
    return DONE


def _hand_back(held: "Grip") -> None:
    """Interrupt the node. INT means the same as a second TERM, which may be lost behind the first one."""
    announce(f"the node (pid {held.note.pid}) releases its runs now; any node may start them")
    held.send(signal.SIGINT)


def _await_end(held: "Grip", patience: float) -> None:
    """Wait for the node's end, and show its runs. Ctrl-C lets it release them; a second one stops waiting."""
    deadline = time.monotonic() + patience
    try:
        _watch(held, deadline)
    except KeyboardInterrupt:
        _hand_back(held)
        _watch(held, deadline)


def _watch(held: "Grip", deadline: float) -> None:
    printed = ""
    wait = _AT_FIRST
    while not held.ended(wait):
        wait = _BETWEEN
        in_hand = what_it_has(held.note)
        if in_hand and in_hand != printed:
            printed = in_hand
            announce(f"it waits for {in_hand}")
        if time.monotonic() >= deadline:
            raise Conflict(
                f"the node (pid {held.note.pid}) has not ended yet{f', and waits for {printed}' if printed else ''}: "
                f"`tokimori system stop --now` releases its runs; its log is {held.note.log}",
                field="timeout",
                value=held.note.pid,
            )


def what_it_has(note: "Note") -> str:
    """Return the node's runs in words; empty if there are none, or the store does not answer."""
    from tokimori.cli.session import in_own_service

    try:
        return in_own_service(lambda service: _in_hand(service, note))
    except TokimoriError as fault:
        print_notice(f"which runs it has can't be said: {fault}")
        return ""


async def _in_hand(service: "Service", note: "Note") -> str:
    import socket

    from tokimori.model.transitions import RunState

    host = socket.gethostname()
    ours = {
        node.id for node in await service.nodes.list() if node.runs_jobs and (node.host, node.pid) == (host, note.pid)
    }
    running = await service.runs.list(state=RunState.RUNNING, limit=1000, longest=0)
    names = [f"run {run.id} of {run.job_id}" for run in running if run.node_id in ours]
    if not names:
        return ""
    others = len(names) - _NAMED
    more = f" and {others} more" if others > 0 else ""
    return f"{amount(len(names), 'run')}: {', '.join(names[:_NAMED])}{more}"
