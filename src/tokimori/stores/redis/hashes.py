"""Hashes of values and back. A field holds text; a null value has no field."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from tokimori.model.decide import Due
from tokimori.model.encoding import definition_of, stored_definition
from tokimori.model.ids import Incarnation
from tokimori.model.job import Definition, Job
from tokimori.model.run import LONG, Output, Run, Skip, decode_details
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import Most
from tokimori.ports.working import Claimed
from tokimori.stores.rows import (
    JOB,
    JOB_STAMPS,
    NODE,
    RUN,
    TEXTS,
    Row,
    job_row,
    names_of,
    node_row,
    run_row,
    skip_of,
    skip_row,
)

T = TypeVar("T", Job, Run)
Flat = list[str]
"""Field, value, field, value …"""
_JOB, _RUN, _NODE = names_of(f"{JOB}, {JOB_STAMPS}"), names_of(RUN), names_of(NODE)
_SHORT = [name for name in _RUN if name not in TEXTS]


def _flat(names: Sequence[str], row: Row) -> Flat:
    return [part for name, value in zip(names, row, strict=True) if value is not None for part in (name, str(value))]


def _fields(flat: Flat) -> dict[str, object]:
    each = iter(flat)
    return dict(zip(each, each, strict=True))


def job_hash(job: Job) -> Flat:
    """Return the hash of a job, with fields for parts of its definition that scripts use."""
    return _flat(_JOB, job_row(job))


def job_of(flat: Flat) -> Job:
    """Return a job from its hash."""
    fields = _fields(flat)
    fields["definition"] = stored_definition(str(fields["definition"]))
    return msgspec.convert(fields, Job, strict=False)


def run_hash(run: Run) -> Flat:
    """Return the hash of a run."""
    return _flat(_RUN, run_row(run))


def run_of(flat: Flat) -> Run:
    """Return a run from its hash."""
    fields: dict[str, Any] = _fields(flat)
    fields.setdefault("lane", None)
    details = fields.pop("details", None)
    run = msgspec.convert(fields, Run, strict=False)
    return run if details is None else replace(run, details=decode_details(details))


def as_brief(longest: Most) -> dict[str, object]:
    """Return the fields that scripts return of each run in a list with this bound."""
    texts = TEXTS if longest and longest > 0 else ()
    return {} if longest is None else {"short": _SHORT, "texts": texts, "longest": longest, "long": LONG}


def listed_run(found: Flat, longest: Most) -> Run:
    """Return a run of such a list."""
    return run_of(found) if longest is None else run_of(_flat((*_SHORT, *TEXTS)[: len(found)], tuple(found)))


def node_hash(node: NodeRecord) -> Flat:
    """Return the hash of a node."""
    return _flat(_NODE, node_row(node))


def node_of(flat: Flat) -> NodeRecord:
    """Return a node from its hash."""
    fields = _fields(flat)
    fields["labels"] = msgspec.json.decode(str(fields["labels"]))
    return msgspec.convert(fields, NodeRecord, strict=False)


def skips_of(texts: Iterable[str]) -> list[Skip]:
    """Return the rows of the ledger."""
    return [_skip_of(text) for text in texts]


def _skip_of(text: str) -> Skip:
    first, last, count, reason = text.split(" ")
    return skip_of((int(first), int(last), int(count), reason))


def skip_pairs(skips: Iterable[Skip]) -> list[tuple[int, str]]:
    """Return rows of the ledger as the scripts store them."""
    return [(skip.first, " ".join(map(str, skip_row(skip)))) for skip in skips]


def due_of(answer: tuple[Flat, int, str | None]) -> Due:
    """Return a due job, with the facts of its runs that `decide` needs."""
    flat, active, text = answer
    job = job_of(flat)
    newest = None if text is None else _skip_of(text)
    tail = newest if newest is not None and newest.last == job.fired_through else None
    return Due(job=job, active=active, tail=tail)


def all_claimed(answer: tuple[list[Flat], list[str | None]]) -> list[Claimed]:
    """Return runs as their owner gets them, from their hashes and their jobs' definitions, which many share."""
    flats, pairs = answer
    runs = [run_of(flat) for flat in flats]
    definitions: dict[int, Definition | None] = {
        incarnation: definition_of(text)
        for incarnation, text in zip((Incarnation(int(str(key))) for key in pairs[::2]), pairs[1::2], strict=True)
    }
    return [Claimed(run=run, definition=definitions[run.incarnation]) for run in runs]


def output_map(output: Output) -> dict[str, object]:
    """Return an output as the scripts store it."""
    fields = {name: getattr(output, name) for name in ("run_id", "attempt", "size")}
    return {**fields, **{name: _raw(getattr(output, name)) for name in ("head", "tail", "times")}}


def _raw(data: bytes) -> msgspec.Raw:
    """Return the bytes in MessagePack's old format for texts: the server's library does not know the one for bytes."""
    return msgspec.Raw(b"\xdb" + len(data).to_bytes(4) + data)
