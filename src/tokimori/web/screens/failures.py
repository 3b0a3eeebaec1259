"""Failures by cause: how often, of which jobs, when, and what can be done with all of one cause at once."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from tokimori.clock import DAY, HOUR, SECOND, Moment, format_moment, parse_moment
from tokimori.errors import NotFound
from tokimori.model.cause import ID, Mute
from tokimori.model.ids import JobId
from tokimori.service.runs.failures import FailureCause
from tokimori.service.runs.mutes import USUAL
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED
from tokimori.web.addresses import address, path
from tokimori.web.doing import MOST_CHOSEN
from tokimori.web.filters import chips, typed, words
from tokimori.web.pictures import histogram
from tokimori.web.run_rows import is_stock
from tokimori.web.screen import Act, Field, Given, Receipt, Screen, Shown
from tokimori.web.screens import jobs, runs
from tokimori.web.visit import Visit
from tokimori.web.words import Time, short

NAMES: Final = ("job", "queue", "owner", "label")
SHOWN: Final = 40
"""Number of causes shown unless all are asked for."""
NAMED: Final = 4
"""Number of jobs of a cause named in its line."""


class Span(NamedTuple):
    """A period up to now, and into how many parts it is counted."""

    length: int
    buckets: int
    says: str


SPANS: Final = {
    "1h": Span(HOUR, 12, "1 h, by 5 minutes"),
    "24h": Span(DAY, 24, "24 h, by hour"),
    "7d": Span(7 * DAY, 28, "7 days, by 6 hours"),
    "30d": Span(30 * DAY, 30, "30 days, by day"),
}


class CauseRow(NamedTuple):
    """A cause as the list shows it. `retry` and `pause` are the addresses that ask before they are done."""

    cause: FailureCause
    jobs: tuple[JobId, ...]
    more: int
    bars: Markup
    first: Time
    last: Time
    to: str
    sample: str | None
    retry: str
    pause: str
    line: str = ""
    """The last line of the newest of these runs that says something; empty if the cause says the same."""
    muted: str = ""
    """Until when the cause is muted, by whom and why."""


async def show(visit: Visit) -> Shown:
    """Return the causes of the failures of a period, the most frequent first."""
    if (moved := typed(visit, NAMES)) is not None:
        return moved
    chosen, span = _span(visit)
    until, looked = Moment(visit.now + SECOND), words(visit)  # all that ended until now
    since = Moment(until - span.length)
    found = await visit.service.runs.failures(
        since=since, until=until, buckets=span.buckets, before=visit.one("before"), **_filters(visit)
    )
    named = sorted((each for each in found.causes if _has(each, looked)), key=lambda each: each.muted is not None)
    causes = named if visit.one("all") else named[:SHOWN]
    most = max((number for each in causes for number in each.histogram), default=1)
    rows = [_row(visit, each, most, span, since) for each in causes]
    return {
        "causes": rows,
        "hidden": len(named) - len(causes),
        "found": found,
        "span": span,
        "spans": [
            (each.says.partition(",")[0], visit.link(span=name, before=None), name == chosen)
            for name, each in SPANS.items()
        ],
        "chips": chips(visit, NAMES),
        "more": None if found.next is None else visit.link(before=found.next),
        "first": visit.link(before=None) if visit.one("before") else None,
    }


def _span(visit: Visit) -> tuple[str, Span]:
    name = visit.one("span") or "24h"
    return (name, SPANS[name]) if name in SPANS else ("24h", SPANS["24h"])


def _filters(visit: Visit) -> dict[str, Any]:
    one = {name: visit.one(name) for name in ("queue", "owner")}
    return {"job_id": visit.one("job"), **one, "label": visit.all("label")}


def _has(cause: FailureCause, looked: Sequence[str]) -> bool:
    text = " ".join((cause.cause, cause.line, *cause.jobs)).casefold()
    return all(word in text for word in looked)


def _row(visit: Visit, cause: FailureCause, most: int, span: Span, since: Moment) -> CauseRow:
    kept = [(name, value) for name in NAMES for value in visit.all(name)]
    muted, end = cause.muted, None if cause.muted is None else visit.time(cause.muted.until)
    made = format_moment(Moment(min(since, cause.first - DAY)))
    asked = [("cause", cause.id), ("since", format_moment(since)), *kept, ("back", visit.here)]
    label = f"{cause.count} in {span.says}"
    return CauseRow(
        cause=cause,
        jobs=cause.jobs[:NAMED],
        more=cause.more_jobs + max(0, len(cause.jobs) - NAMED),
        bars=histogram(cause.histogram, most, label),
        first=visit.time(cause.first),
        last=visit.time(cause.last),
        to=address("/runs", [("cause", cause.id), ("since", made), *kept]),
        sample=path("runs", cause.sample),
        line="" if is_stock(cause.line) or cause.cause.endswith(cause.line) else cause.line,
        retry=address("/failures/retry", asked),
        pause=address("/failures/pause", asked),
        muted="" if muted is None or end is None else f"until {end.text} ({end.away}){_by(muted)}",
    )


def _by(muted: Mute) -> str:
    return f"{f' by {muted.by}' if muted.by else ''}{f': {muted.reason}' if muted.reason else ''}"


async def _mute(service: Service, cause: str, given: Given) -> Receipt:
    muted = await service.runs.mute(cause, given.get("lasts", USUAL), given.get("reason"))
    return Receipt(f"“{muted.cause}” is muted until {format_moment(muted.until)}")


async def _unmute(service: Service, cause: str, given: Given) -> Receipt:
    return Receipt(f"“{cause}” {'was not muted' if await service.runs.unmute(cause) is None else 'counts again'}")


_LASTS: Final = Field("lasts", "For", "such as 12h, 7d or 2w; at most 90 days", must=True)
_MUTED: Final = "Until then it needs nobody, and notifiers report nothing of it: for everybody. Runs and retries go on."


async def _usual(_: Service, __: str) -> Given:
    return {"lasts": USUAL}


ACTS: Final = (
    Act(
        "runs.mute",
        "Mute",
        "muted",
        _mute,
        (_LASTS, Field("reason", "Reason", "shown to everybody")),
        _MUTED,
        undo="runs.unmute",
        fill=_usual,
    ),
    Act("runs.unmute", "Unmute", "unmuted", _unmute),
)


async def ask(visit: Visit) -> Shown:
    """Ask before all failures with one cause are retried, or all jobs that failed so are paused."""
    act, cause = {"retry": RETRY, "pause": PAUSE}.get(visit.parts["verb"]), visit.one("cause") or ""
    if act is None or not ID.match(cause):
        raise NotFound("there is nothing of this kind to do with failures", field="verb", allowed="retry, pause")
    period = visit.one("since")
    since = Moment(visit.now - DAY) if period is None else parse_moment(period)
    made = Moment(max(0, since - DAY))
    found = await visit.service.runs.list(cause=cause, since=made, limit=MOST_LISTED, longest=0, **_filters(visit))
    failed = [run for run in found if (run.ended or run.created) >= since]
    pairs = ((run.id, f"{run.job_id} {short(run.id)}") if act is RETRY else (run.job_id, run.job_id) for run in failed)
    named: dict[str, str] = dict(pairs)
    if not named:
        raise NotFound("no failure with this cause is left", field="cause", value=cause)
    first = list(named)[:MOST_CHOSEN]
    empty = {field.name: "" for field in act.fields}
    names = list(named.values())
    return {"act": act, "on": first, "names": names, "back": visit.one("back"), "given": empty, "outcome": None}


RETRY: Final = next(act for act in runs.ACTS if act.name == "runs.retry")
PAUSE: Final = next(act for act in jobs.ACTS if act.name == "jobs.pause")
SCREENS: Final = (
    Screen("/failures", "failures", "failures.html", show, leads=True),
    Screen("/failures/{verb}", "failures", "ask.html", ask),
)
