"""Start of the keeper's process: `python -I -S -X utf8 -c … FOLDER-OF-KEEPER STATE RUNS LIMIT pidfd|thread STDIN`.

Its standard input is the channel to the engine; STDIN is the number of the descriptor that a child in the foreground
reads from, `-` for none. It is started as a bare interpreter, without site-packages, so that it starts within a few
hundredths of a second, stays small, and nothing that is installed can disturb it.
"""

import os
import resource
import signal
import socket
import sys
from pathlib import Path

from .complaint import complain
from .keeper import Keeper
from .kernel import Title, adopt_orphans, name_myself
from .loop import Channel, Loop, exits_of
from .notes import Note, end_what_dead_keepers_left
from .surroundings import Surroundings

_DESCRIPTORS = 65_536


def main() -> None:
    """Serve one engine until it goes."""
    state, runs, limit, way, stdin = sys.argv[2:]
    _heed_no_signals()
    name_myself(b"tokimori-keeper")
    Title().show(f"tokimori: keeper of {os.getppid()} {state} {sys.argv[1]}")
    channel = Channel(socket.socket(fileno=0))  # every child has its own standard input
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    around = Surroundings(
        null=null,
        stdin=null if stdin == "-" else _own(int(stdin)),
        umask=os.umask(0o077),
        descriptors=_raise_descriptor_limit(),
        runs=Path(runs),
        limit=int(limit),
    )
    try:
        end_what_dead_keepers_left(Path(state))
        note = Note(Path(state))
    except OSError as fault:
        complain(f"keeper: {fault}")
        sys.exit(1)
    loop = Loop()
    exits = exits_of(loop, pidfd=way == "pidfd")
    Keeper(loop, channel, exits, note=note, around=around, family=adopt_orphans()).run()


_UNHEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def _heed_no_signals() -> None:
    """Ignore signals: the node decides what a Ctrl-C means. By handlers, as children would inherit SIG_IGN."""
    for number in _UNHEEDED:
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _own(descriptor: int) -> int:
    """Return the descriptor, which from now on no child inherits."""
    os.set_inheritable(descriptor, False)
    return descriptor


def _raise_descriptor_limit() -> tuple[int, int]:
    """Make room for thousands of children, each with up to three descriptors; returns the old limit, for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return soft, hard
