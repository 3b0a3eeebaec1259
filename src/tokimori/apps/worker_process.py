"""Start of a worker process: `python -P -m tokimori.apps.worker_process JSON`, by its node's keeper.

It loads the app, says hello on the node's socket, and runs what it is given: coroutine functions share the loop of its
main thread, all others get a thread each. It ends when the node is gone.
"""

import asyncio
import faulthandler
import gc
import os
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from inspect import iscoroutinefunction
from math import inf
from pathlib import Path
from typing import NoReturn, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tokimori.apps.attempt import RunningAttempt, not_begun
from tokimori.apps.hooks import Act
from tokimori.apps.loading import load_app, why_not_loaded
from tokimori.apps.own_process import Exits, WorkerTitle, leave_line, leave_loop, report_forks
from tokimori.apps.routes import AppFunctions
from tokimori.apps.streams import Outputs, open_standard_streams
from tokimori.apps.task import task_in_hand
from tokimori.apps.threads import Threads, WorkThread
from tokimori.executors.functions.stacks import Stacks
from tokimori.executors.functions.wire import (
    Begin,
    End,
    Frames,
    FromWorker,
    FunctionEnded,
    Leave,
    Ping,
    Pong,
    Renew,
    SendSignal,
    ToWorker,
    Unloadable,
    by_descriptor,
    frame,
)
from tokimori.executors.keeper.kernel import boottime, die_with_parent, name_myself, use_batch_scheduling
from tokimori.traces.spans import tracer_here

EXITS_WITHIN = 1.0
"""Seconds for which a process that a function ends tries to say so."""
REPORT_EVERY = 1.0
"""Seconds between two reports on one attempt's growing output."""


class WorkerStart(Struct, frozen=True, kw_only=True):
    """Settings of a worker process at its start."""

    address: str
    number: int
    app: str
    concurrency: int
    places: int = 0
    include: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    runs_dir: str


class WorkerProcess(asyncio.Protocol):
    """The process's end of the line to its node. `lost` is called when the node has gone."""

    def __init__(
        self,
        start: WorkerStart,
        app: AppFunctions,
        lost: Callable[[], None] = lambda: os._exit(1),
        outputs: Outputs | None = None,
        stacks: Stacks | None = None,
    ) -> None:
        self._lost = lost
        self._stacks = stacks
        self._start = start
        self._app = app
        app._allow_stored(start.stored)
        app._take_places(start.places or start.concurrency)
        self._runs_dir = Path(start.runs_dir)
        self._known = lru_cache(maxsize=1024)(self._act_of)  # asked once a run, it is a tenth of a no-op
        self._tracer = lru_cache(maxsize=1)(tracer_here)  # once the app is loaded, which may set up OpenTelemetry
        self._loop = asyncio.get_running_loop()
        self._frames: Frames[ToWorker] = Frames(ToWorker)
        self._threads = Threads[RunningAttempt](start.concurrency, self._run, self._loop.call_later)
        self._outputs = outputs or Outputs()
        self._attempts = self._outputs.attempts
        self._ends, self._gathers = self._outputs.ends, False
        self._coroutines = 0
        self._unsent: deque[FromWorker] = deque()
        self._flushing = False
        self._grown, self._noting = set[int](), set[int]()
        self._lease = inf
        self._leaving = False
        self._transport: asyncio.WriteTransport | None = None
        self._done = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._title = WorkerTitle(f"{start.number} of {start.app}", self._attempts, self._loop)
        self._home, self._is_fork = threading.get_ident(), False
        report_forks(self._forked)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle an event of asyncio."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(0)
        hello = self._app._hello(self._start.number, os.getpid())
        self._transport.write(frame([hello if self._stacks is None else replace(hello, stacks=self._stacks.file)]))

    def data_received(self, data: bytes) -> None:
        """Handle an event of asyncio."""
        for message in self._frames.feed(data):
            match message:
                case Begin():
                    self._begin(message)
                case End(number=number, why=why, lost=lost):
                    if (attempt := self._attempts.get(number)) is not None:
                        attempt.end_because(why, lost=lost)
                case SendSignal(number=number, name=name, data=said):
                    if (attempt := self._attempts.get(number)) is not None:
                        attempt.signal(name, said)
                case Ping():
                    self._send_soon(Pong())
                case Renew(until=until):
                    self._lease = until
                case Leave():
                    self._leaving = True
        if self._coroutines:  # one may hold the loop, and wait for a function that has no thread yet
            self._threads.begin_missing()
        else:
            self._threads.ensure_thread(len(self._attempts))
        self._title.touch()
        self._leave_if_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the line: the node is gone, and with it the right to work on its runs."""
        for attempt in list(self._attempts.values()):
            attempt.end_because("its node is gone", lost=True)
        self._threads.close()
        self._lost()

    def pause_writing(self) -> None:
        """Handle a node that does not take all that was said yet."""
        self._sent.clear()

    def resume_writing(self) -> None:
        """Handle an event of asyncio."""
        self._sent.set()

    async def served(self) -> None:
        """Wait until the node has no more runs for this process, and has received all ends, which else are lost."""
        await self._done.wait()
        await self._sent.wait()

    def _forked(self) -> None:
        """Give up the line, the loop and all attempts in a forked child: they are its parent's."""
        self._is_fork = True
        leave_line(self._transport)
        for attempt in self._attempts.values():
            attempt.forked()
        leave_loop(self._loop, self._home)

    # Attempts

    def _act_of(self, handler: str) -> tuple[Act, bool]:
        """Return the code, and whether it waits on the loop. Raises what `App._act_of` does."""
        self._threads.begin_missing()  # what came before waits no longer than it must: a module may be imported now
        return (act := self._app._act_of(handler)), iscoroutinefunction(act)

    def _begin(self, begin: Begin) -> None:
        try:
            (act, waits), tracer = self._known(begin.handler), self._tracer()
            attempt = RunningAttempt(
                begin, act, self._runs_dir, self._grew, noted=self._noted, ends=self._ends, tracer=tracer, app=self._app
            )
            if not self._attempts:
                self._outputs.put_back()
            self._attempts[begin.number] = attempt  # before it prints, forks, or ends the process
            if waits:
                self._begin_on_loop(attempt)
            else:
                self._threads.give(attempt)
        except BaseException as fault:  # a module that is imported only now may end the program
            self._attempts.pop(begin.number, None)
            self._send_soon(not_begun(begin, fault))
            return
        if not self._gathers:
            self._gathers = True
            self._loop.call_later(REPORT_EVERY, self._gather)

    def _gather(self) -> None:
        """Collect the output to descriptor 1, as long as there are runs."""
        self._outputs.gather()
        self._gathers = bool(self._attempts)
        if self._gathers:
            self._loop.call_later(REPORT_EVERY, self._gather)

    def _begin_on_loop(self, attempt: RunningAttempt) -> None:
        attempt.coroutine = self._loop.create_task(self._run_async(attempt))
        self._coroutines += 1

    def _run(self, attempt: RunningAttempt, thread: WorkThread) -> None:
        if self._stacks is not None:
            self._stacks.begins(attempt.begin.number, thread.number)
        ended = attempt.run(self._lease, thread.time)
        if ended is None:
            self._soon(self._begin_on_loop, attempt)
        else:
            self._end(attempt, ended)

    async def _run_async(self, attempt: RunningAttempt) -> None:
        for _ in range(2 * (boottime() >= self._lease)):  # it was renewed, if the loop was held: that is read first
            await asyncio.sleep(0)
        if self._stacks is not None:
            self._stacks.begins(attempt.begin.number)
        try:
            self._end(attempt, await attempt.run_async(self._lease))
        finally:
            self._coroutines -= 1

    def _end(self, attempt: RunningAttempt, ended: FunctionEnded) -> None:
        """Report the end of an attempt, behind its last notes."""
        if self._stacks is not None:
            self._stacks.ended(attempt.begin.number)
        if attempt.new_notes is not None and (noted := attempt.take_notes()) is not None:
            self._send_soon(noted)
        self._send_soon(ended)

    # To the node

    def exits(self, status: int) -> None:
        """Report the run that ends this process, in its own thread, after the reports of other runs."""
        task, transport = task_in_hand(), self._transport
        found = [each for each in self._attempts.values() if each.task is task]
        if not found or transport is None or transport.get_write_buffer_size():
            return
        self._outputs.gather()  # no other look follows
        line = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        line.settimeout(EXITS_WITHIN)
        line.sendall(frame([*self._unsent, found[0].exits(status)]))

    def _send_soon(self, message: FromWorker) -> None:
        """Send a message soon, together with others of the same moment. Called in any thread."""
        self._unsent.append(message)
        if not self._flushing:
            self._flushing = True
            self._soon(self._flush)

    def _soon(self, act: Callable[..., object], *args: object) -> None:
        """Call `act` on the loop. A thread may outlive it in a user's program: its messages then go nowhere."""
        if self._is_fork:
            return
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act, *args)

    def _flush(self) -> None:
        self._flushing = False
        self._outputs.gather_late()
        messages = []
        while self._unsent:
            message = self._unsent.popleft()
            if isinstance(message, FunctionEnded):
                self._attempts.pop(message.number, None)
            messages.append(message)
        if messages and self._transport is not None:
            self._transport.write(frame(messages))
        self._leave_if_idle()

    def _grew(self, attempt: RunningAttempt) -> None:
        """Report new output within a second. Called in any thread."""
        number = attempt.begin.number
        if number not in self._grown:
            self._grown.add(number)
            self._soon(self._loop.call_later, REPORT_EVERY, self._report_growth, number)

    def _report_growth(self, number: int) -> None:
        self._grown.discard(number)
        attempt = self._attempts.get(number)
        if attempt is not None:
            self._send_soon(attempt.growth())

    def _noted(self, attempt: RunningAttempt) -> None:
        """Report new notes at once, but not twice within a second. Called in any thread."""
        number = attempt.begin.number
        if number not in self._noting:
            self._noting.add(number)
            self._soon(self._report_notes, number)

    def _report_notes(self, number: int) -> None:
        self._noting.discard(number)
        attempt = self._attempts.get(number)
        noted = None if attempt is None else attempt.take_notes()
        if noted is not None:
            self._noting.add(number)
            self._send_soon(noted)
            self._loop.call_later(REPORT_EVERY, self._report_notes, number)

    def _leave_if_idle(self) -> None:
        if self._leaving and not self._attempts and not self._unsent:
            self._done.set()


async def work(start: WorkerStart, app: AppFunctions, exits: Exits, outputs: Outputs) -> None:
    """Serve the node until it has no more for this process, between the hooks of the app."""
    try:
        await app.hooks.start()
    except BaseException as fault:
        _report_fault(start, fault)
        raise SystemExit(1) from None
    _, protocol = await asyncio.get_running_loop().create_unix_connection(
        lambda: WorkerProcess(start, app, outputs=outputs, stacks=Stacks()), sock=_connected(start)
    )
    exits.report = protocol.exits
    await protocol.served()
    exits.report = None
    await app.hooks.stop()


def _connected(start: WorkerStart) -> socket.socket:
    """Return the line to the node. Raises `OSError`."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with by_descriptor(Path(start.address)) as path:
        connected.connect(path)
    return connected


def _report_fault(start: WorkerStart, fault: BaseException) -> None:
    """Report the reason that the app can't be loaded, and wait until the node has received it. Raises `OSError`."""
    message, allowed = why_not_loaded(start.app, fault)
    with _connected(start) as node:
        node.sendall(frame([Unloadable(number=start.number, message=message, allowed=allowed)]))
        node.recv(1)


def main() -> NoReturn:
    """Load the app, and serve.

    The process ends here in any case: threads, tasks and forks left behind by user code are not waited for.
    """
    code = 1
    try:
        code = _load_and_serve(msgspec.json.decode(sys.argv[1], type=WorkerStart))
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _load_and_serve(start: WorkerStart) -> int:
    """Return the exit code."""
    name_myself(b"tokimori-worker")
    die_with_parent()  # the keeper: the run may be begun elsewhere when that is dead
    use_batch_scheduling()  # the node, above all, which all wait for
    pid = os.getpid()
    os._exit = exits = Exits()  # before anything of the app is imported: it may keep the function
    open_standard_streams()
    faulthandler.enable(2, all_threads=False)  # where code in C fails, the node's log says which line called it
    outputs = Outputs()
    outputs.take_over()  # before, too: it may keep the streams
    try:
        app = load_app(start.app, start.include, start.require)
    except BaseException as fault:
        _report_fault(start, fault)
        return 1
    finally:
        outputs.gather()
    if os.getpid() != pid:
        return 0  # the app forked while it was imported: two that say the same hello would be cut off in turn
    open_standard_streams()
    outputs.hold()
    gc.freeze()  # what is loaded by now stays: the collector need not look through it again and again
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(work(start, app, exits, outputs))
    outputs.gather()
    return 0


if __name__ == "__main__":
    main()
