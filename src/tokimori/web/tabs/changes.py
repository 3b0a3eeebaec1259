"""Tab with the changes of a job: who has changed what, and what it was before."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tokimori.model.audit import PARK, AuditEntry
from tokimori.model.job import Job
from tokimori.model.job_fields import FIELDS
from tokimori.service.audit import Recorded
from tokimori.service.validation import MOST_LISTED
from tokimori.web.job_form import text_of
from tokimori.web.visit import Visit
from tokimori.web.words import Time

SHOWN: Final = 50
MOST_PAGES: Final = 3
"""Thousands of entries of the audit log looked through for those of one job."""
LONGEST: Final = 300
"""Characters of a value."""
_NOISE: Final = frozenset(
    {"version", "updated", "fired_through", "next_due", "incarnation", "tzdata", "anchor", "created"}
)
"""Fields of a job that no person sets."""


class JobChange(NamedTuple):
    """Change of a job: `lines` begin with `-` for the old texts, and with `+` for the new ones."""

    at: Time
    who: str
    what: str
    lines: Sequence[tuple[str, str]]


async def tab(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the newest changes of the job, or the role that their reader lacks."""
    if (lacks := visit.reader.lacks("audit.list")) is not None:
        return {"lacks": lacks, "changes": (), "older": None, "newest": None}
    found, after = list[Recorded](), visit.one("after")
    for _ in range(MOST_PAGES):
        page = await visit.service.audit.list(after=after, limit=MOST_LISTED)
        found += [each for each in page if each.entry.of == f"job {job.id}"]
        after = page[-1].id if len(page) == MOST_LISTED else None
        if after is None or len(found) >= SHOWN:
            break
    if len(found) > SHOWN:
        after = found[SHOWN - 1].id
    return {
        "lacks": None,
        "changes": [_change(visit, job, each) for each in found[:SHOWN]],
        "older": None if after is None else visit.link(after=after),
        "newest": visit.link(after=None) if visit.one("after") else None,
    }


def _change(visit: Visit, job: Job, recorded: Recorded) -> JobChange:
    entry = recorded.entry
    before, after, names = _compared(entry)
    lines = [pair for name in names for pair in _lines(name, before, after)]
    at = visit.time(entry.at, job.definition.time_zone)
    return JobChange(at, entry.who or "somebody", entry.what.rpartition(".")[2].replace("_", " "), lines)


def in_words(entry: AuditEntry) -> str:
    """Return what a change did, in few words: the new state with its reason, or the changed fields."""
    if entry.after is None or (entry.before is None and entry.what != PARK):
        if entry.after is not None:
            return "new"
        return "gone" if entry.before is not None else ""
    _, after, names = _compared(entry)
    if {"reason", "state"} <= after.keys() and "reason" in names:
        return f"{after['state']}: {after['reason']}"
    return ", ".join(names) or "changed"


def _compared(entry: AuditEntry) -> tuple[Mapping[str, str], Mapping[str, str], Sequence[str]]:
    """Return the fields before and after a change, and the names of those that differ."""
    before, after = (dict(_flat(each)) for each in sides(entry))
    return before, after, sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def sides(entry: AuditEntry) -> tuple[Any, Any]:
    """Return a thing before and after a change. How a job was that the engine has parked is unknown: not its state."""
    kept = (entry.before, entry.after)
    before, after = (msgspec.json.decode(each) if isinstance(each, msgspec.Raw) else each for each in kept)
    if entry.what == PARK and before is None and isinstance(after, dict):
        after.pop("definition", None)
    return before, after


def _flat(value: object, group: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields that people change, as their form writes them, those of the definition among the others."""
    if not isinstance(value, Mapping):
        return
    for name, each in value.items():
        path = f"{group}{name}"
        if name in ("definition", "retry", "notifier") and isinstance(each, Mapping) and each:
            yield from _flat(each, "" if name == "definition" else f"{name}.")
        elif name not in _NOISE and each is not None:
            is_number = path in FIELDS and isinstance(each, int | float)
            text = text_of(path, each) if is_number or isinstance(each, str) else msgspec.json.encode(each).decode()
            yield path, text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def _lines(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for sign, side in (("-", before), ("+", after)):
        if name in side:
            yield sign, f"{name} = {side[name]}"
