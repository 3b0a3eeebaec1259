"""Running of an app within another program, such as a web server, which runs the functions. Its node is a child.

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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self, TypeVar, cast
from weakref import WeakMethod

from tokimori.apps.routes import AppFunctions
from tokimori.apps.streams import kept_streams
from tokimori.apps.worker_process import WorkerProcess, WorkerStart
from tokimori.client.opening import load_store
from tokimori.config.secret_files import overridden
from tokimori.errors import Refused
from tokimori.executors.functions.stacks import Stacks
from tokimori.executors.functions.wire import by_descriptor
from tokimori.model.suspicion import ALIVE_AND_WELL, pause_after

log = logging.getLogger(__name__)

_T = TypeVar("_T")

STOPS_WITHIN = 30.0
"""Seconds beyond its grace for runs in which a node ends; then it is killed: it may be frozen."""
MOST_DEAF = 1_000
"""Threads that may go on after their runs have ended, each beside those of all others."""
_PAUSE = 1.0
_SOON = 0.02


class Running:
    """An app at work, from entering to leaving: `with app.running():`, or `async with`.

    Output of functions is stored with their runs, and goes to the program's own streams, too; that of a thread only if
    it has the function's context. Several processes may do so at the same time: each occurrence still becomes one run.
    A run that is cancelled or out of time is interrupted. A thread that ignores this goes on, since this program is
    never killed.
    """

    def __init__(self, app: AppFunctions, url: str | None, concurrency: int) -> None:
        self._app, self._url = app, url
        self._concurrency = concurrency
        self._ready: Future[None] = Future()
        self._leaving = threading.Event()
        self._streams = ExitStack()
        self._thread = threading.Thread(target=self._work, name="tokimori", daemon=True)
        self._aside = ThreadPoolExecutor(1, "tokimori-node")  # what functions do beside the loop may take all others
        self._node: subprocess.Popen[str] | None = None
        self._patience = STOPS_WITHIN
        self._pid, self._stacks = os.getpid(), Stacks()

    def start(self) -> None:
        """Begin; returns when the node takes part. Raises `Refused` if it does not start.

        A program that ends without `stop` is stopped so: what runs has the grace of the node.
        """
        with ExitStack() as streams:
            streams.enter_context(kept_streams())
            _call_at_exit(WeakMethod(self.stop))
            self._thread.start()
            self._ready.result()
            self._streams = streams.pop_all()

    def stop(self) -> None:
        """Let runs finish for the grace of the node, and end it. A child that this program has forked has none."""
        if os.getpid() != self._pid:
            return
        self._leaving.set()
        self._stop_node()
        self._thread.join(self._patience)
        if self._thread.is_alive() and self._node is not None:
            self._node.kill()
            self._thread.join(STOPS_WITHIN)
        if self._thread.is_alive():
            log.warning("coroutines of the app %s do not end, and are left behind", self._app.name)

    def _stop_node(self) -> None:
        node = self._node
        if node is not None and node.poll() is None:
            node.terminate()

    def _work(self) -> None:
        """Work until it is time to leave. Code of functions may end the loop, with everything that runs there."""
        with self._aside:
            while True:
                try:
                    return asyncio.run(self._work_between_hooks())
                except BaseException as fault:
                    if self._gives_up(fault) or self._leaving.wait(_PAUSE):
                        return None

    async def _work_between_hooks(self) -> None:
        await self._app.hooks.start()
        try:
            await self._run_nodes()
        finally:
            await self._app.hooks.stop()

    async def _run_nodes(self) -> None:
        """Replace a node that dies at once, even if functions of the old one go on.

        If nodes die soon one after the other, the next starts ever later: their version may not fit the program.
        """
        in_a_row = 0
        while True:
            began = monotonic()
            try:
                await self._one_node()
            except Exception as fault:
                if self._gives_up(fault):
                    return
            in_a_row = in_a_row + 1 if monotonic() - began < ALIVE_AND_WELL else 1
            if await self._in_thread(self._leaving.wait, max(_PAUSE, pause_after(in_a_row))):
                return
            log.warning("the node of the app %s has gone; another one takes its place", self._app.name)

    def _gives_up(self, fault: BaseException) -> bool:
        """Return whether the first node did not start, which the entering call raises."""
        if self._ready.done():
            log.error("the node of the app %s fell", self._app.name, exc_info=fault)
            return False
        self._ready.set_exception(fault)
        return True

    async def _in_thread(self, act: Callable[..., _T], *args: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._aside, act, *args)

    async def _one_node(self) -> None:
        loaded, _ = load_store(self._url, None, None)
        self._patience = loaded.settings.node.stop_grace + STOPS_WITHIN
        start_message = WorkerStart(
            address=str(loaded.settings.state_dir.absolute() / "sockets" / (secret := secrets.token_hex(16))),
            number=1,
            app=self._app.name,
            concurrency=self._concurrency + MOST_DEAF,
            places=self._concurrency,
            stored=loaded.settings.app.stored,
            runs_dir=str(loaded.settings.state_dir.absolute() / "runs"),
        )
        environ = {"TOKIMORI_STORE": loaded.settings.job_store, "TOKIMORI_APP_ATTACHED": secret}
        environ |= {"TOKIMORI_APP_ONLY": "true", "TOKIMORI_APP_CONCURRENCY": str(self._concurrency)}
        environ |= {"TOKIMORI_NODE_CONCURRENCY": str(self._concurrency)}
        self._node = node = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-P", "-m", "tokimori", "serve", "--no-http"],
            env=overridden(os.environ, environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if self._leaving.is_set():
            self._stop_node()
        try:
            await self._serve(start_message, node)
        finally:
            await self._in_thread(_bury, node)

    async def _serve(self, start: WorkerStart, node: "subprocess.Popen[str]") -> None:
        gone = asyncio.Event()
        loop = asyncio.get_running_loop()
        while True:
            try:
                with by_descriptor(Path(start.address)) as path:
                    await loop.create_unix_connection(
                        lambda: WorkerProcess(start, self._app, gone.set, stacks=self._stacks), path=path
                    )
                break
            except OSError:
                if node.poll() is not None:
                    message = f"the node of the app {self._app.name!r} does not start; standard error says why"
                    raise Refused(message) from None
                await asyncio.sleep(_SOON)
        first = await self._in_thread(cast("Callable[[], str]", node.stdout.readline if node.stdout else str))
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


def _call_at_exit(stop: "WeakMethod[Callable[[], None]]") -> None:
    """Call this when the program ends, as one does that nobody stops: before no pool takes work any more."""

    def call() -> None:
        if (found := stop()) is not None:
            found()

    register: Callable[[Callable[[], None]], None] = vars(threading)["_register_atexit"]  # `atexit` is too late
    register(call)


def _bury(node: "subprocess.Popen[str]") -> None:
    """Wait for its end, and kill it if it does not come."""
    try:
        node.communicate(timeout=STOPS_WITHIN)
    except subprocess.TimeoutExpired:
        node.kill()
        node.communicate()
