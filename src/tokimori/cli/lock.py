"""`tokimori lock NAME -- COMMAND…`, `tokimori lock list`, `lock set`, `lock delete`."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from tokimori.cli.command import CommandWithArguments, Group, arguments_given
from tokimori.cli.moment import Length
from tokimori.cli.output import print_answer, print_notice
from tokimori.cli.session import Absent, in_service, load, with_zone
from tokimori.cli.suggestions import command_hint
from tokimori.cli.table import At, Row, listing, print_list
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tokimori.config.settings import Loaded
    from tokimori.executors.keeper.wire import ProcessEnded
    from tokimori.executors.keeper_process import ForegroundCommand
    from tokimori.locks.holdings import Held, Wanted
    from tokimori.locks.session import Session
    from tokimori.service.semaphores import Holder, SemaphoreDetails


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
                signals.send = command.send_signal
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

    def __init__(self, send: Callable[[int], object]) -> None:
        self.first: int | None = None
        self.send = send

    def come(self, number: int) -> None:
        """Handle a signal on the loop."""
        self.first = self.first or number
        self.send(number)


@contextmanager
def _signals() -> Iterator[_Signals]:
    """Pass signals to the command; before it runs, the first signal ends the waiting.

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


SYNOPSIS = "NAME [--limit N] [--weight W] [--wait SECONDS] -- PROGRAM [ARGS]... | COMMAND [ARGS]..."
USAGE = """Hold units of a semaphore while a program runs; list, set and delete semaphores. A mutex has one unit.

The exit code is the program's. It is 4 if the units are not granted in time; also if they are lost because the store
was out of reach for 5 s: then the program is ended. TOKIMORI_LOCK_TOKEN in its environment grows with each holder.

\b
  --limit N       Fail if the semaphore has another limit. A new one is made with it, else with 1.
  --weight W      How many units to hold; 1 by default.
  --wait SECONDS  How long to wait; by default as long as it takes.
"""


class LockGroup(Group):
    """A group whose line with a `--` names no command of its own but a semaphore, and a program to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Choose the command that runs a program if the line has a `--`."""
        return super().parse_args(ctx, [_RUN, *args] if "--" in args else args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Return the command. Raises `UsageError` that says how a program is run, if that may have been meant."""
        if cmd_name == _RUN:
            return run
        found = super().get_command(ctx, cmd_name)
        if found is None:
            hint = f"To run a program while {cmd_name!r} is held: tokimori lock {cmd_name} -- PROGRAM"
            meant = command_hint(cmd_name, self.list_commands(ctx))
            raise click.UsageError(f"No such command {cmd_name!r}{meant} {hint}", ctx)
        return found


_RUN = "run"
_COLUMNS = ("NAME", "LIMIT", "USED", "RATE", "TAKEN", "WAITING", "HOLDER", "UNITS", "TOKEN", "SINCE")
lock = LockGroup("lock", help=USAGE, options_metavar="", subcommand_metavar=SYNOPSIS)


@lock.command("list")
@listing(_COLUMNS)
def list_semaphores() -> None:
    """List semaphores: limit, units in use, rate, units taken in its period, how many wait, and who holds what."""
    from tokimori.service.views.resources import SemaphoreDetails as SemaphoreView

    zone, found = with_zone(lambda service: service.semaphores.list())
    print_list(_COLUMNS, [(each, _rows(each, zone)) for each in found], SemaphoreView.made)


def _rows(each: "SemaphoreDetails", zone: str) -> list[Row]:
    """Return a row for each holder. The first one also shows the semaphore's own fields."""
    own = each.name, each.limit, each.used, each.rate or "", "" if each.taken is None else each.taken, each.waiting
    firsts = [own, *[("",) * len(own)] * len(each.holders)]
    return [
        (*first, *_holder_cells(holder, zone)) for first, holder in zip(firsts, each.holders or [None], strict=False)
    ]


def _holder_cells(holder: "Holder | None", zone: str) -> tuple[object, ...]:
    if holder is None:
        return "", "", "", ""
    process = f"pid {holder.pid} on {holder.host}" if holder.host is not None else f"node {holder.node_id}"
    who = process if holder.run_id is None else f"run {holder.run_id} ({process})"
    return who, holder.weight, holder.token, At(holder.since, zone)


@lock.command("set")
@click.argument("name")
@click.option("--limit", type=int, metavar="N", help="How many units it has; 1: a mutex.")
@click.option(
    "--rate", metavar="N/T", help="How many units are taken in any period, such as 100/1m or '10/s smooth'; none: any."
)
def set_limit(*, name: str, limit: int | None, rate: str | None) -> None:
    """Make a semaphore, or change its limit and its rate. Waiting runs and programs start at once if there is room."""
    from tokimori.service.views.resources import SemaphoreDetails as SemaphoreView

    found = in_service(lambda service: service.semaphores.set(name, limit, rate), Absent.MADE)
    print_answer(
        SemaphoreView.made(found),
        f"{found.name}: limit {found.limit}{'' if found.rate is None else f', rate {found.rate}'}",
    )


@lock.command()
@click.argument("name")
def delete(name: str) -> None:
    """Delete a semaphore without holders and waiters."""
    in_service(lambda service: service.semaphores.delete(name))
    print_answer({"name": name, "deleted": True}, f"deleted {name}")
