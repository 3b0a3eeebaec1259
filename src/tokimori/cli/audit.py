"""`tokimori audit …`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.output import print_json
from tokimori.cli.session import in_service
from tokimori.cli.table import At, print_table

if TYPE_CHECKING:
    from tokimori.service.audit import Recorded
    from tokimori.service.service import Service

audit = Group("audit", help="The audit log: who has changed what, over HTTP, on the command line and in programs.")


@audit.command("list", cls=Command)
@click.option("-n", "--limit", default=100, metavar="N", help="At most so many; 100 by default.")
@click.option("--after", metavar="ID", help="Only those older than the entry of this id.")
def list_entries(limit: int, after: str | None) -> None:
    """List changes, newest first: when, by whom, what, of what. With --json also how that was before and after."""
    from tokimori.service.views.audit import entry_view

    async def act(service: "Service") -> "tuple[str, Sequence[Recorded]]":
        return service.time_zone, await service.audit.list(after, limit)

    zone, found = in_service(act)
    if options().as_json:
        print_json([entry_view(each) for each in found])
        return
    rows = [(At(each.entry.at, zone), each.entry.who, each.entry.what, each.entry.of, each.id) for each in found]
    print_table(("AT", "WHO", "WHAT", "OF", "ID"), rows, spare=("ID",))
