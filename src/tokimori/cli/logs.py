"""`tokimori logs`: what runs have written, of all nodes."""

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids
from tokimori.cli.moment import past_or_none
from tokimori.cli.output import print_json, print_lines, print_notice
from tokimori.cli.session import in_service
from tokimori.errors import NotFound
from tokimori.model.ids import RunId, check_job_id

if TYPE_CHECKING:
    from tokimori.clock import Moment
    from tokimori.model.run import Run
    from tokimori.service.service import Service

_LOOK = 1.0
"""Seconds between two looks at what runs have written since."""
_MOST_FOLLOWED = 200
"""Number of the newest runs followed at a time."""
_MOST_KNOWN = 1_000
"""Number of runs whose printed output is remembered."""
_SHORT = 13
"""Characters of a run's id that hold its millisecond."""


@click.command(cls=Command)
@click.option("--job", "job_id", metavar="ID", shell_complete=job_ids, help="Only runs of this job.")
@click.option("--since", metavar="TIME", help="Only runs that were made then or later: a time, a day, or such as 2h.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what runs write, until Ctrl-C.")
@click.option("-n", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="Of how many runs.")
def logs(*, job_id: str | None, since: str | None, follow: bool, count: int) -> None:
    """Print the output of the newest runs on all nodes.

    Each line begins with its job and its run. Of a long output the beginning and the end are stored. `tokimori run
    logs` prints one run as it is.
    """
    checked = None if job_id is None else check_job_id(job_id)

    async def act(service: "Service") -> None:
        first = await past_or_none(service, "since", since)
        printer = Printer(service)
        found = await service.runs.list(job_id=checked, since=first, limit=count)
        await printer.print(list(reversed(found.runs)))
        begun: Moment | None = None
        while follow:
            await asyncio.sleep(_LOOK)
            begun = begun or (found.runs[0].created if found.runs else await service.db.now())
            newer = await service.runs.list(job_id=checked, since=begun, limit=_MOST_FOLLOWED)
            await printer.go_on(list(reversed(newer.runs)))

    try:
        in_service(act)
    except KeyboardInterrupt:
        print_notice("")


class Printer:
    """Printer of new output: its position in each run, and the unfinished runs."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._read: dict[RunId, tuple[int, int]] = {}
        self._open: set[RunId] = set()

    async def print(self, runs: "Sequence[Run]") -> None:
        """Print the new output of these runs."""
        from tokimori.model.transitions import ENDS

        for run in runs:
            attempt, position = self._read.pop(run.id, (max(run.attempt, 1), 0))
            for number in range(attempt, run.attempt + 1):
                position = await self._print_new(run, number, position if number == attempt else 0)
            self._read[run.id] = (max(run.attempt, 1), position)
            (self._open.discard if run.state in ENDS else self._open.add)(run.id)
        while len(self._read) > _MOST_KNOWN:
            oldest = next(iter(self._read))
            del self._read[oldest]
            self._open.discard(oldest)

    async def go_on(self, newer: "Sequence[Run]") -> None:
        """Print the new output of unfinished and of new runs."""
        fresh = [run for run in newer if run.id not in self._read]
        again = []
        for run_id in sorted(self._open)[-_MOST_FOLLOWED:]:
            try:
                again.append((await self._service.runs.get(run_id)).run)
            except NotFound:  # it has ended, and its job keeps no such run
                self._open.discard(run_id)
        await self.print([*again, *fresh])

    async def _print_new(self, run: "Run", attempt: int, position: int) -> int:
        """Print the output of an attempt after this position; return the new position."""
        from tokimori.service.tasks.outputs import unread

        try:
            output = await self._service.runs.output(run.id, attempt)
        except NotFound:  # since it was listed
            return position
        if output is None:
            return position
        missed, new = unread(output, position)
        if missed:
            print_notice(f"… {missed} bytes of run {run.id} left out …")
        if new:
            _show(run, attempt, new.decode(errors="replace"))
        return output.size


def _show(run: "Run", attempt: int, text: str) -> None:
    if options().as_json:
        print_json({"job_id": run.job_id, "run_id": run.id, "attempt": attempt, "text": text})
        return
    head = f"{run.job_id} {run.id[:_SHORT] if sys.stdout.isatty() else run.id}"
    print_lines(*(f"{head} | {line}" for line in text.splitlines()))
    sys.stdout.flush()
