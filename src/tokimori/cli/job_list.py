"""`tokimori job list`"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.job_printing import next_cell, shown_value
from tokimori.cli.output import NOTHING, print_fields, print_json, print_lines, print_text
from tokimori.cli.session import in_service
from tokimori.cli.table import At, Row, State, listing, print_found, print_list
from tokimori.clock import Moment
from tokimori.model.ids import check_job_id

if TYPE_CHECKING:
    from tokimori.model.dependents import Edge
    from tokimori.service.service import Service


@click.command(cls=Command)
@click.argument("job_id", metavar="[ID]", required=False, shell_complete=job_ids)
@click.option("--dot", "as_dot", is_flag=True, help="Print it in the DOT language of Graphviz.")
def graph(job_id: str | None, as_dot: bool) -> None:
    """Print which jobs run after which: all, or those before and after one."""
    from tokimori.model.job import JobState
    from tokimori.service.jobs.graph import dot, tree
    from tokimori.service.views.jobs import Edge as EdgeView

    async def act(service: "Service") -> "tuple[Sequence[Edge], str | None]":
        alone = None if job_id is None else await service.jobs.get(job_id)
        note = " (deleted)" if alone is not None and alone.state is JobState.DELETED else ""
        return await service.jobs.graph(job_id), None if alone is None else f"{alone.id}{note}"

    edges, alone = in_service(act)
    if options().as_json:
        print_json([EdgeView.made(edge) for edge in edges])
    elif as_dot:
        print_text(dot(edges, None if job_id is None else check_job_id(job_id)))
    else:
        print_lines(*(tree(edges) or ([] if alone is None else [alone])))


if TYPE_CHECKING:
    from tokimori.model.statistics import Quantiles, Sizes, Statistics
    from tokimori.service.service import Service

_BARS = "▁▂▃▄▅▆▇█"
_EMPTY = "·"


@click.command("stats", cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
def stats(job_id: str) -> None:
    """Say how often a job succeeds, how long its runs take, and how late they start.

    Counts are those of all days, pruned ones too; times are those of its newest 1,000 ended runs.
    """
    from tokimori.service.views.jobs import Statistics as StatisticsView

    async def act(service: "Service") -> "tuple[Statistics, Moment]":
        return await service.jobs.stats(job_id), await service.db.now()

    found, now = in_service(act)
    if options().as_json:
        print_json(StatisticsView.made(found))
    else:
        print_fields(_fields(found, now))


@click.command("durations", cls=Command)
@click.argument("job_ids", metavar="ID…", nargs=-1, required=True, shell_complete=job_ids)
def durations(job_ids: tuple[str, ...]) -> None:
    """Print the median and 95th percentile of the durations of these jobs' newest successful runs.

    Beside them stand the runs of the last 7 days that succeeded and failed.
    """
    found = in_service(lambda service: service.jobs.durations(job_ids))
    print_found(
        found,
        ("ID", "P50", "P95", "RUNS", "SUCCEEDED", "FAILED"),
        [(job_id, each.p50, each.p95, each.runs, each.succeeded, each.failed) for job_id, each in found.items()],
    )


def _fields(found: "Statistics", now: Moment) -> Sequence[tuple[str, object]]:
    from tokimori.model.statistics import last_days, size

    days = last_days(found, now)
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(found.outcomes.items()))
    rate = NOTHING if found.success_rate is None else f"{found.success_rate:.2%}"
    return (
        ("outcomes", (counts or NOTHING) + (" or more" if found.more else "")),
        ("success rate", rate),
        ("duration", _figures_text(found.duration)),
        ("started late", _figures_text(found.lateness)),
        ("CPU", _figures_text(found.cpu)),
        ("memory", _figures_text(found.memory, size)),
        ("by hour, 0 to 23", bars(found.by_hour)),
        ("30 days, succeeded", bars([day.succeeded for day in days])),
        ("30 days, failed", bars([day.failed for day in days])),
        ("30 days, skipped", bars([day.skipped for day in days])),
    )


def _figures_text(found: "Quantiles | Sizes | None", said: Callable[[Any], str] | None = None) -> str:
    from msgspec.structs import asdict

    from tokimori.model.statistics import seconds

    words = said or seconds
    return NOTHING if found is None else ", ".join(f"{name} {words(value)}" for name, value in asdict(found).items())


def bars(counts: Sequence[int]) -> str:
    """Return a bar for each count, the highest for the greatest; a dot for none."""
    most = max(counts, default=0)
    return "".join(_BARS[-(-count * len(_BARS) // most) - 1] if count else _EMPTY for count in counts)


if TYPE_CHECKING:
    from tokimori.model.job import Job
    from tokimori.service.service import Service

_STATES = ("enabled", "paused", "parked", "finished")
"""In which states listed jobs may be."""
_COLUMNS = ("ID", "STATE", "SCHEDULE", "NEXT", "COMMAND")


@click.command("list", cls=Command)
@click.option("--state", multiple=True, type=click.Choice(_STATES), help="In this state; may be repeated.")
@click.option("--prefix", metavar="TEXT", help="Only jobs whose ids begin with this.")
@click.option("--label", multiple=True, metavar="KEY[=VALUE]", help="With this label; may be repeated.")
@click.option("--owner", metavar="TEXT", help="Only jobs of this owner.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@listing(_COLUMNS)
def list_jobs(**filters: Any) -> None:
    """List jobs by id: all of them, or those that have all that is said."""
    from tokimori.service.search.jobs import every_job
    from tokimori.service.views.jobs import Job as JobView

    async def act(service: "Service") -> "list[Job]":
        return [job async for job in every_job(service.jobs.list, **filters)]

    jobs = in_service(act)
    print_list(_COLUMNS, [(each, [_row(each)]) for each in jobs], JobView.made, spare=("COMMAND", "SCHEDULE"))


def _row(found: "Job") -> Row:
    name = found.definition.name
    shown = name if name and name != found.id else _command(found)
    return (found.id, State(found.state.value), found.definition.schedule, _next(found), shown)


def _next(found: "Job") -> At | str:
    """Return the job's next moment, or the jobs after which it runs."""
    if found.definition.parents:
        return f"after {', '.join(dict.fromkeys(parent.job for parent in found.definition.parents))}"
    return next_cell(found)


def _command(found: "Job") -> str:
    from tokimori.service.definitions.definitions import fields_of

    fields = fields_of(found.definition)
    if "url" in fields:
        return f"{fields.get('method', 'POST' if 'body' in fields else 'GET')} {fields['url']}"
    kind = next((kind for kind in ("function", "build") if kind in fields), None)
    return shown_value(fields.get("command", "noop")) if kind is None else f"{kind} {dict(fields)[kind]}"
