"""`tokimori job show`, `explain`, `skips`, `counts`: what is known of one job."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.job_printing import SHOWN_MOMENTS, masked, shown_value
from tokimori.cli.output import local, print_fields, print_json, print_lines, print_notice
from tokimori.cli.session import in_service
from tokimori.cli.table import print_found, print_table
from tokimori.clock import Moment

if TYPE_CHECKING:
    from tokimori.model.dependents import Edge
    from tokimori.model.job import Job
    from tokimori.model.run import Skip
    from tokimori.schedules.explain import Explanation
    from tokimori.service.reasons import Why
    from tokimori.service.service import Service


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
def show(job_id: str) -> None:
    """Show a job, its next moments and its recent skips."""
    print_shown(job_id)


def print_shown(job_id: str) -> None:
    """Print a job with its moments, pauses and skips."""
    from tokimori.service.definitions.definitions import job_fields_of
    from tokimori.service.jobs.graph import direct, how
    from tokimori.service.reasons import AT_REST, reason_text
    from tokimori.service.views.jobs import Job as JobView
    from tokimori.service.why.stops import stopped

    async def act(service: "Service") -> "tuple[Job, Sequence[Moment], Sequence[Skip], Sequence[Edge], Why]":
        found = await service.jobs.get(job_id)
        edges, skips = direct(await service.jobs.graph(job_id), found.id), await service.jobs.skips(job_id, 10)
        moments = () if stopped(found) else await service.jobs.next(job_id, SHOWN_MOMENTS)
        return found, moments, skips, edges, await service.jobs.why(job_id)

    found, moments, skips, edges, why = in_service(act)
    shown = JobView.made(found, next_times=moments, edges=edges, why=why.reasons)
    if options().as_json:
        print_json(shown)
        return
    zone = found.definition.time_zone
    fields = {name: value for name, value in job_fields_of(found).items() if name != "parents"}
    unlimited = {"max_running": 0}.items()
    defined = [
        (name.replace("_", " "), "no limit" if (name, value) in unlimited else shown_value(masked(name, value)))
        for name, value in fields.items()
    ]
    print_fields(
        [
            ("id", found.id),
            ("state", found.state.value),
            *([("unreadable", shown.unreadable)] if shown.unreadable else []),
            *((name, value) for name, value in (("reason", found.reason), ("by", found.by)) if value),
            *([("set", declared.set)] if (declared := found.definition.declared) else []),
            *(("why", reason_text(reason)) for reason in why.reasons if reason.cause not in AT_REST),
            *((name, value) for name, value in defined if value not in ("", None)),
            *(("parent", f"{edge.parent} {how(edge)}") for edge in edges if edge.child == found.id),
            *(("child", f"{edge.child} {how(edge)}") for edge in edges if edge.parent == found.id),
            ("version", found.version),
            ("created", local(found.created, zone)),
            ("updated", local(found.updated, zone)),
            ("tzdata", found.tzdata or "unknown"),
            *(("next", local(moment, zone)) for moment in moments),
            *(
                ("skipped", f"{each.count} from {local(each.first, zone)} to {local(each.last, zone)}: {each.reason}")
                for each in skips
            ),
        ]
    )


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("-n", "count", type=click.IntRange(1, 10_000), default=5, show_default=True, help="How many moments.")
def explain(job_id: str, count: int) -> None:
    """Explain a job's schedule: in English, with its next moments and warnings."""
    from tokimori.cli.job_next import print_explanation
    from tokimori.service.reasons import AT_REST, reason_text
    from tokimori.service.views.schedules import Explanation as ExplanationView

    async def act(service: "Service") -> "tuple[Explanation, Why]":
        return await service.jobs.explain(job_id, count), await service.jobs.why(job_id)

    explanation, why = in_service(act)
    if options().as_json:
        print_json(ExplanationView.made(explanation))
    else:
        print_explanation(explanation)
        print_lines(*(f"why: {reason_text(reason)}" for reason in why.reasons if reason.cause not in AT_REST))


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
def skips(job_id: str) -> None:
    """List a job's skipped occurrences, and why they were skipped."""

    from tokimori.service.views.jobs import Skip as SkipView

    async def act(service: "Service") -> "tuple[Job, Sequence[Skip]]":
        return await service.jobs.get(job_id), await service.jobs.skips(job_id)

    found, rows = in_service(act)
    zone = found.definition.time_zone
    print_found(
        [SkipView.made(each) for each in rows],
        ("FIRST", "LAST", "COUNT", "REASON"),
        [(local(each.first, zone), local(each.last, zone), each.count, each.reason.value) for each in rows],
    )


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
def counts(job_id: str) -> None:
    """Count a job's runs and skips by day (UTC) and outcome, also those whose retention is over."""

    from tokimori.model.retention import MOST_COUNTED
    from tokimori.service.views.jobs import DailyCount

    views = [DailyCount.made(each) for each in in_service(lambda service: service.jobs.counts(job_id))]
    if options().as_json:
        print_json(views)
        return
    print_table(
        ("DAY", "OUTCOME", "COUNT", "PRUNED"),
        [(each.day, each.outcome, f"{each.count}{'+' if each.more else ''}", each.pruned) for each in views],
    )
    if any(each.more for each in views):
        print_notice(f"+: there may be more, as only the newest {MOST_COUNTED} rows are counted")
