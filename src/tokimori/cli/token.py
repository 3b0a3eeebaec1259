"""`tokimori token …`"""

from collections.abc import Sequence

import click

from tokimori.cli.command import Command, Group
from tokimori.cli.moment import Length
from tokimori.cli.output import print_answer
from tokimori.cli.session import Absent, in_service, with_zone
from tokimori.cli.table import At, listing, print_list

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
    from tokimori.service.views.access import NewToken as NewTokenView

    made = in_service(
        lambda service: service.tokens.create(name, role, jobs=jobs, queues=queues, expires=expires), Absent.MADE
    )
    print_answer(NewTokenView.made(made), made.text)


@token.command("list")
@listing(_COLUMNS)
def list_tokens() -> None:
    """List the tokens, those that are over too."""
    from tokimori.service.views.access import AccessToken as TokenView

    zone, found = with_zone(lambda service: service.tokens.list())
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
    in_service(lambda service: service.tokens.revoke(name))
    print_answer({"name": name, "revoked": True}, f"revoked token {name}")
