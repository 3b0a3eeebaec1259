"""`tokimori run logs` and `tokimori job logs`"""

import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completion import job_ids, run_ids
from tokimori.cli.editor import editor_options, open_in
from tokimori.cli.errors import DONE, RUN_FAILED
from tokimori.cli.output import TerminalOutput, print_json, print_notice
from tokimori.cli.session import in_service, with_run
from tokimori.errors import NotFound
from tokimori.model.transitions import ENDS, RunState

if TYPE_CHECKING:
    from tokimori.model.run import Output, Run
    from tokimori.service.service import Service

_T = TypeVar("_T")
Write = Callable[[bytes], None]
Act = Callable[["Service", str], Awaitable[_T]]
"""What is done with the run of that id."""

_LOOKS = 0.05
"""Seconds between two looks at a run that is followed."""

_LOOKED_AT = 100
"""Number of a job's newest runs looked at for one that has begun."""
_BEGUN = (RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED)
"""States that are looked for beyond these."""


class _How(NamedTuple):
    """Form of a printed output: the attempt (None: the newest), with times or not, raw or not."""

    attempt: int | None
    timestamps: bool
    raw: bool


class _CarryOut(Protocol):
    """Finds a service and the run that is meant."""

    def __call__(self, act: Act[_T], /) -> _T: ...


_TIMESTAMPS = click.option(
    "-t",
    "--timestamps",
    is_flag=True,
    help="Begin each line with its time (UTC); `~`: its attempt's start, as it has none.",
)


@click.command(cls=Command)
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends; exit code 1 if it did not succeed.")
@click.option("--attempt", type=int, metavar="N", help="Which attempt; the newest by default.")
@_TIMESTAMPS
@click.option("--raw", is_flag=True, help="Leave every byte as it is on a terminal too.")
@editor_options
def logs(run_id: str, *, follow: bool, attempt: int | None, timestamps: bool, raw: bool, editor: str | None) -> int:
    """Print the output of a run.

    On a terminal colours pass, and other control characters are escaped. A file or a pipe gets every byte.
    """
    how = _How(attempt=attempt, timestamps=timestamps, raw=raw)
    return _logs(lambda act: with_run(run_id, act), how, follow=follow, editor=editor)


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends; exit code 1 if it did not succeed.")
@_TIMESTAMPS
@click.option("--raw", is_flag=True, help="Leave every byte as it is on a terminal too.")
@editor_options
def job_logs(job_id: str, *, follow: bool, timestamps: bool, raw: bool, editor: str | None) -> int:
    """Print the output of the newest run of a job that has begun, as `run logs` does; with -f that of the newest."""

    async def with_newest(service: "Service", act: Act[_T]) -> _T:
        job = (await service.jobs.get(job_id)).id
        newest = (await service.runs.last([job], 1 if follow else _LOOKED_AT, longest=0))[job]
        begun = [each for each in newest if each.attempt]  # what waits has written nothing
        if len(newest) == _LOOKED_AT and not begun:
            found = await service.runs.list(job_id=job, state=_BEGUN, limit=_LOOKED_AT, longest=0)
            begun = [each for each in found.runs if each.attempt]
        if newest:
            run = (begun or newest)[0]
            print_notice(f"run {run.id} {run.state}")
            return await act(service, run.id)
        raise NotFound(f"the job {job!r} has no runs", field="id", value=job, allowed="a job that has run")

    how = _How(attempt=None, timestamps=timestamps, raw=raw)
    return _logs(lambda act: in_service(lambda service: with_newest(service, act)), how, follow=follow, editor=editor)


def _logs(carry_out: _CarryOut, how: _How, *, follow: bool, editor: str | None) -> int:
    from tokimori.service.tasks.outputs import part_of
    from tokimori.service.views.runs import OutputText

    if follow and editor is None and not options().as_json:
        with _output(raw=how.raw) as write:
            return _ending(carry_out(lambda service, whole: _follow(service, whole, how, write)))

    async def act(service: "Service", whole: str) -> "tuple[Run | None, Output | None, bytes]":
        ended = await service.runs.wait(whole) if follow else None
        output = await service.runs.output(whole, how.attempt)
        return (
            ended,
            output,
            b"" if output is None else (await part_of(service.runs, output, 0, timestamps=how.timestamps))[0],
        )

    ended, output, text = carry_out(act)
    if options().as_json:
        print_json(None if output is None else OutputText.made(output))
    elif editor is not None:
        file = Path(tempfile.mkdtemp(prefix="tokimori-"), "run.log")  # the editor may go on when this has ended
        file.write_bytes(text)
        open_in(editor, file)
    elif output is not None:
        with _output(raw=how.raw) as write:
            write(text)
    return DONE if ended is None else _ending(ended)


def _ending(ended: "Run") -> int:
    """Return the exit code after waiting for the run's end."""
    return DONE if ended.state is RunState.SUCCEEDED else RUN_FAILED


async def _follow(service: "Service", run_id: str, how: _How, write: Write) -> "Run":
    """Print new output until the run ends, and return the run. A retry's output follows that of the attempt before."""

    import asyncio

    position = 0
    current: int | None = how.attempt
    while True:
        run_now = (await service.runs.get(run_id)).run
        has_ended = run_now.state in ENDS
        newest = run_now.attempt if how.attempt is None else how.attempt
        current = newest if current is None else current
        begun = newest if has_ended else min(newest, run_now.attempt)
        for number in range(current, begun + 1):
            position, is_over = position if number == current else 0, has_ended or number < run_now.attempt
            if (output := await service.runs.output(run_id, number)) is not None:
                text, position = await _unread(service, output, position, timestamps=how.timestamps, is_over=is_over)
                write(text)
        current = newest
        if has_ended:
            return run_now
        await asyncio.sleep(_LOOKS)


async def _unread(
    service: "Service", output: "Output", position: int, *, timestamps: bool, is_over: bool
) -> tuple[bytes, int]:
    """Return the output of the attempt after this position, and the new position."""
    from tokimori.service.tasks.outputs import stamped, unread

    if timestamps:
        return await stamped(service.runs, output, position, unfinished=is_over)
    missed, new = unread(output, position)
    if missed:
        print_notice(f"… {missed} bytes left out …")
    return new, output.size


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
