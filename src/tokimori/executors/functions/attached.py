"""The one worker process of a node that works for another program: `App.running` in that program."""

import asyncio
from collections.abc import Callable, Sequence

from tokimori.errors import Refused
from tokimori.executors.functions.listener import WorkerConnection, WorkerListener
from tokimori.executors.functions.pool import Drains
from tokimori.executors.functions.process import AppSettings, Assignment, Phase, WorkerProcess
from tokimori.executors.functions.pulse import Pulse
from tokimori.executors.functions.wire import FromWorker, Hello, Unloadable
from tokimori.model.lease import LEASE
from tokimori.model.suspicion import COMMON

WITHIN = 30.0
"""Seconds in which the program has to come."""


class Attached:
    """The user's program that runs the functions itself, with this node as its child. It is neither started nor killed
    here.

    `heard`, `ready` and `died` are as with `Processes`. `gone` is called when the program has gone.
    """

    def __init__(
        self,
        app: AppSettings,
        *,
        heard: Callable[[WorkerProcess, Sequence[FromWorker]], None],
        ready: Callable[[], None],
        died: Callable[[Sequence[WorkerProcess], str, bool], None],
    ) -> None:
        self._heard = heard
        self._ready = ready
        self._died = died
        self._listener = WorkerListener(
            app.state_dir / "sockets",
            app.secret,
            lambda reading: WorkerConnection(reading, self._greet, self._hear, self._lost),
        )
        self._process = WorkerProcess(1, COMMON, 1, app.concurrency)
        self._hello: asyncio.Future[Hello] | None = None
        self.gone: Callable[[], object] = _nobody
        self.pulse = Pulse(lambda: (self._process,), ready)
        self._beat: asyncio.Task[None] | None = None
        self.drains = Drains(lambda _: None, lambda: None)

    @property
    def able(self) -> bool:
        """Return whether it takes runs: when it has gone, so does its node."""
        return self._process.answers

    @property
    def unable(self) -> str:
        """Return why it takes none; empty if it does."""
        return "".join(self.pulse.words())

    async def open(self) -> Hello:
        """Wait for the program's hello. Raises `Refused`."""
        self._beat = asyncio.get_running_loop().create_task(self.pulse.beat())
        self._hello = asyncio.get_running_loop().create_future()
        await self._listener.open()
        try:
            return await asyncio.wait_for(self._hello, WITHIN)
        except TimeoutError:
            raise Refused(f"app: the program that this node works for did not come within {WITHIN:g} s") from None

    def reload(self, app: AppSettings | None = None) -> None:
        """Do nothing: its code is the program's own affair."""

    async def close(self) -> None:
        """Stop receiving messages."""
        self.gone = _nobody
        if self._beat is not None:
            self._beat.cancel()
        self._listener.close()

    def place(self, cell: int) -> WorkerProcess | None:
        """Return the program, if it has room: it is one for all cells."""
        return self._process if self._process.has_room else None

    def need(self, cell: int, pause: float, runs: int) -> None:
        """Do nothing: there is no other process."""

    def flush(self) -> None:
        """Send the messages that wait."""
        self._process.flush()

    def look_at(self, process: WorkerProcess) -> None:
        """Do nothing: the program is never replaced."""

    def bind(self, process: WorkerProcess) -> None:
        """Do nothing: the program does not end with the lease; its lost attempts are reported."""

    def drain(self, process: WorkerProcess, attempt: Assignment) -> bool:
        """Return True: the process is not ours to end."""
        return False

    def renew(self, sent: float) -> None:
        """Send the time until which its attempts may begin. Nothing else of ours outlives a lease."""
        self._process.renew(sent + LEASE)

    def _greet(self, connection: WorkerConnection, hello: Hello) -> bool:
        if self._process.phase is not Phase.STARTING or connection.transport is None or self._hello is None:
            return False
        connection.room = self._process.room
        self._process.connect(connection.transport, hello.pid, hello.stacks)
        self._hello.set_result(hello)
        self._ready()
        return True

    def _hear(self, _number: int, messages: Sequence[FromWorker]) -> None:
        match messages:
            case [Unloadable(message=message)]:
                if self._hello is not None and not self._hello.done():
                    self._hello.set_exception(Refused(message))
            case _:
                self._heard(self._process, messages)

    def _lost(self, _number: int) -> None:
        self._process.phase = Phase.GONE
        self._died([self._process], "the program that ran it has gone", True)
        self.gone()


def _nobody() -> None:
    """Ignore the call: before `tell` there is no receiver."""
