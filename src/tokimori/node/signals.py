"""The signals of the operating system, as a node takes them: none kills it but KILL."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""What asks a node to stop: first it drains, asked again it hands back what still runs."""
NOTED = {
    signal.SIGHUP: "HUP changes nothing: settings are read at the start; stop the node with TERM and start it again",
    signal.SIGUSR1: "USR1 changes nothing",
    signal.SIGUSR2: "USR2: the log goes on in the file that is there now",
}
"""What else may come, and what is logged then. A log file that was moved is made anew with its next line."""


RELOADS = (signal.SIGHUP, signal.SIGUSR1)
"""What lets a node with an app run the code of now."""


def note_signals() -> None:
    """From now on, until the loop ends, these signals are logged."""
    loop = asyncio.get_running_loop()
    for number, text in NOTED.items():
        loop.add_signal_handler(number, log.warning, text)


def reload_by_signals(reload: Callable[[], None]) -> None:
    """From now on, until the loop ends, each of the signals that mean so calls `reload`."""
    loop = asyncio.get_running_loop()
    for number in RELOADS:
        loop.add_signal_handler(number, _reload, number.name.removeprefix("SIG"), reload)


def _reload(name: str, reload: Callable[[], None]) -> None:
    log.warning("%s: new worker processes with the code of now take over; the old ones finish what they have", name)
    reload()


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within it each of the signals that stop a node calls `stop`."""
    loop = asyncio.get_running_loop()
    for number in STOPS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in STOPS:
            loop.remove_signal_handler(number)
