"""`tokimori job trigger`"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.bulk import for_each_matching, is_pattern, yes_option
from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.errors import DONE, RUN_FAILED
from tokimori.cli.moment import AHEAD, Length
from tokimori.cli.output import print_json, print_lines, print_notice
from tokimori.cli.session import in_service
from tokimori.errors import InvalidInput
from tokimori.model.attempt_notes import check_json
from tokimori.schedules.stamp import future_moment_text

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.service.definitions.requests import RequestedRun
    from tokimori.service.reasons import Reason
    from tokimori.service.service import Service


LOOK = 2.0
"""Seconds between two looks at what keeps the run from starting."""
LONGEST_LOOK, _LATER = 30.0, 1.2
"""The longest pause between two looks, and the factor by which each pause is longer than the one before."""


async def end_of(service: "Service", run_id: str, timeout: float | None) -> "Run":
    """Return the run when it has ended; each reason that keeps it from starting is printed once. Raises `Refused`.

    A moment in the future is printed at the second look only, as most waits are a short retry.
    """
    from tokimori.service.reasons import Cause, reason_text
    from tokimori.service.why.run import SOON

    loop = asyncio.get_running_loop()
    ending, began, pause = asyncio.ensure_future(service.runs.wait(run_id, timeout)), loop.time(), LOOK
    printed: set[str] = set()
    seen: set[str] = set()
    try:
        while not ending.done():
            for reason in await _reasons(service, run_id, soon=loop.time() < began + SOON):
                if reason.text not in printed and (reason.cause is not Cause.NOT_DUE or reason.text in seen):
                    printed.add(reason.text)
                    print_notice(f"run {run_id}: {reason_text(reason)}")
                seen.add(reason.text)
            await asyncio.wait({ending}, timeout=pause)
            pause = min(pause * _LATER, LONGEST_LOOK)
    finally:
        ending.cancel()
    return await ending


async def _reasons(service: "Service", run_id: str, *, soon: bool) -> "list[Reason]":
    """Return the reasons that hold the run. A run about to start has one only if that takes long."""
    from tokimori.model.transitions import STANDING_STILL
    from tokimori.service.reasons import Cause

    why = await service.runs.why(run_id)
    if why.state not in STANDING_STILL:
        return []
    return [reason for reason in why.reasons if not (soon and reason.cause is Cause.NEXT)]


@click.command(
    cls=Command,
    examples=(
        ("job trigger nightly --wait", "the exit code is the run's"),
        ('job trigger mail --payload \'{"to": "ann"}\' --key order-17', "once, however often it is asked"),
        ("job trigger nightly --at 2h", "two hours from now"),
        ("job trigger nightly --unique until_end --expires 1h", "unless one runs, and within an hour or not at all"),
    ),
)
@click.argument("job_id", metavar="ID|PATTERN", shell_complete=job_ids)
@click.option("--key", metavar="TEXT", help="Asking again with the same key gives the same run.")
@click.option(
    "--debounce",
    type=Length(),
    metavar="LENGTH",
    help="Put the key's run off until so long from now, if it has not started.",
)
@click.option("--throttle", type=Length(), metavar="LENGTH", help="At most one run of the key in this time.")
@click.option("--replace", is_flag=True, help="Change the key's run to what is asked now, if it has not started.")
@click.option(
    "--unique",
    type=click.Choice(["until_start", "until_end"]),
    help="While a run of the key (without --key: with this payload) waits, or has not ended, there is no other one.",
)
@click.option(
    "--on-duplicate",
    type=click.Choice(["same", "refuse", "replace"]),
    help="With --unique: that run answers (the default), it is an error, or the run is changed unless it has begun.",
)
@click.option("--expires", metavar="TIME", help="A run that has not begun by then is skipped: a time, as in --at.")
@click.option("--force", is_flag=True, help="Even if the job is paused or parked.")
@click.option("--payload", metavar="JSON", help="Data for the run.")
@click.option("--at", metavar="TIME", help=f"When it is due: {AHEAD}.")
@click.option("--priority", type=int, metavar="-100..100", help="Instead of the job's.")
@click.option(
    "--concurrency-key", metavar="TEXT", help="Limits how many runs of one key run at a time; instead of the job's."
)
@click.option("--parent", metavar="RUN", envvar="TOKIMORI_RUN_ID", help="The run that asks for this one.")
@click.option("--traceparent", metavar="TEXT", help="Where the run goes on in a trace; else where $TRACEPARENT says.")
@click.option("--no-parent", is_flag=True, help="No run asks for it, even if this is called within one.")
@click.option("--wait", is_flag=True, help="Wait for the run's end; exit code 1 if it did not succeed.")
@click.option("--timeout", type=Length(), metavar="LENGTH", help="How long to wait.")
@yes_option
def trigger(job_id: str, *, wait: bool, timeout: float | None, no_parent: bool, yes: bool, **asked: Any) -> int:
    """Run a job now, or at a given time. 'etl-*' means all jobs whose ids match."""
    _check_waiting(job_id, wait=wait, timeout=timeout)
    if asked["payload"] is not None:
        check_json(asked["payload"])
    if no_parent:
        asked["parent"] = None
    if asked["traceparent"] is None:
        del asked["traceparent"]
    if is_pattern(job_id):
        return for_each_matching(job_id, "trigger", "triggered", lambda s, each: _ask(s, each, asked), yes=yes)
    return _one(job_id, asked, wait=wait, timeout=timeout)


def _check_waiting(job_id: str, *, wait: bool, timeout: float | None) -> None:
    """Refuse options of waiting without --wait. Raises `InvalidInput`."""
    if timeout is not None and not wait:
        message = "timeout: it says how long to wait, and without --wait nothing waits"
        raise InvalidInput(message, field="timeout", value=timeout, allowed="--wait beside it")
    if wait and is_pattern(job_id):
        raise InvalidInput("wait: it waits for one run", field="wait", value=wait, allowed="the ID of one job")


async def _ask(service: "Service", job_id: str, asked: Mapping[str, Any]) -> "RequestedRun":
    at = asked["at"]
    moment = None if at is None else future_moment_text("at", at, await service.db.now())
    return await service.jobs.request(job_id, **{**asked, "at": moment})


def _one(job_id: str, asked: Mapping[str, Any], *, wait: bool, timeout: float | None) -> int:
    from tokimori.model.transitions import RunState
    from tokimori.service.definitions.requests import Became, RequestedRun
    from tokimori.service.views.runs import RequestedRun as RequestedRunView

    async def act(service: "Service") -> "RequestedRun":
        answer = await _ask(service, job_id, asked)
        if not wait:
            return answer
        return RequestedRun(run=await end_of(service, answer.run.id, timeout), became=answer.became)

    asked_for = in_service(act)
    run, became = asked_for.run, asked_for.became
    if options().as_json:
        print_json(RequestedRunView.made(asked_for))
    else:
        how = "" if became is Became.MADE else f" ({became})"
        print_lines(f"run {run.id} {run.state}{how}" + (f": {run.error}" if run.error else ""))
    return RUN_FAILED if wait and run.state is not RunState.SUCCEEDED else DONE
