"""Expectations: what should end well every so often, here or elsewhere."""

from collections.abc import Mapping
from typing import Final

from tokimori.clock import SECOND
from tokimori.model.expectation import Expectation
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED
from tokimori.web.addresses import path
from tokimori.web.nouns import (
    MOST_BOX,
    Cell,
    Column,
    Noun,
    Row,
    Table,
    filters,
    has,
    paged,
    plain,
    said,
    screens_of,
    state,
    when,
)
from tokimori.web.screen import Act, Field, Given, Receipt
from tokimori.web.visit import Visit
from tokimori.web.words import whole_length

_NAMES: Final = {"state": ("overdue", "failed", "good"), "kind": ("job", "elsewhere")}
_COLUMNS: Final = (
    *(Column("State", "pc"), Column("Of", "pa"), Column("What it is", "wide pf"), Column("Within", "n w2")),
    *(Column("Last good end", "n pd"), Column("Expected by", "n pb")),
)
_EMPTY: Final = (
    "Nothing is expected. A job with `--expect-within` is, and what runs elsewhere and reports with `tokimori ping`:"
)
_COMMAND: Final = "tokimori expect backup-of-nas --within 25h"


async def show(visit: Visit) -> Noun:
    """Return the list of expectations, and of missed ones."""
    wrong = await _wrong(visit.service)
    words, kind = visit.all("state"), visit.one("kind")
    found, page = await paged(
        visit,
        visit.service.expectations.list,
        lambda each: each.name,
        lambda each: (
            has(visit, each.name, each.description)
            and (not words or _word(wrong, each) in words)
            and kind in (None, "job" if each.of_job else "elsewhere")
        ),
    )
    rows = [_row(visit, each, _word(wrong, each)) for each in found]
    return Noun(
        [Table("Expectations", _COLUMNS, rows, _EMPTY, _COMMAND)],
        makes=("expectations.set",),
        filter=filters(visit, "Filter expectations", _NAMES),
        page=page,
    )


def _word(wrong: Mapping[str, str], each: Expectation) -> str:
    """Return the state of an expectation. A reported failure counts before a node has looked."""
    has_failed = each.failed is not None and each.failed > (each.good or 0)
    return wrong.get(each.name, "failed" if has_failed else "good")


async def _wrong(service: Service) -> dict[str, str]:
    return {each.name: each.kind.value for each in await service.expectations.alarms(limit=MOST_LISTED)}


def _state(word: str) -> Cell:
    return state("ran", "good") if word == "good" else state(word)


def _row(visit: Visit, each: Expectation, word: str) -> Row:
    cells = (
        _state(word),
        said(each.name, to=path("jobs" if each.of_job else "expectations", each.name)),
        said("job" if each.of_job else each.description),
        said(_within(each)),
        when(visit, each.good),
        when(visit, each.expected_by),
    )
    return Row(f"expectation {each.name}", cells, () if each.of_job else ("expectations.ping",), each.name)


def _within(each: Expectation) -> str:
    return whole_length(round(each.within * SECOND))


async def page(visit: Visit) -> Noun:
    """Return the page of an expectation, with its last report."""
    each = await visit.service.expectations.get(visit.parts["name"])
    word = _word(await _wrong(visit.service), each)
    name = plain(each.name)
    moments = {
        **{"Last good end": each.good, "Expected by": each.expected_by},
        **{"Started": each.started, "Failed": each.failed, "Expected since": each.since},
    }
    boxes = [("It said last", plain(each.log, MOST_BOX))] if each.log else []
    return Noun(
        name=name,
        says=(_state(word), said(each.description), said(f"a good end every {_within(each)}", "q")),
        acts=() if each.of_job else ("expectations.ping", "expectations.set", "expectations.delete"),
        on=each.name,
        facts=[(head, when(visit, at)) for head, at in moments.items()],
        boxes=[*boxes, ("It reports with", f"tokimori ping {name}")],
    )


async def _set(service: Service, name: str, given: Given) -> Receipt:
    await service.expectations.set(name, given.get("within", ""), description=given.get("description"))
    return Receipt(f"{name} is expected", path("expectations", name))


async def _current_values(service: Service, name: str) -> Given:
    each = await service.expectations.get(name)
    return {"within": f"{each.within:g}s", "description": each.description or ""}


async def _ping(service: Service, name: str, given: Given) -> Receipt:
    await service.expectations.ping(name, given.get("report", "ok"), given.get("log"))
    return Receipt(f"Report of {name} kept", path("expectations", name))


ACTS: Final = (
    Act(
        "expectations.ping",
        "Report",
        "reported",
        _ping,
        fields=(
            Field(
                "report",
                "It",
                "ok: it ended well; start: it begins; fail: it failed",
                "choice",
                ("ok", "start", "fail"),
            ),
            Field("log", "Says", "what it says of itself", "area"),
        ),
    ),
    Act(
        "expectations.set",
        "Change",
        "set",
        _set,
        fields=(
            Field("within", "Within", "at least so often it reports a good end, such as 25h", must=True),
            Field("description", "What it is"),
        ),
        makes="Expect something",
        fill=_current_values,
    ),
    Act(
        "expectations.delete",
        "Delete",
        "deleted",
        sure="Nothing is expected of it any more.",
        back="/expectations",
    ),
)
SCREENS: Final = screens_of("expectations", show, page, "{name}", names=_NAMES)
