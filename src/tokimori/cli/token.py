"""`tokimori token …`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.moment import Length
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.session import Absent, in_service
from tokimori.cli.table import At, listing, print_list

if TYPE_CHECKING:
    from tokimori.model.access_token import AccessToken
    from tokimori.service.service import Service
    from tokimori.service.tokens import NewToken

token = Group("token", help="Tokens: who may ask nodes over HTTP, and as what.")

_COLUMNS = ("NAME", "ROLE", "JOBS", "QUEUES", "CREATED", "BY", "EXPIRES")


@token.command(cls=Command)
@click.argument("name")
@click.option("--role", required=True, metavar="ROLE", help="ping, read, operate or admin.")
@click.option("--jobs", multiple=True, metavar="PREFIX", help="Only jobs whose ids begin so; may be repeated.")
@click.option("--queues", multiple=True, metavar="NAME", help="Only jobs in this queue; may be repeated.")
@click.option(
    "--expires",
    type=Length(),
    metavar="LENGTH",
    help="For how long it is good, such as 12h or 30d; by default for ever.",
)
def create(name: str, role: str, jobs: Sequence[str], queues: Sequence[str], expires: float | None) -> None:
    """Make a token and print it, once. Every node of the store accepts it.

    Programs send it as `Authorization: Bearer TOKEN`. The store keeps only a hash of it.
    """
    from tokimori.service.views.access import NewTokenView

    async def act(service: "Service") -> "NewToken":
        return await service.tokens.create(name, role, jobs=jobs, queues=queues, expires=expires)

    made = in_service(act, Absent.MADE)
    if options().as_json:
        print_json(NewTokenView.made(made))
    else:
        print_lines(made.text)


@token.command("list")
@listing(_COLUMNS)
def list_tokens() -> None:
    """List the tokens, those that are over too."""
    from tokimori.service.views.access import TokenView

    async def act(service: "Service") -> "tuple[str, Sequence[AccessToken]]":
        return service.time_zone, await service.tokens.list()

    zone, found = in_service(act)
    listed = [
        (
            each,
            [
                (
                    each.name,
                    each.role.value,
                    " ".join(f"{prefix}*" for prefix in each.scope.jobs),
                    " ".join(each.scope.queues),
                    At(each.created, zone),
                    each.by,
                    At(each.expires, zone),
                )
            ],
        )
        for each in found
    ]
    print_list(_COLUMNS, listed, TokenView.made)


@token.command(cls=Command)
@click.argument("name")
def revoke(name: str) -> None:
    """Revoke a token: within two seconds every node refuses it."""

    async def act(service: "Service") -> None:
        await service.tokens.revoke(name)

    in_service(act)
    if options().as_json:
        print_json({"name": name, "revoked": True})
    else:
        print_lines(f"revoked token {name}")
