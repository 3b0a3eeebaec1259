"""`tokimori job …`. What only work needs is imported when it is used, so that help need not wait for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from tokimori.cli.command import CommandWithArguments, Group, options
from tokimori.cli.completing import job_ids
from tokimori.cli.ending import DONE
from tokimori.cli.job_options import fields_given, job_options, with_moments
from tokimori.cli.job_printing import masked, print_job, shown_value
from tokimori.cli.output import local, print_fields, print_json, print_lines, print_notice
from tokimori.cli.session import Absent, in_service
from tokimori.cli.table import At, State, print_table
from tokimori.clock import Moment
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.model.dependents import Edge
    from tokimori.model.job import Job
    from tokimori.model.run import Skip
    from tokimori.schedules.explain import Explanation
    from tokimori.service.finding import JobSearch
    from tokimori.service.service import Service
    from tokimori.service.why.reasons import Why

job = Group(
    "job",
    help="Jobs: what to run, and when.",
    nouns={
        "edit": ("tokimori.cli.job_edit:edit", "Edit a job as a text in $VISUAL or $EDITOR."),
        "modify": ("tokimori.cli.job_edit:edit", "The same as edit."),
        "next": ("tokimori.cli.job_next:next_moments", "Print the next moments of jobs, or of a schedule."),
        "backfill": ("tokimori.cli.job_backfill:backfill", "Make runs for past occurrences that have none."),
        "why": (
            "tokimori.cli.why:why_job",
            "Say what keeps a job's runs from starting, and the command that mends it.",
        ),
        "ledger": ("tokimori.cli.ledger:ledger", "Say of each occurrence what became of it."),
        "stats": ("tokimori.cli.job_stats:stats", "Say how often a job succeeds, how long it takes, and how late."),
        "pause": ("tokimori.cli.job_orders:pause", "Pause a job, or all that match: nothing of it starts."),
        "resume": ("tokimori.cli.job_orders:resume", "Resume a paused job, or all that match."),
        "disable": ("tokimori.cli.job_orders:pause", "The same as pause."),
        "enable": ("tokimori.cli.job_orders:resume", "The same as resume."),
        "resolve": ("tokimori.cli.job_orders:resolve", "Enable a job that a failure has parked."),
        "trigger": ("tokimori.cli.job_trigger:trigger", "Run a job now, or at a given time, or all that match."),
        "logs": ("tokimori.cli.run_logs:job_logs", "Print what the newest run of a job wrote."),
        "copy": ("tokimori.cli.job_orders:copy", "Add a job with the definition of another one."),
        "rename": ("tokimori.cli.job_orders:rename", "Give a job another id."),
        "graph": ("tokimori.cli.job_graph:graph", "Print which jobs run after which."),
        "delete": ("tokimori.cli.job_delete:delete", "Delete a job, or all that match, or all of them."),
        "import": ("tokimori.cli.job_import:import_jobs", "Read jobs from foreign files: crontab, Kubernetes."),
    },
)
_STATES = ("enabled", "paused", "parked", "finished")
"""In which states listed jobs may be."""
_SHOWN = 5
"""How many next moments a shown job has."""


@job.command(cls=CommandWithArguments)
@click.argument("job_id", metavar="ID", required=False, shell_complete=job_ids)
@job_options
@click.option("-e", "--edit", "in_editor", is_flag=True, help="Write it as a text in $VISUAL or $EDITOR.")
@click.option("--yes", is_flag=True, help="With --edit: do not ask.")
def add(job_id: str | None, *, in_editor: bool, yes: bool, **values: Any) -> int:
    """Add a job: --command TEXT, or a program and its arguments after --; or -e, in an editor."""
    fields = fields_given(values)
    if in_editor:
        from tokimori.cli.job_edit import add_in_editor

        return add_in_editor(job_id, fields, yes=yes)
    if job_id is None:
        raise click.UsageError("Missing argument 'ID'; or -e, to write the job in an editor")

    async def act(service: "Service") -> "tuple[Job, Sequence[Moment]]":
        added = await service.add(job_id, **with_moments(fields, await service.now()))
        return added, await service.next_times(added.id, _SHOWN)

    print_job("added", *in_service(act, Absent.MADE))
    return DONE


@job.command(cls=CommandWithArguments)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@job_options
@click.option("--unset", multiple=True, metavar="FIELD", help="Set a field back to its default.")
def update(job_id: str, unset: tuple[str, ...], **values: Any) -> None:
    """Change fields of a job; the others stay. --env and --label are added to those that it has."""
    changes = {**fields_given(values), **dict.fromkeys(unset)}
    if not changes:
        raise InvalidInput("nothing to change", allowed="at least one field")

    async def act(service: "Service") -> "tuple[Job, Sequence[Moment]]":
        changed = await service.update(job_id, **with_moments(changes, await service.now()))
        return changed, await service.next_times(changed.id, _SHOWN)

    print_job("updated", *in_service(act))


@job.command("list")
@click.option("--state", multiple=True, type=click.Choice(_STATES), help="In this state; may be repeated.")
@click.option("--prefix", metavar="TEXT", help="Only jobs whose ids begin with this.")
@click.option("--label", multiple=True, metavar="KEY[=VALUE]", help="With this label; may be repeated.")
@click.option("--owner", metavar="TEXT", help="Only jobs of this owner.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
def list_jobs(**filters: Any) -> None:
    """List jobs by id: all of them, or those that have all that is said."""

    from tokimori.model.job import JobState
    from tokimori.service.finding import JobSearch
    from tokimori.service.views.jobs import job_view

    wanted = JobSearch(**{**filters, "state": frozenset(map(JobState, filters["state"]))}, limit=1_000)
    jobs = in_service(lambda service: _all_jobs(service, wanted))
    if options().as_json:
        print_json([job_view(each) for each in jobs])
        return
    rows = [
        (
            each.id,
            State(each.state.value),
            each.definition.schedule,
            _next(each),
            each.definition.name or _command(each),
        )
        for each in jobs
    ]
    print_table(("ID", "STATE", "SCHEDULE", "NEXT", "COMMAND"), rows, spare=("COMMAND", "SCHEDULE"))


@job.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
def show(job_id: str) -> None:
    """Show a job, its next moments and what was skipped lately."""

    from tokimori.service.definitions import job_fields_of
    from tokimori.service.graph import direct, how
    from tokimori.service.views.jobs import job_view
    from tokimori.service.why.reasons import AT_REST, told
    from tokimori.service.why.stops import stopped

    async def act(service: "Service") -> "tuple[Job, Sequence[Moment], Sequence[Skip], Sequence[Edge], Why]":
        found = await service.get(job_id)
        edges, skips = direct(await service.graph(job_id), found.id), await service.skips(job_id, 10)
        moments = () if stopped(found) else await service.next_times(job_id, _SHOWN)
        return found, moments, skips, edges, await service.why_job(job_id)

    found, moments, skips, edges, why = in_service(act)
    if options().as_json:
        print_json(job_view(found, moments, edges, why=why))
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
            *([("unreadable", job_view(found).unreadable)] if job_view(found).unreadable else []),
            *((name, value) for name, value in (("reason", found.reason), ("by", found.by)) if value),
            *([("set", declared.set)] if (declared := found.definition.declared) else []),
            *(("why", told(reason)) for reason in why.reasons if reason.cause not in AT_REST),
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


@job.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("-n", "count", type=click.IntRange(1, 10_000), default=5, show_default=True, help="How many moments.")
def explain(job_id: str, count: int) -> None:
    """Explain a job's schedule: in English, with its next moments and warnings."""

    from tokimori.cli.schedule import print_explanation
    from tokimori.service.views.schedules import explanation_view
    from tokimori.service.why.reasons import AT_REST, told

    async def act(service: "Service") -> "tuple[Explanation, Why]":
        return await service.explain_job(job_id, count), await service.why_job(job_id)

    explanation, why = in_service(act)
    if options().as_json:
        print_json(explanation_view(explanation))
    else:
        print_explanation(explanation)
        print_lines(*(f"why: {told(reason)}" for reason in why.reasons if reason.cause not in AT_REST))


@job.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
def skips(job_id: str) -> None:
    """List a job's skipped occurrences, and why they were skipped."""

    from tokimori.service.views.jobs import skip_view

    async def act(service: "Service") -> "tuple[Job, Sequence[Skip]]":
        return await service.get(job_id), await service.skips(job_id)

    found, rows = in_service(act)
    if options().as_json:
        print_json([skip_view(each) for each in rows])
        return
    zone = found.definition.time_zone
    print_table(
        ("FIRST", "LAST", "COUNT", "REASON"),
        [(local(each.first, zone), local(each.last, zone), each.count, each.reason.value) for each in rows],
    )


@job.command()
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
def counts(job_id: str) -> None:
    """Count a job's runs and skips by day (UTC) and outcome, also those whose retention is over."""

    from tokimori.model.retention import MOST_COUNTED
    from tokimori.service.views.jobs import count_view

    views = [count_view(each) for each in in_service(lambda service: service.counts(job_id))]
    if options().as_json:
        print_json(views)
        return
    print_table(
        ("DAY", "OUTCOME", "COUNT", "PRUNED"),
        [(each.day, each.outcome, f"{each.count}{'+' if each.more else ''}", each.pruned) for each in views],
    )
    if any(each.more for each in views):
        print_notice(f"+: there may be more, as only the newest {MOST_COUNTED} rows are counted")


async def _all_jobs(service: "Service", wanted: "JobSearch") -> "list[Job]":
    found = await service.find_jobs(wanted)
    jobs = list(found.jobs)
    while found.next is not None:
        found = await service.find_jobs(structs.replace(wanted, after=found.next))
        jobs += found.jobs
    return jobs


def _next(found: "Job") -> At | str:
    """Its next moment, or the jobs after which it runs."""
    if found.definition.parents:
        return f"after {', '.join(dict.fromkeys(parent.job for parent in found.definition.parents))}"
    return At(found.next_due, found.definition.time_zone)


def _command(found: "Job") -> str:
    from tokimori.service.definitions import fields_of

    fields = fields_of(found.definition)
    if "url" in fields:
        return f"{fields.get('method', 'POST' if 'body' in fields else 'GET')} {fields['url']}"
    kind = next((kind for kind in ("function", "build") if kind in fields), None)
    return shown_value(fields.get("command", "noop")) if kind is None else f"{kind} {dict(fields)[kind]}"
