"""`tokimori token …`"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.output import local, print_json, print_lines, print_table
from tokimori.cli.session import Absent, in_service
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.model.access_token import AccessToken
    from tokimori.service.service import Service
    from tokimori.service.tokens import NewToken

token = Group("token", help="Tokens: who may come through the doors of the nodes, and as what.")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LENGTH = re.compile(r"(\d{1,9})([smhdw])\Z", re.ASCII)


@token.command(cls=Command)
@click.argument("name")
@click.option("--role", required=True, metavar="ROLE", help="read, operate or admin.")
@click.option("--jobs", multiple=True, metavar="PREFIX", help="Only jobs whose ids begin so; may be repeated.")
@click.option("--queues", multiple=True, metavar="NAME", help="Only jobs in this queue; may be repeated.")
@click.option("--expires", metavar="LENGTH", help="For how long it is good, such as 12h or 30d; by default for ever.")
def create(name: str, role: str, jobs: Sequence[str], queues: Sequence[str], expires: str | None) -> None:
    """Make a token and print it, once. Every node of the store lets in who sends it.

    Programs send it as `Authorization: Bearer TOKEN`. The store keeps only a hash of it.
    """
    from tokimori.service.views.tokens import new_token_view

    lasting = None if expires is None else _seconds(expires)

    async def act(service: "Service") -> "NewToken":
        return await service.tokens.create(name, role, jobs=jobs, queues=queues, expires=lasting)

    made = in_service(act, Absent.MADE)
    if options().as_json:
        print_json(new_token_view(made))
    else:
        print_lines(made.text)


@token.command("list")
def list_tokens() -> None:
    """List the tokens, those that are over too."""
    from tokimori.service.views.tokens import token_view

    async def act(service: "Service") -> "tuple[str, Sequence[AccessToken]]":
        return service.time_zone, await service.tokens.list()

    zone, found = in_service(act)
    if options().as_json:
        print_json([token_view(each) for each in found])
        return
    rows = [
        (
            each.name,
            each.role.value,
            " ".join(f"{prefix}*" for prefix in each.scope.jobs),
            " ".join(each.scope.queues),
            local(each.created, zone),
            each.by,
            local(each.expires, zone),
        )
        for each in found
    ]
    print_table(("NAME", "ROLE", "JOBS", "QUEUES", "CREATED", "BY", "EXPIRES"), rows)


@token.command(cls=Command)
@click.argument("name")
def revoke(name: str) -> None:
    """End a token: within two seconds no node lets in who sends it."""

    async def act(service: "Service") -> None:
        await service.tokens.revoke(name)

    in_service(act)
    if options().as_json:
        print_json({"name": name, "revoked": True})
    else:
        print_lines(f"revoked token {name}")


def _seconds(text: str) -> int:
    """The seconds of such a length. Raises `InvalidInput`."""
    found = _LENGTH.match(text)
    if found is None:
        message = f"expires: {text!r} is not a length of time"
        raise InvalidInput(message, field="expires", value=text, allowed="a number and one of s m h d w, such as 30d")
    return int(found[1]) * _UNITS[found[2]]
