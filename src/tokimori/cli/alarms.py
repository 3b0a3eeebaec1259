"""`tokimori alarms`, `expect` and `ping`: what should have ended well, here or elsewhere."""

import os
import sys
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

import click

from tokimori.cli.command import Command
from tokimori.cli.moment import Length
from tokimori.cli.output import print_answer
from tokimori.cli.session import Absent, in_service
from tokimori.cli.table import At, Row, listing, print_found, print_list

if TYPE_CHECKING:
    from tokimori.model.expectation import Alarm, Expectation
    from tokimori.service.service import Service

_MOST_LOG = 100_000
"""Number of the last bytes of standard input that are reported; the service stores the end of them."""
_CHUNK = 65_536


_COLUMNS = ("ALARM", "OF", "NAME", "SINCE", "EXPECTED BY", "LAST GOOD END", "LOG")


@click.command(cls=Command)
@listing(_COLUMNS)
def alarms() -> None:
    """List overdue good ends: of jobs with --expect-within, and of things that run elsewhere."""
    from tokimori.service.views.alarms import Alarm as AlarmView

    async def act(service: "Service") -> "tuple[str, Sequence[Alarm]]":
        found: list[Alarm] = []
        after: str | None = None
        while page := await service.expectations.alarms(after):
            found, after = [*found, *page], page[-1].name
        return service.time_zone, found

    zone, found = in_service(act)
    print_list(_COLUMNS, [(each, [_row(each, zone)]) for each in found], AlarmView.made)


def _row(each: "Alarm", zone: str) -> Row:
    return (
        each.kind.value,
        "job" if each.of_job else "elsewhere",
        each.name,
        At(each.since, zone),
        At(each.expected_by, zone),
        At(each.last_good, zone),
        next(reversed((each.log or "").splitlines()), None),
    )


@click.command(cls=Command)
@click.argument("name", metavar="[ID]", required=False)
@click.option("--within", type=Length(), metavar="LENGTH", help="At least so often it reports a good end, such as 25h.")
@click.option("--description", metavar="TEXT", help="What it is, for people.")
@click.option("--never", is_flag=True, help="Expect nothing of it any more.")
def expect(name: str | None, within: float | None, description: str | None, never: bool) -> None:
    """Expect something that runs elsewhere to report with `tokimori ping`.

    Without ID list the expectations. A report that does not come in time raises an alarm. For a job use
    --expect-within instead.
    """
    if name is None:
        if within is not None or description is not None or never:
            raise click.UsageError("Give the name of the expectation.")
        _list()
    elif never:
        if within is not None or description is not None:
            raise click.UsageError("Give --never alone.")
        _never(name)
    else:
        _show_or_set(name, within, description)


def _list() -> None:
    from tokimori.service.views.alarms import Expectation as ExpectationView

    async def act(service: "Service") -> "tuple[str, Sequence[Expectation]]":
        found: list[Expectation] = []
        after: str | None = None
        while page := await service.expectations.list(after):
            found, after = [*found, *page], page[-1].name
        return service.time_zone, found

    zone, found = in_service(act)
    rows = [
        (
            each.name,
            "job" if each.of_job else "elsewhere",
            f"{each.within:.15g} s",
            At(each.good, zone),
            At(each.expected_by, zone),
            each.description,
        )
        for each in found
    ]
    print_found(
        [ExpectationView.made(each) for each in found],
        ("NAME", "OF", "WITHIN", "LAST GOOD END", "EXPECTED BY", "DESCRIPTION"),
        rows,
    )


def _never(name: str) -> None:
    in_service(lambda service: service.expectations.delete(name))
    print_answer({"name": name, "deleted": True}, f"nothing is expected of {name} any more")


def _show_or_set(name: str, within: float | None, description: str | None) -> None:
    async def act(service: "Service") -> "Expectation":
        if within is None and description is None:
            return await service.expectations.get(name)
        span = (await service.expectations.get(name)).within if within is None else within
        return await service.expectations.set(name, span, description=description)

    _print_expectation(in_service(act, Absent.REFUSED if within is None else Absent.MADE))


@click.command(cls=Command)
@click.argument("name", metavar="ID")
@click.option("--start", is_flag=True, help="It begins now.")
@click.option("--fail", is_flag=True, help="It has failed: there is an alarm within seconds.")
@click.option("--log", "log", metavar="TEXT", help="What it says of itself; - reads it from standard input.")
def ping(name: str, start: bool, fail: bool, log: str | None) -> None:
    """Report that something that runs elsewhere has ended well, or that it starts or has failed.

    Use it behind the command: `backup.sh && tokimori ping backup`.
    """
    if start and fail:
        raise click.UsageError("Give --start or --fail.")
    text = None if log is None else _end_of(sys.stdin.buffer if log == "-" else BytesIO(os.fsencode(log)))
    report = "start" if start else "fail" if fail else "ok"
    _print_expectation(in_service(lambda service: service.expectations.ping(name, report, text)))


def _end_of(stream: BinaryIO) -> str:
    """Return the end of the stream. All of it is read, so that its writer does not fail at a closed pipe."""
    end = b""
    while more := stream.read(_CHUNK):
        end = (end + more)[-_MOST_LOG:]
    return end.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _print_expectation(known: "Expectation") -> None:
    from tokimori.cli.output import local
    from tokimori.service.views.alarms import Expectation as ExpectationView

    by = f"{known.name} is expected to end well by {local(known.expected_by, 'UTC')}"
    print_answer(
        ExpectationView.made(known),
        f"{known.name} has failed: there is an alarm until it ends well" if known.has_failed else by,
    )
