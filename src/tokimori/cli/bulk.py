"""One order for many jobs or runs: all that filters find (`bulk`), or all jobs whose ids match a pattern."""

import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import Command, options
from tokimori.cli.errors import DONE, RUN_FAILED, agreed
from tokimori.cli.moment import AGO, past_or_none
from tokimori.cli.output import print_answer, print_json, print_lines, print_notice
from tokimori.cli.progress import counting
from tokimori.cli.session import in_service
from tokimori.errors import InvalidInput, NotFound, Refused, TokimoriError
from tokimori.model.attempt_notes import check_json
from tokimori.spelling import amount

if TYPE_CHECKING:
    from tokimori.service.bulk import Bulk
    from tokimori.service.service import Service

Act = Callable[["Service", str], Awaitable[object]]
MOST_MATCHING = 100_000
"""Number of jobs that may match."""
_NAMED = 10
"""Number of jobs named before somebody is asked."""
_MOST_PASSES = 20
"""Number of tries after a refusal, while others were done: a job may have to wait for those below it."""
_SIGNS = "*?["
"""What no id holds."""

yes_option = click.option("--yes", is_flag=True, help="With a pattern such as 'etl-*': do not ask.")


def is_pattern(text: str) -> bool:
    """Return whether several jobs are meant: `*` is any text, `?` any character, `[ab]` one of these."""
    return any(sign in text for sign in _SIGNS)


def for_each_matching(pattern: str, verb: str, done: str, act: Act, *, yes: bool) -> int:
    """Act on all jobs whose ids match; return the exit code. `verb` and `done` name the action before and after.

    Raises `NotFound` if none matches, and `Refused` if the user can't be asked.
    """
    found = in_service(lambda service: _matching(service, pattern))
    if not found:
        message = f"no job's id matches {pattern!r}"
        raise NotFound(message, field="id", value=pattern, allowed="an id, or a pattern such as 'etl-*'")
    confirm(found, verb, field="id", yes=yes)
    ids, refused = in_service(lambda service: _carried_out(service, found, verb, act))
    if options().as_json:
        print_json({"jobs": ids, "refused": refused})
    else:
        print_lines(*(f"{done} {job_id}" for job_id in ids))
        for job_id, why in refused.items():
            print_notice(f"{job_id} was left as it is: {why}")
    return RUN_FAILED if refused else DONE


def confirm(found: Sequence[str], verb: str, *, field: str, yes: bool) -> None:
    """Show the jobs and ask. Raises `Declined`, and `Refused` if the user can't be asked."""
    jobs = amount(len(found), "job")
    if not yes and not sys.stdin.isatty():
        message = f"{field}: this would {verb} {jobs}, and nobody can be asked here: say --yes"
        raise Refused(message, field=field, allowed="--yes, or a terminal")
    print_notice(f"{jobs}: {', '.join(found[:_NAMED])}{', …' if len(found) > _NAMED else ''}")
    if not yes:
        what = "it" if len(found) == 1 else "all of them"
        agreed(f"{verb.capitalize()} {what}?")


async def _matching(service: "Service", pattern: str) -> list[str]:
    """Return the ids that match. Only jobs are looked at whose ids begin as the pattern does. Raises `InvalidInput`."""
    from fnmatch import fnmatchcase

    from tokimori.service.search.jobs import every_job

    beginning = pattern[: min(pattern.find(sign) for sign in _SIGNS if sign in pattern)]
    ids: list[str] = []
    async for job in every_job(service.jobs.list, prefix=beginning or None):
        ids += [job.id] if fnmatchcase(job.id, pattern) else []
        if len(ids) > MOST_MATCHING:
            message = f"id: more than {MOST_MATCHING} jobs match {pattern!r}"
            raise InvalidInput(message, field="id", value=pattern, allowed="a pattern that fewer jobs match")
    return ids


async def _carried_out(
    service: "Service", found: Sequence[str], verb: str, act: Act
) -> tuple[list[str], Mapping[str, str]]:
    """Return the ids for which it succeeded, and by id the errors of the others."""
    left, done = list(found), set[str]()
    refused: dict[str, str] = {}
    with counting(verb, "jobs") as advance:
        for _ in range(_MOST_PASSES):
            again: list[str] = []
            for job_id in left:
                try:
                    await act(service, job_id)
                    done.add(job_id)
                    refused.pop(job_id, None)
                except TokimoriError as fault:
                    refused[job_id] = fault.message
                    again += [job_id] if isinstance(fault, Refused) else []  # a store that is away may have done it
                advance(len(done), len(found))
            if len(again) in (0, len(left)):
                break
            left = again
    return [job_id for job_id in found if job_id in done], refused


_everything = click.option("--everything", is_flag=True, help="All there are.")
_reason = click.option("--reason", metavar="TEXT", help="Kept with each of them.")
_dry_run = click.option("--dry-run", is_flag=True, help="Only count them, and show the first ones.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_label = click.option("--label", multiple=True, metavar="KEY[=VALUE]", help="Of jobs with this label.")
_owner = click.option("--owner", metavar="TEXT", help="Of jobs of this owner.")
_queue = click.option("--queue", metavar="NAME", help="Of jobs of this queue.")
_ids = click.argument("ids", metavar="[ID]…", nargs=-1)


@click.command(
    "bulk",
    cls=Command,
    examples=(
        ("job bulk pause --label team=data --reason repairs", "all jobs with a label, after a look at them"),
        ("job bulk resume --prefix etl- --yes", "without being asked"),
    ),
)
@click.argument("verb", type=click.Choice(["pause", "resume", "trigger", "delete"]))
@_ids
@click.option("--state", multiple=True, metavar="STATE", help="Only jobs in this state; may be repeated.")
@click.option("--prefix", metavar="TEXT", help="Only jobs whose ids begin with this.")
@_label
@_owner
@_queue
@_everything
@_reason
@click.option("--payload", metavar="JSON", help="Of the runs that are triggered.")
@_dry_run
@_yes
def bulk_jobs(verb: str, ids: tuple[str, ...], *, dry_run: bool, yes: bool, **said: Any) -> int:
    """Pause, resume, trigger or delete all jobs that the filters find.

    Their number is shown and confirmed first. Each job is changed and recorded separately.
    """
    if said["payload"] is not None:
        check_json(said["payload"])
    said |= {"ids": list(ids) or None, "key": f"bulk-{secrets.token_hex(8)}"}

    async def act(service: "Service", **more: Any) -> "Bulk":
        return await service.jobs.bulk(verb, **said, **more)

    return _ordered(verb, "job", "after", act, dry_run=dry_run, yes=yes)


@click.command(
    "bulk",
    cls=Command,
    examples=(
        ("run bulk retry --cause 3f2a9b1c04de --since 1d", "what failed with one cause, as `run failures` names it"),
        ("run bulk cancel --queue mail --state waiting --yes", "without being asked"),
    ),
)
@click.argument("verb", type=click.Choice(["cancel", "hold", "resume", "retry"]))
@_ids
@click.option("--job", "job_id", metavar="ID", help="Only runs of this job.")
@click.option("--job-prefix", metavar="TEXT", help="Only runs of jobs whose ids begin with this.")
@click.option("--state", multiple=True, metavar="STATE", help="Only runs in this state; may be repeated.")
@_label
@_owner
@_queue
@click.option("--since", metavar="TIME", help=f"Only runs that were made then or later: {AGO}.")
@click.option("--until", metavar="TIME", help="Only runs that were made before, as --since.")
@click.option("--cause", metavar="TEXT", help="Only failures with this cause, or with that of this id.")
@click.option("--contains", "text", metavar="TEXT", help="Only with this text in the payload, error, result or output.")
@click.option("--node", metavar="TEXT", help="Only if the newest attempt is at the node of this id or host.")
@click.option("--duration-over", metavar="LENGTH", help="Only if the newest attempt has lasted longer.")
@_everything
@_reason
@_dry_run
@_yes
def bulk_runs(
    verb: str, ids: tuple[str, ...], *, since: str | None, until: str | None, dry_run: bool, yes: bool, **said: Any
) -> int:
    """Cancel, hold, resume or retry all runs that the filters find.

    Their number is shown and confirmed first. The default of --state fits the verb: failed runs for `retry`, say.
    """

    async def act(service: "Service", **more: Any) -> "Bulk":
        times: dict[str, Any] = {
            "since": await past_or_none(service, "since", since),
            "until": await past_or_none(service, "until", until),
        }
        named = [await service.runs.whole_id(each) for each in ids] or None
        return await service.runs.bulk(verb, ids=named, **said, **times, **more)

    return _ordered(verb, "run", "before", act, dry_run=dry_run, yes=yes)


def _ordered(verb: str, noun: str, place: str, act: Any, *, dry_run: bool, yes: bool) -> int:
    """Show the number, ask, and act until all are done; return the exit code."""
    preview: Bulk = in_service(lambda service: act(service, dry_run=True))
    if dry_run:
        print_answer(preview, _count_text(preview, noun), *preview.ids)
        return DONE
    if preview.count:
        _confirm(preview, verb, noun, yes=yes)
    pieces: list[Bulk] = [] if not preview.count else in_service(lambda service: _all(service, act, place))
    ids, kept = (
        [each for piece in pieces for each in piece.ids],
        {k: v for piece in pieces for k, v in piece.kept.items()},
    )
    if options().as_json:
        print_json({"ids": ids, "kept": kept, "runs": [run for piece in pieces for run in piece.runs]})
        return RUN_FAILED if kept else DONE
    print_lines(
        f"{verb}: {len(ids)} of {preview.count} {noun}s; {sum(each.unchanged for each in pieces)} were so already"
    )
    for each, why in kept.items():
        print_notice(f"{each} was left as it is: {why}")
    if pieces and pieces[0].undo and ids:
        some = " ".join(ids[:3]) + (" …" if len(ids) > 3 else "")
        print_notice(f"`tokimori {noun} bulk {pieces[0].undo} {some}` takes it back")
    return RUN_FAILED if kept else DONE


async def _all(service: "Service", act: Any, place: str) -> "list[Bulk]":
    pieces: list[Bulk] = [await act(service)]
    while (rest := pieces[-1].next) is not None:
        pieces.append(await act(service, **{place: rest}))
    return pieces


def _confirm(preview: "Bulk", verb: str, noun: str, *, yes: bool) -> None:
    """Show the selection, and ask. Raises `Declined`, and `Refused` if the user can't be asked."""
    if not yes and not sys.stdin.isatty():
        message = f"{verb}: this would {verb} {_count_text(preview, noun)}, and nobody can be asked here: say --yes"
        raise Refused(message, field="yes", allowed="--yes, or a terminal")
    shown = preview.ids[:10]
    print_notice(f"{_count_text(preview, noun)}: {', '.join(shown)}{', …' if preview.count > len(shown) else ''}")
    if not yes:
        agreed(f"{verb.capitalize()} {'it' if preview.count == 1 else 'all of them'}?")


def _count_text(preview: "Bulk", noun: str) -> str:
    more = "at least " if preview.more else ""
    return f"{more}{amount(preview.count, noun)}"
