"""Audit log: the author, the change and the moment. An entry is a document, whose name puts the newest first."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from tokimori.clock import Moment
from tokimori.model.document import texts_of
from tokimori.model.ids import RandomBytes

KIND: Final = "audit"
MOST_SHOWN: Final = 100_000
"""Bytes of a value before or after; of larger ones only the size is kept."""
_END: Final = 2**62


PARK: Final = "park"
"""Parking by the engine; all other recorded changes are methods of the service."""


class AuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Change: its moment, its author (None: unknown), the method, and the thing before and after.

    `event` is its name among events; None: it is in the audit log alone. `before` and `after` are JSON values; None if
    there was, or is, no such thing, or it is unknown. `queues` are the known queues of its jobs, before and after, by
    their ids.
    """

    at: Moment
    who: str | None
    what: str
    of: str
    before: Any = None
    after: Any = None
    event: str | None = None
    queues: dict[str, tuple[str, ...]] = field(default_factory=dict)


encode_entry, decode_entry = texts_of(AuditEntry)


def shown(value: object) -> Any:
    """Return the value as an entry keeps it: its text, so that it is encoded once."""
    text = msgspec.json.encode(value)
    return msgspec.Raw(text) if len(text) <= MOST_SHOWN else {"left_out": f"{len(text)} bytes"}


def name_of(at: Moment, random: RandomBytes) -> str:
    """Return the name of an entry: names of later ones are smaller, as documents are listed by name."""
    return f"{older_than(at)}-{random(4).hex()}"


def written_at(name: str) -> Moment:
    """Return the moment in the name of an entry, at which it was written. Raises `ValueError`."""
    return Moment(_END - int(name.partition("-")[0]))


def older_than(moment: Moment) -> str:
    """Return a name between those of the entries after this moment and of those before it."""
    return f"{_END - moment:019d}"


PARTS_OF_SETS: Final[Mapping[str, str]] = MappingProxyType(
    {"calendars": "calendar", "queues": "queue", "semaphores": "semaphore"}
)
BECAME: Final[Mapping[str, str]] = MappingProxyType({"added": "added", "changed": "changed", "removed": "deleted"})
OF_A_JOB: Final = frozenset({"job", "task", "expectation"})
"""Kinds whose names are ids of jobs."""


class Changed(Struct, frozen=True, kw_only=True, gc=False):
    """A reported change: the definition, its new state, the author, and the entry of the audit log.

    `written` is when the entry was, and `at` when the change was made. `queues` are those of the job before and after,
    as far as they are known. `fields` are those of the definition that are others now.
    """

    id: str
    written: Moment
    at: Moment
    event: str
    kind: str
    name: str
    by: str | None
    entry: str
    is_definition: bool = True
    reason: str | None = None
    fields: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()

    @property
    def job_id(self) -> str | None:
        """Return the job that it concerns, if it is one."""
        return self.name if self.kind in OF_A_JOB else None


def changed_in(name: str, text: str) -> Sequence[Changed]:
    """Return the changes in the entry of the audit log with this name and text. Raises `ValueError`."""
    entry, written = decode_entry(text), written_at(name)
    several = _SEVERAL.get(entry.event or "")
    found = [_one(entry)] if several is None else list(several(entry))
    return [
        Changed(
            id=f"{entry.at}-{name.rpartition('-')[2]}.{number}",
            written=written,
            at=entry.at,
            event=event,
            kind=kind,
            name=of,
            by=entry.who,
            entry=name,
            is_definition=entry.event is not None,
            **{**(_details(entry) if len(found) == 1 else {}), **_queues(entry, of)},
        )
        for number, (event, kind, of) in enumerate(found)
    ]


_Named = tuple[str, str, str]
"""The event, the kind of what was changed, and its name."""


def _one(entry: AuditEntry) -> _Named:
    kind, _, name = entry.of.partition(" ")
    return entry.event or f"audit.{entry.what}", kind, name


def _applied(entry: AuditEntry) -> Iterator[_Named]:
    """Yield the changes by a set, or an import: jobs by what became of them, and resources likewise."""
    after: Mapping[str, Any] = entry.after if isinstance(entry.after, dict) else {}
    for kind, names in (("job", after), *((kind, after.get(part, {})) for part, kind in PARTS_OF_SETS.items())):
        for became, event in BECAME.items():
            for name in names.get(became, ()):
                yield f"{kind}.{event}", kind, name
    if "left_out" in after:
        yield "job.changed", "jobs", entry.of


def _renamed(entry: AuditEntry) -> Iterator[_Named]:
    _, _, name = entry.of.partition(" ")
    yield "job.renamed", "job", name
    if isinstance(entry.after, dict) and "job" in entry.after:
        yield "job.added", "job", entry.after["job"]


def _left_out(entry: AuditEntry) -> Iterator[_Named]:
    """Yield the change that stands for changes beyond those recorded one by one."""
    yield "changes.left_out", "changes", entry.of.partition(" ")[0]


_SEVERAL: Final = MappingProxyType(
    {"set.applied": _applied, "jobs.imported": _applied, "job.renamed": _renamed, "changes.left_out": _left_out}
)
"""Events that report several things, or none by its name."""


def _queues(entry: AuditEntry, name: str) -> dict[str, Any]:
    """Return the queues of that job, if the entry has them."""
    return {"queues": entry.queues[name]} if name in entry.queues else {}


def _details(entry: AuditEntry) -> dict[str, Any]:
    before, after = (_definition(each) for each in (entry.before, entry.after))
    fields = [name for name in {**before, **after} if before.get(name) != after.get(name)] if before and after else []
    queues = {each.get("queue", "default") for each in (before, after) if each}
    reason = entry.after.get("reason") if isinstance(entry.after, dict) else None
    return {
        "reason": reason if isinstance(reason, str) else None,
        "fields": tuple(sorted(fields)),
        "queues": tuple(sorted(map(str, queues))),
    }


def _definition(shown: Any) -> Mapping[str, Any]:
    found = shown.get("definition") if isinstance(shown, dict) else None
    return found if isinstance(found, dict) else {}
