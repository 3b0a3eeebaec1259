"""`tokimori task build`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command
from tokimori.cli.session import Absent, in_service
from tokimori.cli.task import outlived, print_done, tasks_dir, tell_outlived
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.service.service import Service
    from tokimori.service.tasks import TaskDetails
    from tokimori.workspace.freezing import Frozen


@click.command(cls=Command)
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All tasks of the workspace.")
@click.option("--restart", is_flag=True, help="End what runs of it, and start it anew.")
def build(names: Sequence[str], everything: bool, restart: bool) -> None:
    """Freeze tasks: check the source, ask for the schedule, lock what it depends on, keep that under its digest.

    From now on all nodes run exactly this build, whatever becomes of the source. Each is kept when it is made: one that
    is refused ends this, and leaves nothing.
    """
    import os

    from tokimori.workspace.freezing import freeze
    from tokimori.workspace.source import names_in

    folder = tasks_dir()
    if bool(names) == everything:
        raise InvalidInput("name: which task is to be built?", field="name", allowed="names, or --all")

    async def act(service: "Service") -> None:
        for name in names_in(folder) if everything else names:
            frozen = freeze(folder, name, os.environ)
            left = await outlived(service, name)
            print_done("built", await keep(service, name, frozen, restart=restart))
            if not restart:
                tell_outlived(name, left, "; the new one may run beside it")

    in_service(act, Absent.MADE)


async def keep(service: "Service", name: str, frozen: "Frozen", *, restart: bool) -> "TaskDetails":
    """Keep a build: first its pieces, and then what says that there is one."""
    from tokimori.model.build import pieces_of

    for number, piece in enumerate(pieces_of(frozen.content)):
        await service.tasks.put_piece(name, frozen.record.digest, number, piece)
    return await service.tasks.build(name, frozen.record, restart=restart)
