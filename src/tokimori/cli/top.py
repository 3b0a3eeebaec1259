"""`tokimori top`"""

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.session import in_service
from tokimori.cli.table import terminal
from tokimori.cli.top_keys import Order, State, Verb, keys_in, pressed
from tokimori.cli.top_screen import Content, screen
from tokimori.errors import Refused, TokimoriError
from tokimori.model.transitions import ENDS

if TYPE_CHECKING:
    from tokimori.service.service import Service

_OTHER_SCREEN, _FIRST_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command(cls=Command)
def top() -> None:
    """Watch what runs, jobs, failures by cause and the plan of a day, with the log of a run; keys order what is chosen.

    1 to 4 are the views, / filters, s sorts, f opens the log, c cancels a run, p pauses its job, ? lists all keys. Each
    order is asked about.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or options().output not in ("table", "wide"):
        message = "top: it is drawn on a terminal, and this is none"
        raise Refused(message, field="top", allowed="a terminal; `tokimori run list --json` for programs")
    in_service(_watch)


async def _watch(service: "Service") -> None:
    """Look, draw and obey until somebody quits."""
    from tokimori.cli.top_views import look

    state = State()
    watch = Watch(service, state, await look(service, state))
    with _raw(sys.stdin.fileno()), watch.keys(sys.stdin.fileno()):
        await watch.run()


class Watch:
    """The screen beside the service. Keys are answered while a look, which is many questions, is under way."""

    def __init__(self, service: "Service", state: State, seen: Content) -> None:
        self._service, self._state, self._seen = service, state, seen
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        self._looking: asyncio.Task[Content] | None = None

    @contextmanager
    def keys(self, descriptor: int) -> Iterator[None]:
        """Receive keys, and new sizes of the terminal."""
        loop, decoder = asyncio.get_running_loop(), getincrementaldecoder("utf-8")("replace")

        def read() -> None:
            data = os.read(descriptor, 64)
            self._typed.put_nowait(decoder.decode(data) if data else "\x04")  # the terminal has gone

        loop.add_reader(descriptor, read)
        loop.add_signal_handler(signal.SIGWINCH, self._typed.put_nowait, "")
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            loop.remove_reader(descriptor)

    async def run(self) -> None:
        """Draw and obey until somebody quits."""
        from tokimori.cli.top_views import INTERVALS

        due = asyncio.get_running_loop().time() + INTERVALS[self._state.view]
        try:
            while not self._state.over:
                self._draw()
                was = self._state
                for key in keys_in(await self._next_key(due)):
                    await self._press(key)
                is_other = any(
                    getattr(was, name) != getattr(self._state, name) for name in ("view", "filter", "followed")
                )
                if self._looking is not None and self._looking.done():
                    self._take(self._looking)
                    due = asyncio.get_running_loop().time() + INTERVALS[self._state.view]
                if self._looking is None and (is_other or asyncio.get_running_loop().time() >= due):
                    self._begin_look()
                elif is_other:
                    due = 0.0
        finally:
            if self._looking is not None:
                self._looking.cancel()
                with suppress(asyncio.CancelledError, TokimoriError):
                    await self._looking

    async def _next_key(self, due: float) -> str:
        """Return what is typed; nothing once a look has ended, or is due."""
        typing = asyncio.ensure_future(self._typed.get())
        waits = {typing} if self._looking is None else {typing, self._looking}
        left = max(0.0, due - asyncio.get_running_loop().time()) if self._looking is None else None
        await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if typing.done():
            return typing.result()
        typing.cancel()
        return ""

    def _begin_look(self) -> None:
        from tokimori.cli.top_views import look

        self._looking = asyncio.ensure_future(look(self._service, self._state))

    def _take(self, looked: "asyncio.Task[Content]") -> None:
        self._looking = None
        try:
            self._seen = looked.result()
        except TokimoriError as fault:  # what was seen last stays, and soon it is tried again
            self._state = replace(self._state, message=f"error: {fault.message}")

    async def _press(self, key: str) -> None:
        seen = self._seen
        subjects = seen.subjects(self._state)
        self._state, order = pressed(
            self._state, key, subjects, columns=seen.columns, log=seen.log if seen.is_of(self._state) else ()
        )
        if order is not None:
            self._state = replace(self._state, message=await _carried_out(self._service, order))
            if self._looking is None:
                self._begin_look()

    def _draw(self) -> None:
        size = shutil.get_terminal_size()
        lines = screen(terminal(), self._seen, self._state, size.lines).splitlines()
        sys.stdout.write(_HOME + f"{_REST_OF_LINE}\r\n".join(lines) + _REST_OF_LINE + _REST)
        sys.stdout.flush()


async def _carried_out(service: "Service", order: Order) -> str:
    """Carry the order out, and return the message about it."""
    run, job = order.subject.run or "", order.subject.job or ""
    done = f"done: {order}"
    try:
        match order.verb:
            case Verb.CANCEL:
                ended = await service.runs.cancel(run)
                if ended.state in ENDS and ended.state != "cancelled":
                    done = f"run {run} has already ended: {ended.state}"
            case Verb.RETRY:
                done = f"run {(await service.runs.retry(run)).run.id} is a retry of {run}"
            case Verb.PAUSE:
                await service.jobs.pause(job)
            case Verb.TRIGGER:
                done = f"run {(await service.jobs.trigger(job)).id} of {job} was requested"
    except TokimoriError as fault:
        return f"error: {fault.message}"
    return done


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Switch to a screen of its own, where keys come at once and are not shown, and back at the end."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    sys.stdout.write(_OTHER_SCREEN)
    try:
        yield
    finally:
        sys.stdout.write(_FIRST_SCREEN)
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
