"""`tokimori top`"""

import asyncio
import os
import shutil
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.session import in_service
from tokimori.cli.table import terminal
from tokimori.cli.top_screen import QUIT, Order, ScreenContent, State, Verb, keys_in, pressed, screen
from tokimori.errors import Refused, TokimoriError

if TYPE_CHECKING:
    from tokimori.service.service import Service

INTERVAL = 2.0
"""Seconds between two looks; a key is answered at once."""
_MOST_SHOWN = 50
_OTHER_SCREEN, _FIRST_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command(cls=Command)
def top() -> None:
    """Watch the nodes, what runs and how far it is, what comes next and what failed; keys order what is chosen.

    On the chosen run: c cancels it, p pauses its job, f shows the end of what it writes. Each order is asked about.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or options().output not in ("table", "wide"):
        message = "top: it is drawn on a terminal, and this is none"
        raise Refused(message, field="top", allowed="a terminal; `tokimori run list --json` for programs")
    in_service(_watch)


async def _watch(service: "Service") -> None:
    """Look, draw and obey until somebody quits."""
    loop, typed = asyncio.get_running_loop(), asyncio.Queue[str]()
    descriptor, state = sys.stdin.fileno(), State()
    seen = await _look(service, state)
    with _raw(descriptor):
        loop.add_reader(descriptor, lambda: typed.put_nowait(os.read(descriptor, 64).decode(errors="replace")))
        try:
            while True:
                _draw(seen, state)
                keys = await _keys(typed)
                if QUIT & set(keys):
                    return
                for key in keys:
                    state, order = pressed(state, key, seen.subjects)
                    if order is not None:
                        state = replace(state, told=await _carried_out(service, order))
                _draw(seen, state)  # a look is many questions, which take long at a node elsewhere
                try:
                    seen = await _look(service, state)
                except TokimoriError as fault:  # what was seen last stays, and soon it is tried again
                    state = replace(state, told=f"error: {fault.message}")
        finally:
            loop.remove_reader(descriptor)


async def _keys(typed: "asyncio.Queue[str]") -> list[str]:
    """Return the keys that come before the next look."""
    try:
        return keys_in(await asyncio.wait_for(typed.get(), INTERVAL))
    except TimeoutError:
        return []


async def _look(service: "Service", state: State) -> ScreenContent:
    from tokimori.model.run import LONGEST_ERROR
    from tokimori.model.transitions import RunState
    from tokimori.ports.nodes import NodeState
    from tokimori.service.outputs import whole

    failed = await service.runs.list(state=RunState.FAILED, limit=20, longest=LONGEST_ERROR)
    running = (await service.runs.list(state=RunState.RUNNING, limit=_MOST_SHOWN, longest=0)).runs
    told = [(await service.runs.get(run.id)).run for run in running[:20]]  # how far they are is noted beside them
    output = None if state.followed is None else await service.runs.output(state.followed)
    return ScreenContent(
        now=await service.db.now(),
        zone=service.time_zone,
        nodes=[node for node in await service.nodes.list() if node.state is NodeState.ALIVE and node.runs_jobs],
        running=[*told, *running[20:]],
        upcoming=await service.schedules.upcoming(5),
        failed=failed.runs,
        output=None if output is None else whole(output),
    )


async def _carried_out(service: "Service", order: Order) -> str:
    """Carry the order out; what is told of it."""
    try:
        match order.verb:
            case Verb.CANCEL:
                await service.runs.cancel(order.subject.run)
            case Verb.PAUSE:
                await service.jobs.pause(order.subject.job)
    except TokimoriError as fault:
        return f"error: {fault.message}"
    return f"done: {order}"


def _draw(seen: ScreenContent, state: State) -> None:
    lines = screen(terminal(), seen, state, shutil.get_terminal_size().lines).splitlines()
    sys.stdout.write(_HOME + f"{_REST_OF_LINE}\r\n".join(lines) + _REST_OF_LINE + _REST)
    sys.stdout.flush()


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Keys come at once and are not shown, on a screen of their own; both are given back, however it ends."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    sys.stdout.write(_OTHER_SCREEN)
    try:
        yield
    finally:
        sys.stdout.write(_FIRST_SCREEN)
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
