"""One order for all jobs whose ids match a pattern: they are shown, somebody is asked, and each is done by itself."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import options
from tokimori.cli.ending import DONE, RUN_FAILED, agreed
from tokimori.cli.output import print_json, print_lines, print_notice
from tokimori.cli.progress import counting
from tokimori.cli.session import in_service
from tokimori.errors import InvalidInput, NotFound, Refused, TokimoriError

if TYPE_CHECKING:
    from tokimori.service.service import Service

Act = Callable[["Service", str], Awaitable[object]]
MOST_MATCHING = 100_000
"""So many jobs may match."""
_NAMED = 10
"""So many jobs are named before somebody is asked."""
_MOST_PASSES = 20
"""So often what was refused is tried again, while others were done: a job may have to wait for those below it."""
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
    jobs = "1 job" if len(found) == 1 else f"{len(found)} jobs"
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

    from tokimori.service.finding import every_job

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
