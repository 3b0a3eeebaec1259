"""`tokimori app …`"""

from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.session import in_own_service
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokimori.apps.routes import AppFunctions
    from tokimori.service.service import Service

app = Group("app", help="Apps: check what a deploy changes, and which version of the code counts.")


@app.command("check")
@click.argument("name", metavar="MODULE:NAME", envvar="TOKIMORI_APP_LOAD")
@click.option("-I", "--include", multiple=True, metavar="PATH", help="Look for modules in this folder first.")
@click.option("-r", "--require", multiple=True, metavar="MODULE", help="Import this module before the app.")
def check_app(*, name: str, include: tuple[str, ...], require: tuple[str, ...]) -> None:
    """Show which jobs a start of this app would add, change, leave enabled, pause or delete. Nothing is changed.

    The marks: + a new job, ~ a changed one, - one that the code does not declare any more, ! what stays as it is.
    """
    found = _loaded(name, include, require)

    async def act(service: "Service") -> "Sequence[tuple[str, str, str]]":
        from tokimori.node.functions import declared_in
        from tokimori.service.service import service_for
        from tokimori.service.sets.declared import foretell

        return await foretell(service_for(service._shared, service._caller).jobs, declared_in(found._hello(0, 0)))

    lines = in_own_service(act)
    if options().output in ("json", "jsonl"):
        print_json([{"mark": mark, "id": job_id, "text": text} for mark, job_id, text in lines])
    else:
        print_lines(*(f"{mark} {job_id}: {text}" for mark, job_id, text in lines) if lines else ("nothing changes",))


@app.command("version")
@click.argument("name", metavar="APP")
@click.argument("version", required=False)
def version_of_app(*, name: str, version: str | None) -> None:
    """Show the version of an app that its jobs follow, or let them follow this one.

    Of two deploys at the same time the greater version counts, as App(version=…) says it: a number or a date. To go
    back to older code say its version here, and start it again.
    """

    async def act(service: "Service") -> str:
        from tokimori.service.service import service_for
        from tokimori.service.sets.declared import version_followed

        return await version_followed(service_for(service._shared, service._caller).jobs, name, version)

    found = in_own_service(act)
    if options().output in ("json", "jsonl"):
        print_json({"app": name, "version": found or None})
    else:
        print_lines(f"{name} {found}" if found else f"{name} has no version: its jobs follow what starts last")


def _loaded(name: str, include: tuple[str, ...], require: tuple[str, ...]) -> "AppFunctions":
    from tokimori.apps.loading import load_app, why_not_loaded

    try:
        return load_app(name, include, require)
    except Exception as fault:  # the code is the user's
        message, allowed = why_not_loaded(name, fault)
        raise InvalidInput(message, field="app", value=name, allowed=allowed) from None
