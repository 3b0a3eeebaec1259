"""`tokimori lock NAME … -- COMMAND…`: a command that runs while units of a semaphore are held for it."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from tokimori.cli.command import CommandWithArguments, arguments_given
from tokimori.cli.moment import Length
from tokimori.cli.output import print_notice
from tokimori.cli.session import load
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tokimori.config.settings import Loaded
    from tokimori.executors.keeper.wire import ProcessEnded
    from tokimori.executors.keeper_process import ForegroundCommand
    from tokimori.locks.holdings import Held, Wanted
    from tokimori.locks.session import Session

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
BY_SIGNAL = 128
"""The exit code of a program that a signal ended is this plus the signal's number, as in a shell."""
NOT_EXECUTED = 126


class _LockCommand(CommandWithArguments):
    """Command without a name of its own: the word after `lock` is a semaphore."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the line. Errors point at the help of `tokimori lock`, which describes such a line."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as fault:
            fault.ctx = ctx.parent
            raise


@click.command(cls=_LockCommand)
@click.argument("name")
@click.option(
    "--limit", type=int, metavar="N", help="Fail if its limit is another one; a new one is made with it, or with 1."
)
@click.option("--weight", type=int, default=1, show_default=True, metavar="W", help="How many units to hold.")
@click.option("--wait", type=Length(), metavar="LENGTH", help="How long to wait; by default as long as it takes.")
def run(*, name: str, limit: int | None, weight: int, wait: float | None) -> int:
    """Run a command while holding units of a semaphore."""
    from tokimori.cli.remote import check_local
    from tokimori.locks.holdings import Wanted

    check_local("lock")
    argv = arguments_given()
    if not argv:
        raise InvalidInput("command: there is nothing to run", field="command", allowed="a program after --")
    return asyncio.run(_run(load(), Wanted(name=name, weight=weight, limit=limit, wait=wait), list(argv)))


async def _run(loaded: "Loaded", wanted: "Wanted", argv: list[str]) -> int:
    from tokimori.client.opening import make_state_dir
    from tokimori.executors.keeper_process import ForegroundCommand

    make_state_dir(loaded.settings.state_dir)
    command = ForegroundCommand(loaded.settings.state_dir)
    with _signals() as signals:
        try:
            async with _session(loaded, command) as session:
                held = await session.acquire(replace(wanted, on_lost=command.end), command)
                signals.tell = command.send_signal
                code = await _attended(command, held, argv)
                await session.release(command, wanted.name)
                return code
        except asyncio.CancelledError:
            if signals.first is None:
                raise
            return BY_SIGNAL + signals.first


@asynccontextmanager
async def _session(loaded: "Loaded", command: "ForegroundCommand") -> "AsyncIterator[Session]":
    """Return this process as a program on the store of the settings; the command is bound to its lease."""
    from tokimori.client.opening import Stores, session_on, stores_of, this_program
    from tokimori.clock import SystemClock
    from tokimori.service.schema import StoreOnDemand

    clock = SystemClock()
    job, semaphore = stores_of(loaded, clock)
    store = semaphore or StoreOnDemand(job)
    await store.opened()
    try:
        stores = Stores(job, store)
        session = session_on(stores, clock, os.urandom, this_program(os.environ), command.renew)
        try:
            yield session
        finally:
            await session.close()
    finally:
        await store.close()


async def _attended(command: "ForegroundCommand", held: "Held", argv: list[str]) -> int:
    """Run the command to its end; return its exit code."""
    marks = {"TOKIMORI_LOCK": held.name, "TOKIMORI_LOCK_TOKEN": str(held.token)}
    try:
        await command.start(argv, {**os.environ, **marks}, str(Path.cwd()))
        return _code(await command.ended())
    finally:
        await command.close()


def _code(ended: "ProcessEnded") -> int:
    if ended.error:
        print_notice(f"error: {ended.error}")
    if ended.status is None:
        return NOT_EXECUTED
    return ended.status if ended.status >= 0 else BY_SIGNAL - ended.status


class _Signals:
    """Signals to this process: their receiver, and the first one."""

    def __init__(self, tell: Callable[[int], object]) -> None:
        self.first: int | None = None
        self.tell = tell

    def come(self, number: int) -> None:
        """Handle a signal on the loop."""
        self.first = self.first or number
        self.tell(number)


@contextmanager
def _signals() -> Iterator[_Signals]:
    """Handle signals; before there is a command to pass them to, the first one ends the waiting.

    A signal that was ignored when this process began stays ignored: under nohup the command goes on, too.
    """
    waiting, loop = asyncio.current_task(), asyncio.get_running_loop()
    signals = _Signals(lambda _: waiting is not None and waiting.cancel())
    heeded = [number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, signals.come, number)
    try:
        yield signals
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
