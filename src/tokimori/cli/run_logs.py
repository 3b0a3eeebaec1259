"""`tokimori run logs` and `tokimori job logs`"""

import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completing import job_ids, run_ids
from tokimori.cli.editor import editor_options, open_in
from tokimori.cli.ending import DONE, RUN_FAILED
from tokimori.cli.output import print_json, print_notice
from tokimori.cli.run_id import with_run
from tokimori.cli.session import in_service
from tokimori.cli.terminal import TerminalOutput
from tokimori.errors import NotFound
from tokimori.model.transitions import ENDS, RunState

if TYPE_CHECKING:
    from tokimori.model.run import Output, Run
    from tokimori.service.service import Service

_T = TypeVar("_T")
Write = Callable[[bytes], None]
Act = Callable[["Service", str], Awaitable[_T]]
"""What is done with the run of that id."""


class _CarryOut(Protocol):
    """Finds a service and the run that is meant."""

    def __call__(self, act: Act[_T], /) -> _T: ...


@click.command(cls=Command)
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends; exit code 1 if it did not succeed.")
@click.option("--attempt", type=int, metavar="N", help="Which attempt; the newest by default.")
@click.option("--raw", is_flag=True, help="Leave every byte as it is on a terminal too.")
@editor_options
def logs(run_id: str, *, follow: bool, attempt: int | None, raw: bool, editor: str | None) -> int:
    """Print what a run wrote.

    On a terminal colours pass, and whatever else would control it is written out; a file or a pipe gets every byte.
    """
    return _logs(lambda act: with_run(run_id, act), follow=follow, attempt=attempt, raw=raw, editor=editor)


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends; exit code 1 if it did not succeed.")
@click.option("--raw", is_flag=True, help="Leave every byte as it is on a terminal too.")
@editor_options
def job_logs(job_id: str, *, follow: bool, raw: bool, editor: str | None) -> int:
    """Print what the newest run of a job wrote, as `run logs` does."""

    async def with_newest(service: "Service", act: Act[_T]) -> _T:
        job = (await service.get(job_id)).id
        for run in (await service.last_runs([job], longest=0))[job]:
            print_notice(f"run {run.id} {run.state}")
            return await act(service, run.id)
        raise NotFound(f"the job {job!r} has no runs", field="id", value=job, allowed="a job that has run")

    return _logs(
        lambda act: in_service(lambda service: with_newest(service, act)),
        follow=follow,
        attempt=None,
        raw=raw,
        editor=editor,
    )


def _logs(carry_out: _CarryOut, *, follow: bool, attempt: int | None, raw: bool, editor: str | None) -> int:
    from tokimori.service.outputs import whole as whole_output
    from tokimori.service.views.runs import output_view

    if follow and editor is None and not options().as_json:
        with _output(raw=raw) as write:
            return _ending(carry_out(lambda service, whole: _follow(service, whole, attempt, write)))

    async def act(service: "Service", whole: str) -> "tuple[Run | None, Output | None]":
        ended = await service.wait(whole) if follow else None
        return ended, await service.output(whole, attempt)

    ended, output = carry_out(act)
    if options().as_json:
        print_json(None if output is None else output_view(output))
    elif editor is not None:
        file = Path(tempfile.mkdtemp(prefix="tokimori-"), "run.log")  # the editor may go on when this has ended
        file.write_bytes(b"" if output is None else whole_output(output))
        open_in(editor, file)
    elif output is not None:
        with _output(raw=raw) as write:
            write(whole_output(output))
    return DONE if ended is None else _ending(ended)


def _ending(ended: "Run") -> int:
    """Return the exit code after waiting for the run's end."""
    return DONE if ended.state is RunState.SUCCEEDED else RUN_FAILED


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
    """Yield a writer for a run's output; on a terminal nothing in it controls the terminal."""
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
