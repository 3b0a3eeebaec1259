"""Secrets: values that jobs name, and that nobody is shown again."""

import re
from collections.abc import Sequence
from typing import Final

from tokimori.errors import InvalidInput
from tokimori.model.secret import Secret
from tokimori.service.service import Service
from tokimori.spelling import amount
from tokimori.web.addresses import path
from tokimori.web.nouns import Column, Noun, Row, Table, alone, cut, filters, has, said, screens_of, when
from tokimori.web.screen import Act, Field, Given, Receipt
from tokimori.web.visit import Visit

PREFIXES: Final = "beginnings of their ids; empty: all"
_COLUMNS: Final = (Column("Name", "pa"), Column("Only for jobs", "wide pf"), Column("Set", "n pb"), Column("By", "pc"))


async def show(visit: Visit) -> Noun:
    """Return the list of secrets, without their values."""
    found, page = cut(
        visit, await visit.service.secrets.list(), lambda each: each.name, lambda each: has(visit, each.name, each.by)
    )
    empty = "There are no secrets. A job names one as `{{ secret.NAME }}`; this sets it from standard input:"
    return Noun(
        [Table("Secrets", _COLUMNS, [_row(visit, each) for each in found], empty, "tokimori secret set NAME")],
        makes=("secrets.set",),
        acts=("secrets.rotate",) if found else (),
        on="all secrets",
        filter=filters(visit, "Filter secrets"),
        page=page,
        note="Values are never shown. Runs that start from now on get the newest one.",
    )


def _row(visit: Visit, each: Secret) -> Row:
    only = ", ".join(f"{prefix}*" for prefix in each.jobs) or "all jobs"
    cells = (said(each.name, to=path("secrets", each.name)), said(only), when(visit, each.at), said(each.by))
    return Row(f"secret {each.name}", cells, ("secrets.set", "secrets.delete"), each.name)


async def page(visit: Visit) -> Noun:
    """Return the page of a secret, without its value."""
    name = visit.parts["name"]
    rows = (_row(visit, each) for each in await visit.service.secrets.list() if each.name == name)
    return alone("secret", name, _COLUMNS, next(rows, None))


def listed(text: str) -> Sequence[str]:
    """Return the words that were typed, with commas or without."""
    return [each for each in re.split(r"[\s,;]+", text) if each]


async def _set(service: Service, name: str, given: Given) -> Receipt:
    if (value := given.get("value")) is None:
        raise InvalidInput("value: nothing was typed", field="value", allowed="a text")
    await service.secrets.set(name, value, jobs=listed(given.get("jobs", "")))
    return Receipt(f"Secret {name} set")


async def _jobs(service: Service, name: str) -> Given:
    known = next((each for each in await service.secrets.list() if each.name == name), None)
    return {"jobs": "" if known is None else " ".join(known.jobs)}


async def _rotate(service: Service, name: str, given: Given) -> Receipt:
    return Receipt(f"{amount(await service.secrets.rotate(), 'secret')} encrypted with the first key")


ACTS: Final = (
    Act(
        "secrets.set",
        "Set",
        "set",
        _set,
        fields=(
            Field("value", "Value", "it is never shown again", "secret", must=True),
            Field("jobs", "Only for jobs", PREFIXES),
        ),
        makes="New secret",
        fill=_jobs,
    ),
    Act(
        "secrets.delete",
        "Delete",
        "deleted",
        sure="Runs of jobs that name it fail from now on. There is no undo.",
        back="/secrets",
    ),
    Act(
        "secrets.rotate",
        "Rotate key",
        "rotated",
        _rotate,
        sure="All are encrypted anew with the first key of the file; then its other keys may go.",
    ),
)
SCREENS: Final = screens_of("secrets", show, page)
