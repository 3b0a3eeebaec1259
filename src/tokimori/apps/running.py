"""An app at work within a program of its own: a web server, say. The program runs the functions, its node is a child.

The node is a process by itself, so that code which holds the interpreter costs no lease.
"""

import asyncio
import logging
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from tokimori.apps.app import App
from tokimori.apps.worker_process import Told, WorkerProcess
from tokimori.client.opening import load_store
from tokimori.errors import Refused
from tokimori.executors.functions.wire import by_descriptor

log = logging.getLogger(__name__)

STOP_GRACE = 40.0
"""Seconds for the node to end: its own grace for runs is 30."""
_PAUSE = 1.0
_SOON = 0.02


class Running:
    """An app at work, from entering to leaving: `with app.running():`, or `async with`.

    Several processes may do so at the same time: each occurrence still becomes one run. A run that is cancelled or out
    of time is told and interrupted; a thread that does not heed that goes on, as nobody may kill this program.
    """

    def __init__(self, app: App, concurrency: int) -> None:
        self._app = app
        self._concurrency = concurrency
        self._ready: Future[None] = Future()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._work, name="tokimori", daemon=True)
        self._node: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin; returns when the node takes part. Raises `Refused` where it does not start."""
        self._thread.start()
        self._ready.result()

    def stop(self) -> None:
        """Let runs finish for the grace of the node, and end it."""
        self._leaving.set()
        self._tell_node()
        self._thread.join()

    def _tell_node(self) -> None:
        node = self._node
        if node is not None and node.poll() is None:
            node.terminate()

    def _work(self) -> None:
        """Keep a node until it is time to leave; one that dies is replaced."""
        while True:
            try:
                asyncio.run(self._one_node())
            except BaseException as fault:
                if not self._ready.done():
                    self._ready.set_exception(fault)
                    return
                log.exception("the node of the app %s fell", self._app.name)
            if self._leaving.wait(_PAUSE):
                return
            log.warning("the node of the app %s has gone; another one takes its place", self._app.name)

    async def _one_node(self) -> None:
        loaded, _ = load_store(self._app.url, None, None)
        told = Told(
            address=str(loaded.settings.state_dir.absolute() / "sockets" / (secret := secrets.token_hex(16))),
            number=1,
            app=self._app.name,
            concurrency=self._concurrency,
            stored=loaded.settings.app.stored,
            runs_dir=str(loaded.settings.state_dir.absolute() / "runs"),
        )
        said = {"TOKIMORI_STORE": loaded.settings.job_store, "TOKIMORI_APP_ATTACHED": secret}
        said |= {"TOKIMORI_APP_ONLY": "true", "TOKIMORI_APP_CONCURRENCY": str(self._concurrency)}
        said |= {"TOKIMORI_NODE_CONCURRENCY": str(self._concurrency)}
        self._node = node = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-P", "-m", "tokimori", "serve", "--no-http"],
            env={**os.environ, **said},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if self._leaving.is_set():
            self._tell_node()
        try:
            await self._serve(told, node)
        finally:
            await asyncio.to_thread(_bury, node)

    async def _serve(self, told: Told, node: "subprocess.Popen[str]") -> None:
        gone = asyncio.Event()
        loop = asyncio.get_running_loop()
        while True:
            try:
                with by_descriptor(Path(told.address)) as path:
                    await loop.create_unix_connection(lambda: WorkerProcess(told, self._app, gone.set), path=path)
                break
            except OSError:
                if node.poll() is not None:
                    message = f"the node of the app {self._app.name!r} does not start; standard error says why"
                    raise Refused(message) from None
                await asyncio.sleep(_SOON)
        first = await asyncio.to_thread(cast("Callable[[], str]", node.stdout.readline if node.stdout else str))
        if not first:
            raise Refused(f"the node of the app {self._app.name!r} does not start; standard error says why")
        if not self._ready.done():
            self._ready.set_result(None)
        await gone.wait()

    # As a context

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)


def _bury(node: "subprocess.Popen[str]") -> None:
    """Wait for its end, and kill it where it does not come."""
    try:
        node.communicate(timeout=STOP_GRACE)
    except subprocess.TimeoutExpired:
        node.kill()
        node.communicate()
