"""Signals of the operating system and their meaning for a node: only KILL kills it."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals that stop a node: at the first it drains, at the second it releases its runs."""
NOTED = {
    signal.SIGHUP: "HUP changes nothing: settings are read at the start; stop the node with TERM and start it again",
    signal.SIGUSR1: "USR1 changes nothing",
    signal.SIGUSR2: "USR2: the log goes on in the file that is there now",
}
"""Other signals, and the line that is logged. A log file that was moved is made anew with its next line."""


RELOADS = (signal.SIGHUP, signal.SIGUSR1)
"""Signals that make a node with an app run new code."""


def note_signals() -> None:
    """Log these signals from now on, until the loop ends."""
    loop = asyncio.get_running_loop()
    for number, text in NOTED.items():
        loop.add_signal_handler(number, log.warning, text)


def reload_by_signals(reload: Callable[[], None]) -> None:
    """Call `reload` at each of its signals from now on, until the loop ends."""
    loop = asyncio.get_running_loop()
    for number in RELOADS:
        loop.add_signal_handler(number, _reload, number.name.removeprefix("SIG"), reload)


def _reload(name: str, reload: Callable[[], None]) -> None:
    log.warning("%s: new worker processes with the new code take over; the old ones finish their runs", name)
    reload()


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at each signal that stops a node, while this lasts."""
    loop = asyncio.get_running_loop()
    for number in STOPS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in STOPS:
            loop.remove_signal_handler(number)
