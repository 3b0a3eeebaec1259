"""`tokimori set …`"""

from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group
from tokimori.cli.listing import listing, print_list
from tokimori.cli.session import in_service
from tokimori.cli.table import At

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokimori.service.service import Service
    from tokimori.service.sets.turns import SetState

sets = Group("set", help="Sets: jobs and resources that files declare together, or that an app declares.")

_COLUMNS = ("NAME", "JOBS", "VERSION", "APPLIED", "BY", "STATE")


@sets.command("list")
@listing(_COLUMNS)
def list_sets() -> None:
    """List the sets with the author of the last apply, and whether it was finished."""
    _print(None)


@sets.command("show")
@click.argument("name")
@listing(_COLUMNS)
def show_set(name: str) -> None:
    """Show one set."""
    _print(name)


def _sentence(state: "SetState") -> str:
    """Return the state of the set in words."""
    by = state.by or "somebody"
    return {
        "whole": "whole",
        "at_work": f"{by} applies it now",
        "half_applied": f"half applied by {by}: apply it again",
    }[state.state]


def _print(name: str | None) -> None:
    from tokimori.service.views.sets import SetState as SetView

    async def act(service: "Service") -> "tuple[Sequence[SetState], str]":
        return await service.sets.list(name), service.time_zone

    found, zone = in_service(act)
    rows = [
        (
            each,
            [
                (
                    each.name,
                    each.jobs,
                    each.version,
                    None if each.begun is None else At(each.begun, zone),
                    each.by,
                    _sentence(each),
                )
            ],
        )
        for each in found
    ]
    print_list(_COLUMNS, rows, SetView.made)
