"""A worker whose settings a function of the program gives, at its start and whenever it is asked to take new ones.

The node is a child of the program. For new settings another one is started; the one before is stopped when that works.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tokimori.apps.app import App
from tokimori.apps.program import is_imported, place_of
from tokimori.config.file import PREFIX
from tokimori.config.secret_files import overridden
from tokimori.config.settings import load_settings
from tokimori.config.value import as_text, check_linux
from tokimori.errors import InvalidConfig, TokimoriError

log = logging.getLogger(__name__)

Config = Callable[[], Mapping[str, object]]
"""Gives settings by their names, such as `{"app.processes": 4}`; each that is missing is found as ever."""
_OF = {each.name: each for each in signal.Signals}
STOPS, RELOADS, REOPENS = (
    tuple(_OF[name] for name in names if name in _OF)  # Windows has few of them
    for names in (("SIGTERM", "SIGINT", "SIGQUIT"), ("SIGHUP", "SIGUSR1"), ("SIGUSR2",))
)


class _Said(NamedTuple):
    """A node has said its first line (`works`), or has gone."""

    node: "subprocess.Popen[str]"
    works: bool


class Worker:
    """A node for an app alone: `Worker(app, config=settings).run()` as the last line of the program that declares it.

    `config` is called when the worker starts, and again for each HUP or USR1: then a node with these settings and the
    code of now takes over, and the one before ends what it has in hand. TERM, INT or QUIT stops the worker, a second
    one at once; USR2 opens the log file anew. `tokimori config show` names the settings.
    """

    def __init__(self, app: App | str, *, config: Config = dict) -> None:
        self._app = app
        self._config = config
        self._events: SimpleQueue[signal.Signals | _Said] = SimpleQueue()
        self._node: subprocess.Popen[str] | None = None
        self._coming: subprocess.Popen[str] | None = None
        self._leaving: list[subprocess.Popen[str]] = []
        self._stops = False
        self._fault: BaseException | None = None

    def run(self) -> int:
        """Work until a signal stops it; return the exit code of the last node. In an imported file return 0 at once.

        Raises `InvalidConfig` for invalid settings, and `Refused` for an app that worker processes can't find. An error
        of `config` while a killed node is replaced is raised after all nodes have ended.
        """
        if is_imported():
            return 0
        check_linux("a worker")
        place = self._app if isinstance(self._app, str) else place_of(self._app)
        command = [sys.executable, "-P", "-m", "tokimori", "worker", place]
        environ = self._environ()
        before = {number: signal.signal(number, self._queue_signal) for number in (*STOPS, *RELOADS, *REOPENS)}
        try:
            self._coming = self._started(command, environ)
            while True:
                code = self._take(self._events.get(), command)
                if code is None:
                    continue
                if self._fault is not None:
                    raise self._fault
                return code
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _queue_signal(self, number: int, _frame: object) -> None:
        self._events.put(signal.Signals(number))

    def _environ(self) -> dict[str, str]:
        """Return the environment of a node with the settings of now. Raises `InvalidConfig`."""
        given = {name: value for name, value in self._config().items() if value is not None}
        loaded = load_settings(given, os.environ, cwd=Path.cwd())
        if loaded.settings.app.attached is not None or {"app.load", "app.only"} & given.keys():
            raise InvalidConfig(["app: a worker has the app that it was given; allowed: other settings"])
        variables = {PREFIX + name.upper().replace(".", "_"): as_text(value) for name, value in given.items()}
        return overridden(os.environ, variables)

    def _started(self, command: list[str], environ: Mapping[str, str]) -> "subprocess.Popen[str]":
        """Start a node in a session of its own, so that a terminal's signals reach it only through this program."""
        with suppress(OSError, ValueError):  # the reader may have gone
            sys.stdout.flush()
        node = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(node,), name="tokimori-worker", daemon=True).start()
        return node

    def _listen(self, node: "subprocess.Popen[str]") -> None:
        assert node.stdout is not None  # noqa: S101  it is a pipe
        for number, line in enumerate(node.stdout):
            with suppress(OSError, ValueError):  # the reader may have gone
                sys.stdout.write(line)
                sys.stdout.flush()
            if not number:
                self._events.put(_Said(node, works=True))
        node.wait()
        self._events.put(_Said(node, works=False))

    def _take(self, event: signal.Signals | _Said, command: list[str]) -> int | None:
        """Act on a message; return the exit code if it ends the worker."""
        match event:
            case _Said(node, works=True) if node is self._coming:
                if self._node is not None:
                    self._leaving.append(self._node)
                    if not self._stops:  # a second signal would have it release its runs at once
                        self._node.terminate()
                self._node, self._coming = node, None
            case _Said(node, works=False):
                return self._buried(node, command)
            case signal.Signals() if event in RELOADS and not self._stops:
                self._renew(command)
            case signal.Signals() if event in (*STOPS, *REOPENS):
                self._stops = self._stops or event in STOPS
                for node in self._all():
                    node.send_signal(event)
        return None

    def _renew(self, command: list[str]) -> None:
        try:
            coming = self._started(command, self._environ())
        except BaseException as fault:  # config is the program's, and may end that
            why = _words(fault)
            log.exception("the worker keeps its previous settings: %s", why)
            return
        if self._coming is not None:
            self._coming.terminate()
            self._leaving.append(self._coming)
        self._coming = coming

    def _buried(self, node: "subprocess.Popen[str]", command: list[str]) -> int | None:
        if node in self._leaving:
            self._leaving.remove(node)
        elif node is self._coming:
            self._coming = None
            if self._node is not None:
                log.error("the node with the new settings did not start; the previous one goes on")
        else:
            self._node = None
            if node.returncode < 0 and not self._stops and self._coming is None:
                self._replace(node, command)
        return None if self._all() else node.returncode

    def _replace(self, node: "subprocess.Popen[str]", command: list[str]) -> None:
        """Replace the node. If another one can't start, the error is raised once those that are stopping have ended."""
        log.error("the node was killed by signal %d; another one takes its place", -node.returncode)
        try:
            self._coming = self._started(command, self._environ())
        except BaseException as fault:  # config is the program's, and may end that
            log.error("the worker ends, as no other node can start: %s", _words(fault))  # noqa: TRY400  it is raised
            self._stops, self._fault = True, fault

    def _all(self) -> "list[subprocess.Popen[str]]":
        return [*self._leaving, *(each for each in (self._coming, self._node) if each is not None)]


def _words(fault: BaseException) -> str:
    return fault.message if isinstance(fault, TokimoriError) else repr(fault)
