"""`tokimori worker`"""

from functools import partial

import click

from tokimori.cli.command import Command
from tokimori.cli.moment import Length
from tokimori.cli.output import announce
from tokimori.cli.serve import make_folders, run_node
from tokimori.cli.session import load
from tokimori.config.value import check_linux


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
