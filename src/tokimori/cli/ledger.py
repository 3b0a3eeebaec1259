"""`tokimori job ledger` and `tokimori verify`: what became of each occurrence, and whether all of it fits."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.errors import DONE, RUN_FAILED
from tokimori.cli.moment import past_or_none
from tokimori.cli.output import local, print_json, print_lines, print_notice
from tokimori.cli.progress import counting
from tokimori.cli.session import in_service
from tokimori.cli.table import Short, print_table
from tokimori.clock import Moment
from tokimori.errors import NotFound
from tokimori.spelling import amount

if TYPE_CHECKING:
    from tokimori.model.job import Job
    from tokimori.model.ledger import LedgerLine
    from tokimori.service.jobs.ledger import Verified
    from tokimori.service.service import Service

PAGE = 1_000

_first = click.option("--from", "first", metavar="TIME", help="The first moment, or how long ago; the oldest known.")
_last = click.option("--to", "last", metavar="TIME", help="The last moment, or how long ago; now by default.")


@click.command("ledger", cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@_first
@_last
@click.option("-n", "count", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="How many.")
def ledger(job_id: str, first: str | None, last: str | None, count: int) -> None:
    """Show the fate of each occurrence of a job's schedule: its run, or the reason that there is none.

    With `-o jsonl` each line is a JSON object.
    """
    from tokimori.service.views.jobs import LedgerLine as LineView

    async def act(service: "Service") -> "tuple[Job, list[LedgerLine], Moment | None]":
        since, until = await _range(service, first, last)
        lines: list[LedgerLine] = []
        left, page = count, await service.jobs.ledger(job_id, since, until, min(count, PAGE))
        while True:
            lines += page.lines
            left -= sum(line.count for line in page.lines)
            if page.next is None or left <= 0:
                return await service.jobs.get(job_id), lines, page.next
            page = await service.jobs.ledger(job_id, page.next, until, min(left, PAGE))

    job, lines, following = in_service(act)
    if options().as_json:
        print_json([LineView.made(line) for line in lines])
        return
    zone = job.definition.time_zone
    print_table(("FIRST", "LAST", "COUNT", "BECAME", "RUN"), [_row(line, zone) for line in lines])
    if following is not None:
        print_notice(f"there are more, from {local(following, zone)} on: --from and -n say which")


def _row(line: "LedgerLine", zone: str) -> tuple[object, ...]:
    last = "" if line.count == 1 else local(line.last, zone)
    became = line.fate.value if line.reason is None else f"{line.fate.value}: {line.reason}"
    became = became if line.state is None else f"{became}, {line.state.value}"
    return local(line.first, zone), last, line.count, became, Short(line.run_id)


async def _range(service: "Service", first: str | None, last: str | None) -> tuple[Moment | None, Moment | None]:
    return await past_or_none(service, "from", first), await past_or_none(service, "to", last)


@click.command("verify", cls=Command)
@click.argument("job_ids", metavar="[ID]…", nargs=-1, shell_complete=job_ids)
@_first
@_last
def verify(job_ids: tuple[str, ...], first: str | None, last: str | None) -> int:
    """Check that each occurrence of these jobs, or of all, is a run or a skip, or was pruned.

    Others are listed, and the exit code is then 1. Occurrences before a job's last change can't be checked, as its old
    schedule is not stored.
    """
    from tokimori.service.views.jobs import Verified as VerifiedView

    async def act(service: "Service") -> "list[Verified]":
        since, until = await _range(service, first, last)
        found: list[Verified] = []
        async for part in _verified(service, job_ids, since, until):
            found.append(part)
            advance(sum(sum(each.fates.values()) for each in found), None)
        return found

    with counting("verify", "occurrences") as advance:
        found = in_service(act)
    wrong = sum(each.wrong for each in found)
    if options().as_json:
        print_json([VerifiedView.made(each) for each in found])
    else:
        _print_verified(found, wrong)
    return RUN_FAILED if wrong else DONE


async def _verified(
    service: "Service", job_ids: Sequence[str], since: Moment | None, until: Moment | None
) -> "AsyncIterator[Verified]":
    """Return the parts of these jobs, or of all."""
    from tokimori.service.search.jobs import every_job

    for job_id in job_ids:
        async for part in _parts(service, job_id, since, until):
            yield part
    if not job_ids:
        async for job in every_job(service.jobs.list):
            with suppress(NotFound):  # somebody has deleted it meanwhile
                async for part in _parts(service, job.id, since, until):
                    yield part


async def _parts(
    service: "Service", job_id: str, since: Moment | None, until: Moment | None
) -> "AsyncIterator[Verified]":
    part = await service.jobs.verify(job_id, since, until)
    yield part
    while (following := part.next) is not None:
        yield (part := await service.jobs.verify(job_id, following, until))


def _print_verified(found: "list[Verified]", wrong: int) -> None:
    total: Counter[str] = Counter()
    for each in found:
        total.update(each.fates)
        for line in each.faults:
            print_lines(f"{each.job_id}: {local(line.first, 'UTC')} {line.fate.value} {line.run_id or ''}".rstrip())
    jobs = len({each.job_id for each in found})
    counts_text = ", ".join(f"{count:,} {fate}" for fate, count in sorted(total.items())) or "none"
    print_lines(f"occurrences of {amount(jobs, 'job')}: {counts_text}")
    print_lines(f"{wrong:,} do not fit" if wrong else "all of them fit")
