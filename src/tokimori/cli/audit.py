"""`tokimori audit …`"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group
from tokimori.cli.moment import AGO, past_or_none
from tokimori.cli.output import print_notice
from tokimori.cli.session import in_service
from tokimori.cli.table import At, print_found
from tokimori.clock import Moment
from tokimori.model.audit import older_than
from tokimori.service.validation import MOST_LISTED

if TYPE_CHECKING:
    from tokimori.service.audit import Recorded
    from tokimori.service.service import Service

audit = Group("audit", help="The audit log: who has changed what, over HTTP, on the command line and in programs.")

_MOST_LOOKED_AT = 20_000


@audit.command(
    "list",
    cls=Command,
    examples=(("audit list --since 1d --who ada --what job", "what somebody did to jobs since yesterday"),),
)
@click.option("-n", "--limit", default=100, metavar="N", help="At most so many; 100 by default.")
@click.option("--after", metavar="ID", help="Only those older than the entry of this id.")
@click.option("--since", metavar="TIME", help=f"Only what was changed then or later: {AGO}.")
@click.option("--until", metavar="TIME", help="Only what was changed before, as --since.")
@click.option("--who", metavar="TEXT", help="Only changes by who has this in the name.")
@click.option("--what", metavar="TEXT", help="Only changes with this in their name, such as job or job.pause.")
@click.option("--of", metavar="TEXT", help="Only changes of what has this in its name.")
def list_entries(limit: int, after: str | None, since: str | None, until: str | None, **texts: str | None) -> None:
    """List changes, newest first: when, by whom, what, of what. With --json also how that was before and after.

    With --who, --what or --of at most 20,000 entries are looked at.
    """
    from tokimori.service.views.access import AuditEntry

    async def act(service: "Service") -> "tuple[str, Sequence[Recorded]]":
        first, last = await past_or_none(service, "since", since), await past_or_none(service, "until", until)
        begin = max(after or "", "" if last is None else older_than(Moment(last - 1)))
        sought = {name: text.casefold() for name, text in texts.items() if text}
        if first is None and not sought:
            return service.time_zone, await service.audit.list(begin or None, limit)
        return service.time_zone, await _found(service, begin, limit, first, sought)

    zone, found = in_service(act)
    rows = [(At(each.entry.at, zone), each.entry.who, each.entry.what, each.entry.of, each.id) for each in found]
    print_found([AuditEntry.made(each) for each in found], ("AT", "WHO", "WHAT", "OF", "ID"), rows, spare=("ID",))


async def _found(
    service: "Service", after: str, limit: int, since: Moment | None, sought: Mapping[str, str]
) -> "Sequence[Recorded]":
    """Return the newest matching entries, in the order of their moments. A bounded number is looked at."""
    found: list[Recorded] = []
    for _ in range(_MOST_LOOKED_AT // MOST_LISTED):
        page = await service.audit.list(after or None, MOST_LISTED)
        for each in page:
            if len(found) == limit or (since is not None and each.entry.at < since):
                return found
            entry = {"who": each.entry.who, "what": each.entry.what, "of": each.entry.of}
            if all(text in (entry[name] or "").casefold() for name, text in sought.items()):
                found.append(each)
        if len(page) < MOST_LISTED:
            return found
        after = page[-1].id
    print_notice(f"{_MOST_LOOKED_AT} entries were looked at; go on with --after {after}")
    return found
