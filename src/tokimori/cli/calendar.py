"""`tokimori calendar …`"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.output import print_answer, print_fields, print_json
from tokimori.cli.session import Absent, in_service
from tokimori.cli.table import listing, print_list
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.model.calendar import Calendar
    from tokimori.model.ids import JobId
    from tokimori.service.service import Service

calendar = Group("calendar", help="Calendars: named days off, which jobs share.")

_COLUMNS = ("NAME", "WEEKDAYS", "DATES", "DESCRIPTION")
_OPTIONS = (
    click.option(
        "--date", "dates", multiple=True, metavar="DATE", help="2026-12-25, 2026-12-24/2027-01-01, or 12-25 each year."
    ),
    click.option("--weekday", "weekdays", multiple=True, metavar="NAME", help="A day of the week, such as sat."),
    click.option(
        "--file", "file", type=click.Path(path_type=Path), help="A file of dates, one on each line; # begins a comment."
    ),
    click.option("--description", metavar="TEXT", help="What it is for."),
)


def _calendar_options(command: Callable[..., object]) -> Callable[..., object]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@calendar.command(cls=Command)
@click.argument("name")
@_calendar_options
def add(
    *, name: str, dates: Sequence[str], weekdays: Sequence[str], file: Path | None, description: str | None
) -> None:
    """Add a calendar of days off: dates, ranges, dates of every year, days of the week."""
    fields = _fields(dates, weekdays, file, description)
    _print("added", in_service(lambda service: service.calendars.add(name, **fields), Absent.MADE))


@calendar.command(cls=Command)
@click.argument("name")
@_calendar_options
@click.option("--unset", multiple=True, metavar="FIELD", help="Empty a field.")
def update(
    *,
    name: str,
    dates: Sequence[str],
    weekdays: Sequence[str],
    file: Path | None,
    description: str | None,
    unset: Sequence[str],
) -> None:
    """Replace the fields that are given. The jobs that use the calendar get the new days.

    If this is interrupted, the same command goes on from there.
    """
    changes = {**_fields(dates, weekdays, file, description), **dict.fromkeys(unset)}
    if not changes:
        raise InvalidInput("nothing to change", allowed="at least one field")
    _print("updated", in_service(lambda service: service.calendars.update(name, **changes)))


@calendar.command("list")
@listing(_COLUMNS)
def list_calendars() -> None:
    """List all calendars."""
    from tokimori.service.views.schedules import CalendarDetails

    print_list(
        _COLUMNS,
        [
            (each, [(each.name, " ".join(each.weekdays), len(each.dates), each.description)])
            for each in in_service(lambda service: service.calendars.list())
        ],
        CalendarDetails.made,
    )


@calendar.command()
@click.argument("name")
def show(name: str) -> None:
    """Show a calendar and the jobs that use it."""
    from tokimori.service.views.schedules import CalendarDetails

    async def act(service: "Service") -> "tuple[Calendar, Sequence[JobId]]":
        return await service.calendars.get(name), await service.calendars.jobs(name)

    found, jobs = in_service(act)
    if options().as_json:
        print_json(CalendarDetails.made(found, jobs=jobs))
        return
    print_fields(
        [
            ("name", found.name),
            ("description", found.description),
            ("weekdays", " ".join(found.weekdays)),
            *(("date", each) for each in found.dates),
            *(("job", each) for each in jobs),
        ]
    )


@calendar.command()
@click.argument("name")
def delete(name: str) -> None:
    """Delete a calendar that no job uses."""
    in_service(lambda service: service.calendars.delete(name))
    print_answer({"name": name, "deleted": True}, f"deleted {name}")


def _fields(
    dates: Sequence[str], weekdays: Sequence[str], file: Path | None, description: str | None
) -> dict[str, Any]:
    """Return the fields that were given."""
    typed = [*dates, *(_dates_in(file) if file is not None else ())]
    given = {"dates": typed, "weekdays": list(weekdays), "description": description}
    return {name: value for name, value in given.items() if value}


def _dates_in(file: Path) -> Sequence[str]:
    """Return the dates of a file, one on each line. Raises `InvalidInput`."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        message = f"file: {file} can't be read: {fault}"
        raise InvalidInput(message, field="file", value=str(file), allowed="a text file") from None
    texts = (line.partition("#")[0].strip() for line in lines)
    return [text for text in texts if text]


def _print(what: str, found: "Calendar") -> None:
    from tokimori.service.views.schedules import CalendarDetails

    print_answer(CalendarDetails.made(found), f"{what} {found.name}")
