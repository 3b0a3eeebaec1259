"""What tests of translators of other schedulers ask of entries."""

from collections.abc import Iterable

from tokimori.service.definitions.definitions import fields_of
from tokimori.translators.entries import Entry, Inactive, Moved, Refused


def only(entries: Iterable[Entry]) -> Moved:
    """The one job among the entries, which has moved."""
    (entry,) = entries
    assert isinstance(entry, Moved), entry
    return entry


def why_refused(entries: Iterable[Entry]) -> str:
    """Place and reason of the one entry, which was refused."""
    (entry,) = entries
    assert isinstance(entry, Refused), entry
    return f"{entry.place}: {entry.why}"


def why_left_out(entries: Iterable[Entry]) -> str:
    """Place and reason of the one entry, which was left out."""
    (entry,) = entries
    assert isinstance(entry, Inactive), entry
    return f"{entry.place}: {entry.why}"


def said(job: Moved) -> dict[str, object]:
    """The fields of a job, without defaults."""
    return dict(fields_of(job.definition))
