"""`tokimori run …`. What only work needs is imported when it is used, so that help need not wait for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.completion import run_ids
from tokimori.cli.output import local, print_answer, print_fields, print_json, print_lines
from tokimori.cli.run_list import job_shown
from tokimori.cli.session import with_run
from tokimori.cli.table import At, Id, State, lasted, print_found, print_table
from tokimori.errors import InvalidInput
from tokimori.model.transitions import ENDS, RunState
from tokimori.spelling import amount

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.service.definitions.requests import RequestedRun
    from tokimori.service.reasons import Reason, Why
    from tokimori.service.runs.runs import RunDetails
    from tokimori.service.service import Service

_COLUMNS_OF_ATTEMPTS = (
    *("ATTEMPT", "OUTCOME", "HOST", "PID", "NODE", "STARTED", "ENDED"),
    *("CPU", "MEMORY", "EXIT", "ERROR"),
)
_SPARE_OF_ATTEMPTS = ("NODE", "PID", "HOST", "STARTED", "MEMORY", "CPU")
"""What a narrow terminal does without, the first one first."""

run = Group(
    "run",
    help="Runs: what became of occurrences and requests.",
    nouns={
        "list": ("tokimori.cli.run_list:list_runs", "List runs, newest first; --watch goes on."),
        "failures": ("tokimori.cli.run_failures:failures", "Show failed runs by their cause: how often, where, when."),
        "mute": ("tokimori.cli.run_failures:mute", "Mute a cause of failures for a while, for everybody."),
        "unmute": ("tokimori.cli.run_failures:unmute", "Mute a cause of failures no longer."),
        "mutes": ("tokimori.cli.run_failures:mutes", "List the causes of failures that are muted."),
        "logs": ("tokimori.cli.run_logs:logs", "Print what a run wrote; -f goes on until its end."),
        "report": ("tokimori.cli.run_report:report", "Report, from within a run, how it ended."),
        "bulk": ("tokimori.cli.bulk:bulk_runs", "Give one order for all runs that filters find, after a look at them."),
        "restart": ("tokimori.cli.run:restart_run", "End a running attempt; the run begins anew."),
        "signal": ("tokimori.cli.run:signal_run", "Tell the function of a running run a word."),
        "why": ("tokimori.cli.why:why_run", "Say what keeps a run from starting, and the command that mends it."),
    },
    sections={
        "Look": ("list", "show", "parents", "family", "logs", "why", "failures", "mutes"),
        "Order": (
            *("cancel", "restart", "signal", "hold", "resume", "approve", "refuse"),
            *("retry", "bulk", "mute", "unmute"),
        ),
        "From within a run": ("report",),
    },
    examples=(
        ("run list --job nightly --since 7d", "what became of it"),
        ("run logs 01a2141f -f", "by the beginning of its id"),
        ("run retry 01a2141f", "once more, with the same payload"),
    ),
)


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("--before", type=int, metavar="N", help="The newest attempts before number N.")
def show(run_id: str, before: int | None) -> None:
    """Show a run and its newest attempts, at most 100: host, pid, node, start and end."""

    from tokimori.model.transitions import STANDING_STILL
    from tokimori.service.views.runs import RunDetails as RunDetailsView

    async def act(service: "Service", whole: str) -> "tuple[RunDetails, Why | None]":
        found = await service.runs.get(whole, before)
        return found, await service.runs.why(whole) if found.run.state in STANDING_STILL else None

    details, why = with_run(run_id, act)
    if options().as_json:
        print_json(RunDetailsView.made(details, why=() if why is None else why.reasons))
    else:
        _print_details(details, () if why is None else why.reasons)


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
def parents(run_id: str) -> None:
    """List the runs after whose ends a run was made, with their results."""
    from tokimori.service.views.runs import ParentRun

    found = with_run(run_id, lambda service, whole: service.runs.parents(whole))
    rows = [(Id(each.id), each.job_id, State(each.state), At(each.ended, "UTC"), each.result) for each in found]
    print_found(
        [ParentRun.made(each) for each in found], ("ID", "JOB", "STATE", "ENDED", "RESULT"), rows, spare=("ENDED",)
    )


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("-n", "--limit", metavar="N", default=1_000, help="About so many runs, 20000 at most; 1000 by default.")
def family(run_id: str, limit: int) -> None:
    """Show all runs before and after a run, and those that are still to be made, as a tree."""
    from tokimori.model.dependents import Edge
    from tokimori.model.ids import JobId
    from tokimori.model.run import short_id
    from tokimori.service.jobs.graph import tree
    from tokimori.service.views.runs import FamilyMember

    found = with_run(run_id, lambda service, whole: service.runs.family(whole, limit))
    if options().as_json:
        print_json([FamilyMember.made(each) for each in found])
        return
    words = {RunState.WAITING: "to come", RunState.SKIPPED: "not made"}
    ids = {each.name: "" if each.name == each.job_id else f" {short_id(each.name)}" for each in found}
    names = {
        each.name: f"{each.job_id}{ids[each.name]} ({each.state if each.run else words[each.state]})" for each in found
    }
    edges = [
        Edge(JobId(names[before]), JobId(names[each.name]), each.on, each.joins, each.job_id)
        for each in found
        for before in each.after
    ]
    drawn = {end for edge in edges for end in edge[:2]}
    print_lines(*tree(edges), *(name for name in names.values() if name not in drawn))


_FAMILY = click.option("--family", is_flag=True, help="All runs before and after it, too: see `run family`.")


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("--reason", metavar="TEXT", default="cancelled by hand", show_default=True, help="Kept with the run.")
@_FAMILY
def cancel(run_id: str, reason: str, *, family: bool) -> None:
    """Cancel a run; if it is running, its node ends its processes."""

    from tokimori.service.runs.family import all_cancelled
    from tokimori.service.views.runs import Run as RunView

    if family:
        ended = with_run(run_id, lambda service, whole: all_cancelled(service.runs.cancel_family, whole, reason))
        lines = [f"run {each.id} of {each.job_id} {'is to be ' * (each.state not in ENDS)}cancelled" for each in ended]
        print_answer([RunView.made(each) for each in ended], *lines or ["all of its family have ended"])
        return
    cancelled = with_run(run_id, lambda service, whole: service.runs.cancel(whole, reason))
    if options().as_json:
        print_json(RunView.made(cancelled))
    elif cancelled.state is RunState.CANCELLED:
        print_lines(f"run {cancelled.id} cancelled")
    elif cancelled.state in ENDS:
        print_lines(f"run {cancelled.id} has already ended: {cancelled.state}")
    else:
        print_lines(f"run {cancelled.id} is {cancelled.state}; its node was told to end it")


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("--reason", metavar="TEXT", default="held by hand", show_default=True, help="Kept with the run.")
def hold(run_id: str, reason: str) -> None:
    """Hold a run that has not started: it waits until it is resumed."""
    _print_run(with_run(run_id, lambda service, whole: service.runs.hold(whole, reason)))


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
def resume(run_id: str) -> None:
    """Resume a held run."""
    _print_run(with_run(run_id, lambda service, whole: service.runs.resume(whole)))


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("--reason", metavar="TEXT", help="Kept with the run.")
def approve(run_id: str, reason: str | None) -> None:
    """Approve a run that waits for it: it begins when it is due."""
    _print_run(with_run(run_id, lambda service, whole: service.runs.approve(whole, reason)), "approved")


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("--reason", metavar="TEXT", help="Kept with the run.")
def refuse(run_id: str, reason: str | None) -> None:
    """Refuse a run that waits for an approval: it ends as failed."""
    _print_run(with_run(run_id, lambda service, whole: service.runs.refuse(whole, reason)), "refused")


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("--key", metavar="TEXT", help="Asking again with the same key gives the same run.")
@click.option("--force", is_flag=True, help="Even if the job is paused or parked.")
@_FAMILY
def retry(run_id: str, *, key: str | None, force: bool, family: bool) -> None:
    """Ask for a run that has ended once more, with the same payload: a new run, which names the old one."""
    from tokimori.service.views.runs import RequestedRun as RequestedRunView

    if family and key is not None:
        raise InvalidInput("key: a family has none", field="key", value=key, allowed="no key beside --family")
    if family:
        made = with_run(run_id, lambda service, whole: service.runs.retry_family(whole, force=force))
    else:
        made = [with_run(run_id, lambda service, whole: service.runs.retry(whole, key, force=force))]
    if options().as_json:
        print_json([RequestedRunView.made(each) for each in made] if family else RequestedRunView.made(made[0]))
        return
    for asked in made:
        _print_retry(asked)


def _print_retry(asked: "RequestedRun") -> None:
    from tokimori.service.definitions.requests import Became

    how = "" if asked.became is Became.MADE else f" ({asked.became})"
    print_lines(f"run {asked.run.id} {asked.run.state}{how}, a retry of {asked.run.details.retry_of}")


def _print_run(changed: "Run", how: str = "") -> None:

    from tokimori.service.views.runs import Run as RunView

    print_answer(
        RunView.made(changed),
        f"run {changed.id} {how or changed.state}" + (f": {changed.error}" if changed.error else ""),
    )


def _progress(found: "Run") -> str:
    """Return the progress as it was reported last."""
    fraction = found.details.progress
    return "" if fraction is None else f"{fraction:.0%} {found.details.progress_text or ''}".rstrip()


def _asked(found: "Run", zone: str) -> list[tuple[str, str]]:
    """Return the field with the question if it may begin, if it has asked."""
    from tokimori.model.approval import approval_text

    return [] if (asked := found.details.approval) is None else [("approval", approval_text(asked, zone))]


def _print_details(details: "RunDetails", reasons: "Sequence[Reason]") -> None:
    from tokimori.model.cause import cause_in
    from tokimori.model.run import shown_due
    from tokimori.model.statistics import cost
    from tokimori.service.reasons import reason_text

    found, zone = details.run, details.time_zone
    print_fields(
        [
            ("id", found.id),
            ("job", job_shown(found, deleted=details.is_job_deleted)),
            ("state", found.state.value),
            ("origin", found.origin),
            ("nominal", local(found.nominal, zone)),
            ("due", local(shown_due(found), zone)),
            ("created", local(found.created, zone)),
            *([("took", lasted(found.ended - found.started))] if found.started and found.ended else []),
            *([("retry of", found.details.retry_of)] if found.details.retry_of else []),
            *([("unique", found.details.unique)] if found.details.unique else []),
            *([("beside", f"{found.details.beside}, which held its key")] if found.details.beside else []),
            *([("expires", local(found.details.expires, zone))] if found.details.expires else []),
            *_asked(found, zone),
            *([("parent run", found.parent_id)] if found.parent_id else []),
            *(("then", f"{step.job}{' if it fails' if step.on_failure else ''}") for step in found.details.then),
            *([("spawned", amount(spawned.count, "run"))] if (spawned := found.details.spawned) is not None else []),
            *([("concurrency key", found.concurrency_key)] if found.concurrency_key is not None else []),
            *(("why", reason_text(reason)) for reason in reasons),
            *([("cancel asked for", found.cancel)] if found.cancel else []),
            *([("error", found.error)] if found.error and not details.attempts else []),
            *([("cause", cause)] if (cause := cause_in(found)) is not None else []),
            *([("progress", progress)] if (progress := _progress(found)) else []),
            *([("checkpoint", found.details.checkpoint)] if found.details.checkpoint is not None else []),
            *([("payload", found.payload)] if found.payload is not None else []),
            *([("result", found.result)] if found.result is not None else []),
        ]
    )
    rows = [
        (
            each.attempt.number,
            State(each.attempt.outcome),
            each.host,
            each.attempt.pid,
            Id(each.attempt.node_id),
            At(each.attempt.started, zone),
            At(each.attempt.ended, zone),
            *(part or None for part in cost(each.attempt.cpu, each.attempt.memory)),
            each.attempt.exit_code if each.attempt.signal is None else f"signal {each.attempt.signal}",
            each.attempt.error,
        )
        for each in details.attempts
    ]
    if rows:
        print_lines("")
        if details.attempts_left_out:
            print_lines(f"{details.attempts_left_out} earlier attempts are not shown: --before {rows[0][0]}", "")
        print_table(
            _COLUMNS_OF_ATTEMPTS,
            rows,
            spare=_SPARE_OF_ATTEMPTS,
        )


@click.command("restart", cls=Command)
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
def restart_run(run_id: str) -> None:
    """Restart a running run: its attempt is ended, counts for nothing, and the run begins anew on some node."""
    _print_order(with_run(run_id, lambda service, whole: service.runs.restart(whole)), "begins it anew")


@click.command("signal", cls=Command, examples=(('run signal 01a2141f reload --data \'{"level": "debug"}\'', ""),))
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.argument("name")
@click.option("--data", metavar="JSON", help="What the function gets with it.")
def signal_run(run_id: str, name: str, data: str | None) -> None:
    """Send a signal to the function of a running run, which receives it by `task.on_signal(NAME, …)`."""
    from tokimori.cli.channels import json_in

    value = None if data is None else json_in("data", data)
    _print_order(with_run(run_id, lambda service, whole: service.runs.signal(whole, name, value)), f"sends it {name}")


def _print_order(run: "Run", what: str) -> None:
    from tokimori.service.views.runs import Run as RunView

    print_answer(RunView.made(run), f"run {run.id} is {run.state}; its node {what}")
