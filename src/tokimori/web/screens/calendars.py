"""Calendars: named days off, which jobs share."""

from collections.abc import Mapping
from typing import Any, Final

from tokimori.model.calendar import Calendar, days_off_of
from tokimori.schedules.days import date_of, day_of
from tokimori.schedules.zones import on_clocks
from tokimori.service.service import Service
from tokimori.spelling import amount
from tokimori.web.addresses import path
from tokimori.web.nouns import Column, Noun, Row, Table, cut, filters, has, job_table, plain, said, screens_of
from tokimori.web.screen import Act, Field, Given, Receipt
from tokimori.web.screens.secrets import listed
from tokimori.web.visit import Visit

_COLUMNS: Final = (
    Column("Name", "pa"),
    Column("Weekdays", "pc"),
    Column("Dates", "n w1"),
    Column("Next day off", "n pb"),
    Column("Description", "wide pf"),
)
_YEAR: Final = 366
"""Days in which the next day off is looked for."""
_EMPTY: Final = "There are no calendars. A job keeps off the days of one with `--calendar NAME`; this makes one:"
_COMMAND: Final = "tokimori calendar add holidays --date 12-25 --date 2027-01-01 --weekday sun"


async def show(visit: Visit) -> Noun:
    """Return the list of calendars."""
    known = await visit.service.calendars.list()
    found, page = cut(visit, known, lambda each: each.name, lambda each: has(visit, each.name, each.description))
    rows = [_row(visit, each) for each in found]
    return Noun(
        [Table("Calendars", _COLUMNS, rows, _EMPTY, _COMMAND)],
        makes=("calendars.add",),
        filter=filters(visit, "Filter calendars"),
        page=page,
    )


def _row(visit: Visit, each: Calendar) -> Row:
    cells = (
        said(each.name, to=path("calendars", each.name)),
        said(", ".join(each.weekdays)),
        said(len(each.dates) or ""),
        said(_next(visit, each)),
        said(each.description),
    )
    return Row(f"calendar {each.name}", cells)


def _next(visit: Visit, each: Calendar) -> str:
    """Return the next day off of the coming year, from today on, by the clocks of the reader; empty for none."""
    today = on_clocks(visit.zone_of(visit.service.time_zone), visit.now).date()
    first = day_of(today.year, today.month, today.day)
    found = days_off_of(each).next_off(first, first + _YEAR)
    if found is None or found == first:
        return "" if found is None else "today"
    return f"{date_of(found):%a} {date_of(found).day} {date_of(found):%b %Y}"


async def page(visit: Visit) -> Noun:
    """Return the page of a calendar, with the jobs that use it."""
    each = await visit.service.calendars.get(visit.parts["name"])
    jobs = await visit.service.calendars.jobs(each.name)
    name = plain(each.name)
    nobody = "No job of those that you see keeps off these days. One that does:"
    return Noun(
        [job_table("Jobs that keep off these days", jobs, nobody, f"tokimori job update JOB --calendar {name}")],
        name=name,
        says=(
            said(each.description),
            said(f"{amount(len(each.dates), 'date')} off" if each.dates else "", "q"),
        ),
        acts=("calendars.update", "calendars.delete"),
        on=each.name,
        facts=(("Weekdays off", said(", ".join(each.weekdays))),) if each.weekdays else (),
        boxes=(("Dates off", plain("\n".join(each.dates), 20_000)),) if each.dates else (),
    )


async def _add(service: Service, name: str, given: Given) -> Receipt:
    await service.calendars.add(name, **_typed(given))
    return Receipt(f"Calendar {name} added", path("calendars", name))


async def _update(service: Service, name: str, given: Given) -> Receipt:
    await service.calendars.update(name, **_typed(given))
    return Receipt(f"Calendar {name} changed: its jobs keep the new days", path("calendars", name))


def _typed(given: Given) -> Mapping[str, Any]:
    days = {name: listed(given.get(name, "")) for name in ("dates", "weekdays")}
    return {**days, "description": given.get("description")}


async def _current_values(service: Service, name: str) -> Given:
    each = await service.calendars.get(name)
    return {
        "dates": "\n".join(each.dates),
        "weekdays": " ".join(each.weekdays),
        "description": each.description or "",
    }


_FIELDS: Final = (
    Field("dates", "Dates", "a line each: 2026-12-25, 2026-12-24/2027-01-01, or 12-25 of each year", "area"),
    Field("weekdays", "Weekdays", "such as sat sun"),
    Field("description", "Description", "what it is for"),
)
ACTS: Final = (
    Act("calendars.add", "Add", "added", _add, fields=_FIELDS, makes="New calendar"),
    Act("calendars.update", "Change", "changed", _update, fields=_FIELDS, fill=_current_values),
    Act("calendars.delete", "Delete", "deleted", sure="There is no undo.", back="/calendars"),
)
SCREENS: Final = screens_of("calendars", show, page, "{name}")
