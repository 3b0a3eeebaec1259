"""`tokimori task logs`"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.editor import editor_options, open_in
from tokimori.cli.output import announce, print_json, print_lines
from tokimori.cli.session import in_service, load
from tokimori.cli.task_keiji import log_file, log_line, log_text
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.model.task_log import LogLine
    from tokimori.service.service import Service

PAUSE = 0.5
"""Seconds between two looks at what is new."""
MOST_FOLLOWED = 20
"""So many of the newest runs are looked at each time."""


@click.command(cls=Command)
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many at most.")
@editor_options
def logs(name: str, follow: bool, lines: int, editor: str | None) -> None:
    """Print the last lines of a task's log: what its runs wrote, and what happened to it."""
    from tokimori.service.views.tasks import log_line_view

    if follow and (editor is not None or options().as_json):
        message = "follow: it prints lines for people, and opens no editor"
        raise InvalidInput(message, field="follow", allowed="neither --json nor an editor beside it")

    async def act(service: "Service") -> "tuple[str, Sequence[LogLine]]":
        zone = await _zone_of(service, name)
        if follow:
            await _follow(service, name, lines, zone)
        return zone, await service.tasks.log(name, lines)

    try:
        zone, found = in_service(act)
    except KeyboardInterrupt:
        return
    if editor is not None:
        _open(name, editor, [log_text(line, zone) for line in found])
    elif options().as_json:
        print_json([log_line_view(line) for line in found])
    else:
        print_lines(*(log_text(line, zone) for line in found))


async def _zone_of(service: "Service", name: str) -> str:
    job = (await service.tasks.get(name)).job
    return "UTC" if job is None else job.definition.time_zone


async def _follow(service: "Service", name: str, lines: int, zone: str) -> None:
    """Print the last lines, and then what comes, for ever."""
    followed = _Followed(service, name, zone)
    await followed.begin()
    for line in await service.tasks.log(name, lines):
        announce(log_text(line, zone))
    while True:
        await asyncio.sleep(PAUSE)
        await followed.look()


class _Followed:
    """Position of a follower in each attempt, and in the task's events. Bytes of a live run are kept back until their
    line ends; an ended one is printed whole, and not asked for again.
    """

    def __init__(self, service: "Service", name: str, zone: str) -> None:
        self._service = service
        self._name = name
        self._zone = zone
        self._events = 0
        self._printed: dict[tuple[str, int], int] = {}
        self._kept: dict[tuple[str, int], bytes] = {}
        self._whole: set[tuple[str, int]] = set()

    async def begin(self) -> None:
        """Count what is there now as printed."""
        from tokimori.model.transitions import ENDS

        self._events = await self._last_event()
        for run in await self._runs():
            if run.state in ENDS:
                self._whole.add((run.id, run.attempt))
            elif (output := await self._service.output(run.id, run.attempt)) is not None:
                self._printed[run.id, run.attempt] = output.size

    async def look(self) -> None:
        """Print what is new."""
        from tokimori.model.task_log import event_lines
        from tokimori.model.transitions import ENDS

        record = (await self._service.tasks.get(self._name)).record
        for event in record.events:
            if event.at > self._events:
                for line in event_lines(event):
                    announce(log_text(line, self._zone))
        self._events = record.events[-1].at if record.events else self._events
        runs = await self._runs()
        for run in reversed(runs):
            if (run.id, run.attempt) not in self._whole and (run.started is not None or run.state in ENDS):
                await self._print(run, has_ended=run.state in ENDS)
        self._whole &= {(run.id, run.attempt) for run in runs}

    async def _print(self, run: "Run", *, has_ended: bool) -> None:
        from tokimori.model.task_log import INFO, run_lines
        from tokimori.service.outputs import since

        attempt = run.id, run.attempt
        output, position = await self._service.output(*attempt), self._printed.pop(attempt, 0)
        new = b"" if output is None or output.size <= position else since(output, position)
        text = self._kept.pop(attempt, b"") + new
        if has_ended:
            self._whole.add(attempt)
            for line in run_lines(run, text):
                announce(log_text(line, self._zone))
            return
        self._printed[attempt] = position if output is None else max(position, output.size)
        whole, newline, self._kept[attempt] = text.rpartition(b"\n")
        at = await self._service.now()
        for said in (whole + newline).decode(errors="replace").splitlines():
            if said.strip():
                announce(log_line(at, INFO, said, self._zone))

    async def _runs(self) -> "Sequence[Run]":
        from tokimori.model.ids import JobId
        from tokimori.model.run import LONGEST_ERROR
        from tokimori.ports.store import RunFilter

        wanted = RunFilter(job_id=JobId(self._name), limit=MOST_FOLLOWED, longest=LONGEST_ERROR)
        return await self._service.list_runs(wanted)

    async def _last_event(self) -> int:
        events = (await self._service.tasks.get(self._name)).record.events
        return events[-1].at if events else 0


def _open(name: str, editor: str, lines: Sequence[str]) -> None:
    """Write the log to its file, and open that. Raises `Refused` where it can't be opened."""
    from tokimori.client.opening import make_state_dir

    file = log_file(load(may_ask_elsewhere=True).settings.state_dir, name)
    make_state_dir(file.parent)
    file.write_text("".join(f"{line}\n" for line in lines))
    open_in(editor, file)
