"""`tokimori run …`. What only work needs is imported when it is used, so that help need not wait for it."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from tokimori.cli.command import Group, options
from tokimori.cli.completing import job_ids, run_ids
from tokimori.cli.ending import DONE, RUN_FAILED
from tokimori.cli.moment import AGO, past_or_none
from tokimori.cli.output import local, print_fields, print_json, print_lines, print_notice
from tokimori.cli.run_id import whole_id, with_run
from tokimori.cli.session import in_service
from tokimori.cli.table import At, Id, State, print_table
from tokimori.cli.terminal import TerminalOutput
from tokimori.model.ids import RunId, check_job_id
from tokimori.model.transitions import ENDS, RunState

if TYPE_CHECKING:
    from tokimori.model.run import Output, Run
    from tokimori.service.finding import RunSearch
    from tokimori.service.runs import RunDetails, RunSummary
    from tokimori.service.service import Service
    from tokimori.service.why.reasons import Reason, Why

Write = Callable[[bytes], None]
_COLUMNS = ("ID", "JOB", "STATE", "BY", "NOMINAL", "DUE", "STARTED", "ENDED", "EXIT", "REASON")
_COLUMNS_OF_ATTEMPTS = ("ATTEMPT", "OUTCOME", "HOST", "PID", "NODE", "STARTED", "ENDED", "EXIT", "ERROR")
_SPARE = ("NOMINAL", "BY", "ENDED", "EXIT", "DUE", "STARTED")
_SPARE_OF_ATTEMPTS = ("NODE", "PID", "HOST", "STARTED")
"""What a narrow terminal does without, the first one first."""

run = Group(
    "run",
    help="Runs: what became of occurrences and requests.",
    nouns={
        "report": ("tokimori.cli.run_report:report", "Report, from within a run, how it ended."),
        "why": ("tokimori.cli.why:why_run", "Say what keeps a run from starting, and the command that mends it."),
    },
)


@run.command("list")
@click.option("--job", "job_id", metavar="ID", shell_complete=job_ids, help="Only runs of this job.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in RunState]),
    help="Only runs in this state; may be repeated.",
)
@click.option("--job-prefix", metavar="TEXT", help="Only runs of jobs whose ids begin with this.")
@click.option("--label", multiple=True, metavar="KEY[=VALUE]", help="Of jobs with this label.")
@click.option("--owner", metavar="TEXT", help="Only runs of jobs of this owner.")
@click.option("--queue", metavar="NAME", help="Only runs of jobs of this queue.")
@click.option("--since", metavar="TIME", help=f"Only runs that were made then or later: {AGO}.")
@click.option("--until", metavar="TIME", help="Only runs that were made before, as --since.")
@click.option("-n", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@click.option("--before", metavar="RUN", help="Only runs older than this one.")
def list_runs(
    *,
    job_id: str | None,
    states: tuple[str, ...],
    count: int,
    before: str | None,
    since: str | None,
    until: str | None,
    **traits: Any,
) -> None:
    """List runs, newest first. Labels, owner and queue are those of their jobs as these are now."""

    from tokimori.model.run import asked_by
    from tokimori.service.finding import RunSearch
    from tokimori.service.views.runs import run_view

    wanted = RunSearch(
        **traits,
        job_id=None if job_id is None else check_job_id(job_id),
        state=frozenset(map(RunState, states)),
        limit=count,
    )

    async def act(service: "Service") -> "Sequence[RunSummary]":
        search = structs.replace(
            wanted,
            before=None if before is None else RunId(await whole_id(service, before, "before")),
            since=await past_or_none(service, "since", since),
            until=await past_or_none(service, "until", until),
        )
        return await service.summaries(await _found(service, search))

    runs = in_service(act)
    if options().as_json:
        print_json([run_view(each.run) for each in runs])
        return
    rows = [
        (
            Id(each.id),
            _job(each, deleted=summary.is_job_deleted),
            State(each.state.value),
            asked_by(each.origin),
            At(each.nominal, zone),
            At(each.due, zone),
            At(each.started, zone),
            At(each.ended, zone),
            each.exit_code,
            each.error,
        )
        for each, zone, summary in ((summary.run, summary.time_zone, summary) for summary in runs)
    ]
    print_table(
        ("ID", "JOB", "STATE", "BY", "NOMINAL", "DUE", "STARTED", "ENDED", "EXIT", "REASON"), rows, spare=_SPARE
    )


async def _found(service: "Service", wanted: "RunSearch") -> "list[Run]":
    """So many as are wanted, if there are: one answer looks at a bounded number of runs."""
    found = await service.find_runs(wanted)
    runs = list(found.runs)
    while found.next is not None and len(runs) < wanted.limit:
        left = structs.replace(wanted, before=found.next, limit=wanted.limit - len(runs))
        found = await service.find_runs(left)
        runs += found.runs
    return runs


def _job(run: "Run", *, deleted: bool) -> str:
    return f"{run.job_id} (deleted)" if deleted else run.job_id


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("--before", type=int, metavar="N", help="The newest attempts before number N.")
def show(run_id: str, before: int | None) -> None:
    """Show a run and its newest attempts, at most 100: host, pid, node, start and end."""

    from tokimori.model.transitions import STANDING_STILL
    from tokimori.service.views.runs import run_details_view

    async def act(service: "Service", whole: str) -> "tuple[RunDetails, Why | None]":
        found = await service.get_run(whole, before)
        return found, await service.why_run(whole) if found.run.state in STANDING_STILL else None

    details, why = with_run(run_id, act)
    if options().as_json:
        print_json(run_details_view(details, why))
    else:
        _print_details(details, () if why is None else why.reasons)


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends; exit code 1 if it did not succeed.")
@click.option("--attempt", type=int, metavar="N", help="Which attempt; the newest by default.")
@click.option("--raw", is_flag=True, help="Leave every byte as it is on a terminal too.")
def logs(run_id: str, *, follow: bool, attempt: int | None, raw: bool) -> int:
    """Print what a run wrote.

    On a terminal colours pass, and whatever else would control it is written out; a file or a pipe gets every byte.
    """

    from tokimori.service.outputs import whole as whole_output
    from tokimori.service.views.runs import output_view

    if follow and not options().as_json:
        with _output(raw=raw) as write:
            return _ending(with_run(run_id, lambda service, whole: _follow(service, whole, attempt, write)))

    async def act(service: "Service", whole: str) -> "tuple[Run | None, Output | None]":
        ended = await service.wait(whole) if follow else None
        return ended, await service.output(whole, attempt)

    ended, output = with_run(run_id, act)
    if options().as_json:
        print_json(None if output is None else output_view(output))
    elif output is not None:
        with _output(raw=raw) as write:
            write(whole_output(output))
    return DONE if ended is None else _ending(ended)


def _ending(ended: "Run") -> int:
    """The exit code after waiting for the run's end."""
    return DONE if ended.state is RunState.SUCCEEDED else RUN_FAILED


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("--reason", metavar="TEXT", default="cancelled by hand", show_default=True, help="Kept with the run.")
def cancel(run_id: str, reason: str) -> None:
    """Cancel a run; if it is running, its node ends its processes."""

    from tokimori.service.views.runs import run_view

    cancelled = with_run(run_id, lambda service, whole: service.cancel(whole, reason))
    if options().as_json:
        print_json(run_view(cancelled))
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
    _print_run(with_run(run_id, lambda service, whole: service.hold(whole, reason)))


@run.command()
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
def resume(run_id: str) -> None:
    """Resume a held run."""
    _print_run(with_run(run_id, lambda service, whole: service.resume_run(whole)))


def _print_run(changed: "Run") -> None:

    from tokimori.service.views.runs import run_view

    if options().as_json:
        print_json(run_view(changed))
    else:
        print_lines(f"run {changed.id} {changed.state}" + (f": {changed.error}" if changed.error else ""))


async def _follow(service: "Service", run_id: str, attempt: int | None, write: Write) -> "Run":
    """Print what is new until the run ends, and return it; the output of a retry follows that of the attempt before."""

    import asyncio

    from tokimori.service.runs import POLL

    position = 0
    current: int | None = attempt
    while True:
        run_now = (await service.get_run(run_id)).run
        newest = run_now.attempt if attempt is None else attempt
        current = newest if current is None else current
        begun = newest if run_now.state in ENDS else min(newest, run_now.attempt)
        for number in range(current, begun + 1):
            position = await _print_unread(service, run_id, number, position if number == current else 0, write)
        current = newest
        if run_now.state in ENDS:
            return run_now
        await asyncio.sleep(POLL)


async def _print_unread(service: "Service", run_id: str, attempt: int, position: int, write: Write) -> int:
    """Print what the attempt wrote after this position; returns the new position."""

    from tokimori.service.outputs import unread

    output = await service.output(run_id, attempt)
    if output is None:
        return position
    missed, new = unread(output, position)
    if missed:
        print_notice(f"… {missed} bytes left out …")
    write(new)
    return output.size


@contextmanager
def _output(*, raw: bool) -> Iterator[Write]:
    """Where the bytes of a run's output go; on a terminal nothing in them controls it."""
    if raw or not sys.stdout.isatty():
        yield _write
        return
    passed = TerminalOutput()
    try:
        yield lambda data: _write(passed.feed(data))
    finally:
        _write(passed.finish())


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _progress(found: "Run") -> str:
    """How far it is, as it told last."""
    fraction = found.details.progress
    return "" if fraction is None else f"{fraction:.0%} {found.details.progress_text or ''}".rstrip()


def _print_details(details: "RunDetails", reasons: "Sequence[Reason]") -> None:
    from tokimori.service.why.reasons import told

    found, zone = details.run, details.time_zone
    print_fields(
        [
            ("id", found.id),
            ("job", _job(found, deleted=details.is_job_deleted)),
            ("state", found.state.value),
            ("origin", found.origin),
            ("nominal", local(found.nominal, zone)),
            ("due", local(found.due, zone)),
            ("created", local(found.created, zone)),
            *([("parent run", found.parent_id)] if found.parent_id else []),
            *([("concurrency key", found.concurrency_key)] if found.concurrency_key is not None else []),
            *(("why", told(reason)) for reason in reasons),
            *([("cancel asked for", found.cancel)] if found.cancel else []),
            *([("error", found.error)] if found.error and not details.attempts else []),
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
            ("ATTEMPT", "OUTCOME", "HOST", "PID", "NODE", "STARTED", "ENDED", "EXIT", "ERROR"),
            rows,
            spare=_SPARE_OF_ATTEMPTS,
        )
