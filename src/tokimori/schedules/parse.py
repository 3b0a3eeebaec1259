"""The one door for schedule texts: it finds the notation and gives the text to that notation's file."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.combined import union, without
from tokimori.schedules.cron import MACROS, is_row, parse_cron, parse_row
from tokimori.schedules.days import FIRST_DAY
from tokimori.schedules.fluent import is_phrase, parse_phrase
from tokimori.schedules.intervals import (
    Every,
    Repeating,
    counted_from,
    parse_every,
    parse_every_duration,
    parse_once,
    parse_repeating,
)
from tokimori.schedules.schedule import Fold, Gap, OnDemand, Reboot, Schedule
from tokimori.schedules.zoned import ZoneRules
from tokimori.schedules.zones import check_zone

MOST_CHARACTERS, MOST_MEMBERS = 4_096, 64
"""Largest text in characters, and number of schedules united in it, and of those excluded."""
_EPOCH = Moment(0)
_BEFORE_ALL = Moment(FIRST_DAY * DAY)
_SEPARATOR = re.compile(r"[;\n]")
_SPREAD = re.compile(r"(?<![A-Z])H(?![A-Z])", re.IGNORECASE)
_EXCEPT = re.compile(r"\bexcept\b", re.IGNORECASE)
_OF_AWS = re.compile(r"(cron|rate|at)\((.*)\)\Z", re.IGNORECASE)
_CRON_BEGINS = frozenset("*0123456789")
_ALLOWED = (
    "cron (5 to 7 fields), @hourly … @yearly, @reboot, @every 90s, R[n]/start/period, every N units, "
    "on WEEKDAY at TIME, at TIME, YYYY/mm/dd HH:MM (w), on demand"
)


class _Reading(NamedTuple):
    """Context of a text's meaning."""

    rules: ZoneRules
    anchor: Moment
    job_id: str
    last_run: bool


def parse_schedule(
    text: str | Sequence[str],
    *,
    zone: str = "UTC",
    anchor: Moment = _EPOCH,
    gap: Gap = Gap.SHIFT,
    fold: Fold = Fold.FIRST,
    job_id: str = "",
    last_run: bool = False,
) -> Schedule:
    """Read a schedule text of any notation. Raises `InvalidSchedule`: the field, the value and what is allowed.

    Several texts, in a list or separated by `;` or line ends, are united; the moments of texts after `except` are left
    out. `zone` is that of wall-clock times; `anchor` is the moment from which `every …` counts, which is when the job
    was added; `job_id` decides what `H` stands for. `last_run`: the anchor is when the job ran last, ISO intervals
    count from it too, and what is not an interval is refused.
    """
    if isinstance(text, str) and not last_run:
        # Words are compared here because hashing a member of an enumeration takes as long as all the rest.
        shared = _shared(text, zone, gap.value, fold == Fold.FIRST)
        if shared is not None:
            return shared
    return _parse(text, _Reading(ZoneRules(check_zone(zone), gap, fold), anchor, job_id, last_run))


@lru_cache(maxsize=4096)
def _shared(text: str, zone: str, gap: str, first: bool) -> Schedule | None:
    """Return the schedule of a text that many jobs share; None for `every …` and `H`, which differ in each."""
    if _SPREAD.search(text) or "every" in text.lower():
        return None
    rules = ZoneRules(check_zone(zone), Gap(gap), Fold.FIRST if first else Fold.BOTH)
    return _parse(text, _Reading(rules, _EPOCH, "", last_run=False))


def _parse(text: str | Sequence[str], reading: _Reading) -> Schedule:
    if (length := len(text) if isinstance(text, str) else sum(map(len, text))) > MOST_CHARACTERS:
        allowed = f"at most {MOST_CHARACTERS}; or several jobs"
        raise InvalidSchedule(f"schedule: it has {length} characters", field="schedule", allowed=allowed)
    if not isinstance(text, str):
        for line in filter(_EXCEPT.search, text):
            message = f"schedule: {line!r} stands in a list, and can't leave anything out of the others there"
            allowed = "`except` in one text: `A; B except C`"
            raise InvalidSchedule(message, field="schedule", value=line, allowed=allowed)
        return _parse_union(_bounded([part for line in text for part in _members(line)]), reading)
    parts = _EXCEPT.split(text) if "except" in text.lower() else [text]
    if len(parts) == 1:
        return _parse_union(_bounded(_members(text)), reading)
    if len(parts) > 2:
        message = "schedule: it has more than one `except`"
        raise InvalidSchedule(message, field="schedule", value=text, allowed="one `except`")
    base = _parse_union(_bounded(_members(parts[0])), reading)
    excluded = _parse_union(_bounded(_members(parts[1])), reading._replace(last_run=False))
    return _with_moments(text, without(base, excluded, reading.rules.zone))


def _members(text: str) -> list[str]:
    return _SEPARATOR.split(text) if ";" in text or "\n" in text else [text]


def _bounded(members: list[str]) -> list[str]:
    if (number := len(members)) > MOST_MEMBERS:
        message = f"schedule: it has {number} members; {members[MOST_MEMBERS].strip()!r} is one too many"
        raise InvalidSchedule(message, field="schedule", allowed=f"at most {MOST_MEMBERS}; or several jobs")
    return members


def _parse_union(texts: Sequence[str], reading: _Reading) -> Schedule:
    if len(texts) == 1:
        return _parse_one(texts[0].strip(), reading)
    members = [_parse_one(text.strip(), reading) for text in texts if text.strip()]
    for member in members:
        if isinstance(member, OnDemand) and len(members) > 1:
            message = f"schedule: {member} has no moments, so it can't be combined with others"
            raise InvalidSchedule(message, field="schedule", value=str(member), allowed="schedules with moments")
    if not members:
        return _parse_one("", reading)
    return union(members)


def _with_moments(text: str, schedule: Schedule) -> Schedule:
    """Return the schedule, unless nothing is left of it."""
    if schedule.next_after(_BEFORE_ALL) is None:
        message = "schedule: the exclusions leave no moment"
        raise InvalidSchedule(message, field="schedule", value=text, allowed="exclusions that leave some moments")
    return schedule


def _parse_one(text: str, reading: _Reading) -> Schedule:
    schedule = _read(text, reading)
    return _from_last_run(schedule, text, reading.anchor) if reading.last_run else schedule


def _from_last_run(schedule: Schedule, text: str, anchor: Moment) -> Schedule:
    match schedule:
        case Every():
            return schedule
        case Repeating(repeats=None):
            return counted_from(schedule, anchor)
        case _:
            message = f"anchored_on: {text!r} is not an interval that can be counted from the last run"
            allowed = "every N units, @every 90s or R/start/period; runs_remaining in place of a number after R"
            raise InvalidSchedule(message, field="anchored_on", value="last run", allowed=allowed)


def _read(text: str, reading: _Reading) -> Schedule:
    first, _, rest = text.partition(" ")
    if rest and first[:1] in _CRON_BEGINS and not is_row(text):
        return parse_cron(text, reading.rules, reading.job_id)
    if (aws := _OF_AWS.match(text)) is not None:
        raise _in_our_words(text, aws[1].lower(), aws[2].strip())
    match first.lower():
        case "every" | "on" if is_phrase(text):
            return parse_phrase(text, reading.rules)
        case "every":
            return parse_every(text, reading.anchor, reading.rules)
        case "@every":
            return parse_every_duration(rest, reading.anchor, reading.rules)
        case "at":
            return parse_once(text, reading.rules)
        case "@reboot" if not rest:
            return Reboot()
        case "on" if rest.lower().split() == ["demand"]:
            return OnDemand()
    if rest == "" and "/" in first:
        return parse_repeating(text, reading.rules)
    if is_row(text):
        return parse_row(text, reading.rules)
    if first == "on" or (rest == "" and first.lower() not in MACROS):
        raise InvalidSchedule(f"schedule: {text!r} is not a schedule", field="schedule", value=text, allowed=_ALLOWED)
    return parse_cron(text, reading.rules, reading.job_id)


def _in_our_words(text: str, kind: str, inner: str) -> InvalidSchedule:
    """Return the refusal of a text of AWS, with the same schedule in our notation."""
    match kind:
        case "cron":
            allowed = f"`0 {inner}`: seconds first, and weekdays by name, as AWS counts from Sunday as 1"
        case "rate":
            allowed = f"`every {inner}`"
        case _:
            allowed = f"`at {inner}`"
    return InvalidSchedule(f"schedule: {text!r} is written as for AWS", field="schedule", value=text, allowed=allowed)
