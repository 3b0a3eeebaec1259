"""`tokimori app …`, and `tokimori worker`: a node for the functions of an app alone."""

from functools import partial
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.moment import Length
from tokimori.cli.output import announce, print_json, print_lines
from tokimori.cli.serve import make_folders, run_node
from tokimori.cli.session import in_own_service, load
from tokimori.config.value import check_linux
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
        from tokimori.service.sets.app_jobs import forecast_of

        return await forecast_of(service_for(service._shared, service._caller).jobs, declared_in(found._hello(0, 0)))

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
        from tokimori.service.sets.app_jobs import version_followed

        return await version_followed(service._shared, name, version)

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


@click.command(cls=Command)
@click.argument("app", metavar="MODULE:NAME", envvar="TOKIMORI_APP_LOAD")
@click.option("--processes", type=int, metavar="N", help="Worker processes; by default one for each core.")
@click.option("--concurrency", type=int, metavar="N", help="Runs at a time in each of them; by default 16.")
@click.option("-I", "--include", multiple=True, metavar="PATH", help="Look for modules in this folder first.")
@click.option("-r", "--require", multiple=True, metavar="MODULE", help="Import this module before the app.")
@click.option("--reload", is_flag=True, help="For development: let new code take over whenever a Python file changes.")
@click.option("--max-load", type=float, metavar="LOAD", help="Claim nothing while the load average is above this.")
@click.option("--json-logs", is_flag=True, help="Write the log to standard output, as JSON, and nothing else there.")
@click.option("--max-runs-per-process", type=int, metavar="N", help="Replace a worker process after so many runs.")
@click.option("--max-age", type=Length(), metavar="LENGTH", help="Replace a worker process so long after its start.")
@click.option("--most-memory", type=int, metavar="MIB", help="Replace a worker process that takes more memory.")
def worker(
    *,
    app: str,
    processes: int | None,
    concurrency: int | None,
    include: tuple[str, ...],
    require: tuple[str, ...],
    reload: bool,
    max_load: float | None,
    json_logs: bool,
    max_runs_per_process: int | None,
    max_age: float | None,
    most_memory: int | None,
) -> int:
    """Run a node for the functions of an app alone: it runs no commands, and does not answer over HTTP.

    The app is MODULE:NAME, or FILE.py:NAME. TERM, INT or QUIT stops it, and a second one ends its runs at once; USR1 or
    HUP lets new worker processes take over, with the code and the app.* settings of now; USR2 opens the log file anew.
    """
    check_linux("a worker")
    read = partial(
        load,
        {
            "http.enabled": False,
            "app.load": app,
            "app.processes": processes,
            "app.concurrency": concurrency,
            "app.only": True,
            "app.include": list(include) or None,
            "app.require": list(require) or None,
            "app.reload": True if reload else None,
            "node.max_load": max_load,
            "app.max_runs_per_process": max_runs_per_process,
            "app.max_age": max_age,
            "log.format": "json" if json_logs else None,
            "log.stdout": True if json_logs else None,
            "app.most_memory": most_memory,
        },
    )
    settings = read().settings
    make_folders(settings)
    return run_node(settings, announce, read)
