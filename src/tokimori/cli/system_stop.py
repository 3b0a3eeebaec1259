"""Stopping the node in the background: it is told, and waited for."""

import signal
import time
from typing import TYPE_CHECKING

from tokimori.cli.ending import DONE
from tokimori.cli.output import announce, print_notice
from tokimori.errors import Conflict, TokimoriError

if TYPE_CHECKING:
    from tokimori.config.settings import Loaded
    from tokimori.node.background import Grip, Note
    from tokimori.service.service import Service

_LEEWAY = 30.0
"""Seconds more than the grace until this command gives up waiting."""
_AT_FIRST, _BETWEEN = 0.5, 2.0
"""Seconds until it is said for what the node waits, and between two looks."""
_MEANTIME = 0.3
"""Seconds between two signals: the node is to take them one after the other."""
_NAMED = 3


def stop_node(loaded: "Loaded", timeout: float | None, *, now: bool) -> int:
    """Let the node drain, or with `now` release its runs; return the exit code. Raises `Conflict` after too long."""
    from tokimori.node.background import Absent, Stale, grip, note_stopped, remove_note, standing

    folder, settings = loaded.settings.state_dir, loaded.settings
    found = standing(folder)
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
    return f"{len(names)} run{'s' if len(names) > 1 else ''}: {', '.join(names[:_NAMED])}{more}"
