"""`tokimori lock NAME -- COMMAND…`, `tokimori lock list`, `lock set`, `lock delete`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group, options
from tokimori.cli.listing import Row, listing, print_list
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.session import Absent, in_service
from tokimori.cli.suggesting import command_hint
from tokimori.cli.table import At

if TYPE_CHECKING:
    from tokimori.service.semaphores import Holder, SemaphoreDetails
    from tokimori.service.service import Service

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
        """Return the command. Raises `UsageError` that says how a program is run, which a mistyped line may have
        meant.
        """
        if cmd_name == _RUN:
            from tokimori.cli.lock_run import run

            return run
        found = super().get_command(ctx, cmd_name)
        if found is None:
            known = self.list_commands(ctx)
            meant = command_hint(cmd_name, known)
            hint = f"To run a program while {cmd_name!r} is held: tokimori lock {cmd_name} -- PROGRAM"
            raise click.UsageError(
                f"No such command {cmd_name!r}; there are {', '.join(known)}{meant or '.'} {hint}", ctx
            )
        return found


_RUN = "run"
_COLUMNS = ("NAME", "LIMIT", "USED", "RATE", "TAKEN", "WAITING", "HOLDER", "UNITS", "TOKEN", "SINCE")
lock = LockGroup("lock", help=USAGE, options_metavar="", subcommand_metavar=SYNOPSIS)


@lock.command("list")
@listing(_COLUMNS)
def list_semaphores() -> None:
    """List semaphores: limit, units in use, rate, units taken in its period, how many wait, and who holds what."""
    from tokimori.service.views.semaphores import SemaphoreView

    async def act(service: "Service") -> "tuple[str, Sequence[SemaphoreDetails]]":
        return service.time_zone, await service.semaphores.list()

    zone, found = in_service(act)
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
    from tokimori.service.views.semaphores import SemaphoreView

    async def act(service: "Service") -> "SemaphoreDetails":
        return await service.semaphores.set(name, limit, rate)

    found = in_service(act, Absent.MADE)
    if options().as_json:
        print_json(SemaphoreView.made(found))
    else:
        print_lines(f"{found.name}: limit {found.limit}{'' if found.rate is None else f', rate {found.rate}'}")


@lock.command()
@click.argument("name")
def delete(name: str) -> None:
    """Delete a semaphore without holders and waiters."""

    async def act(service: "Service") -> None:
        await service.semaphores.delete(name)

    in_service(act)
    if options().as_json:
        print_json({"name": name, "deleted": True})
    else:
        print_lines(f"deleted {name}")
