"""Claims and settles: each method passes finished values to one function of the database."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count, repeat
from operator import attrgetter, itemgetter

import msgspec

from tokimori.clock import Moment
from tokimori.model.ids import NodeId
from tokimori.model.run import NO_DETAILS, Output, Run, decode_details, encode_details
from tokimori.model.settle import PARKED_BY
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.working import Change, Claim, Claimed, Verdict
from tokimori.stores.postgres.batches import columns, packed, parameters, rounds
from tokimori.stores.postgres.connections import PostgresConnections, Row
from tokimori.stores.postgres.schema import COMMON, MOVED, OWN, types_of, without
from tokimori.stores.rows import OUTPUT, RUN, all_claimed, names_of, output_row, row_writer
from tokimori.stores.rules.new_runs import step_maps
from tokimori.stores.rules.settling import JOB_DELETED

_CLAIMED = without(
    RUN, "state, node_id, pid, started, ended, exit_code, signal, error, result, blocked_on, cpu, memory"
)
"""Columns of a claimed run that its node does not know: the others follow from the claim."""
_AS_READ = [
    f"{it}::text" if of == "uuid" else it for it, of in zip(_CLAIMED.split(", "), types_of(_CLAIMED), strict=True)
]
_DETAILS = names_of(_CLAIMED).index("details")
_PLACES = dict(zip((*names_of(_CLAIMED), "definition", "state", "node_id", "details", "nothing"), count()))
_values = itemgetter(*(_PLACES.get(name, _PLACES["nothing"]) for name in names_of(RUN)))
"""Fields of a run, from the columns `_CLAIMED`, its definition, its state, its node, its decoded details, and None."""
_run_id, _SUCCEEDED, _RUNNING = attrgetter("run_id"), RunState.SUCCEEDED, RunState.RUNNING
_OWN, _COMMON, _MOVED = ([f"{type_}[]" for type_ in types_of(names)] for names in (OWN, COMMON, MOVED))
_OUTPUT = ("uuid[]", "integer[]", "bigint[]", "bytea[]", "bytea[]", "bytea[]")
_SETTLE_TYPES = (
    "uuid",
    *_OWN,
    *_COMMON,
    *_MOVED,
    "bigint[]",
    "bigint[]",
    "uuid[]",
    "jsonb",
    "jsonb",
    *_OUTPUT,
    "text",
    "text",
)
_SETTLE = f"""
SELECT CASE WHEN cardinality(applied) < ${len(_SETTLE_TYPES) + 1}::integer THEN applied::text[] END, already::text[],
    served
FROM tokimori_settle({parameters(_SETTLE_TYPES)})"""
"""The verdicts come back only if not all changes were applied."""
_CLAIM = f"""
SELECT {", ".join(_AS_READ)}, definition
FROM tokimori_claim($1, $2, tokimori_open_lanes($3), $4, $5, $6)"""
_SAVE = f"""
INSERT INTO tokimori_outputs ({OUTPUT}, settled)
SELECT {OUTPUT}, false FROM unnest({parameters(_OUTPUT)}) AS o ({OUTPUT})
ON CONFLICT (run_id, attempt) DO UPDATE
SET size = excluded.size, head = excluded.head, tail = excluded.tail, times = excluded.times
WHERE NOT tokimori_outputs.settled AND excluded.size >= tokimori_outputs.size"""


async def claim(db: PostgresConnections, claim: Claim, now: Moment) -> tuple[list[Claimed], bool]:
    rows = await db.rows(_CLAIM, claim.id, claim.node, claim.lanes, claim.limit, claim.skip, now)
    taken = [row for row in rows if row[0] is not None]
    return all_claimed(taken, partial(_claimed_run, claim.node)), len(taken) < len(rows)


def _claimed_run(node: NodeId, row: Row) -> Run:
    details = NO_DETAILS if (text := row[_DETAILS]) is None else decode_details(text)
    return Run(*_values((*row, _RUNNING, node, details, None)))


async def settle(db: PostgresConnections, changes: Sequence[Change], by: NodeId) -> tuple[list[Verdict], bool]:
    """See `Working.settle`; also return if units became free. Changes of one run take effect one after the other."""
    await asyncio.sleep(0)  # a claim that is asked for together with it goes first: packing takes a while
    if len({change.run_id for change in changes}) == len(changes):
        judged, served = await _settle(db, changes, by)
        return list(judged), served
    verdicts, any_served = dict[int, Verdict](), False
    for batch in rounds(list(enumerate(changes)), lambda numbered: numbered[1].run_id):
        judged, served = await _settle(db, [change for _, change in batch], by)
        verdicts |= zip((number for number, _ in batch), judged, strict=True)
        any_served = any_served or served
    return [verdicts[number] for number in range(len(changes))], any_served


async def _settle(db: PostgresConnections, changes: Sequence[Change], by: NodeId) -> tuple[Iterable[Verdict], bool]:
    in_order = sorted(changes, key=_run_id)
    attempts = [change.attempt for change in changes if change.attempt is not None]
    outputs = [output_row(change.output) for change in changes if change.output is not None]
    steps = [each for change in changes if change.then for each in step_maps(change)]
    moved = [change for change in in_order if change.state is not _SUCCEEDED or change.resumes]
    ((applied, already, served),) = await db.rows(
        _SETTLE,
        by,
        *columns([_own_row(change) for change in in_order], _OWN),
        *columns([_common_row(change) for change in in_order], _COMMON, once=True),
        *columns([_moved_row(change) for change in in_order] if moved else [], _MOVED),
        packed([change.incarnation for change in moved if change.parks]),
        packed([change.incarnation for change in moved if change.state not in ENDS]),
        packed([change.run_id for change in in_order if change.childless]),
        msgspec.json.encode(steps).decode() if steps else None,
        msgspec.json.encode(attempts).decode() if attempts else None,
        *columns(outputs, _OUTPUT),
        JOB_DELETED,
        PARKED_BY,
        len(changes),
    )
    if applied is None:
        return repeat(Verdict.APPLIED, len(changes)), served
    known = dict.fromkeys(already, Verdict.ALREADY_APPLIED) | dict.fromkeys(applied, Verdict.APPLIED)
    return [known.get(change.run_id, Verdict.LOST) for change in changes], served


_own_row = row_writer(Change, "run_id", *names_of(OWN)[1:], details=encode_details)
_common_row = row_writer(Change, *names_of(COMMON.replace("node_id", "owner")))
_moved_row = row_writer(Change, *names_of(MOVED))


async def save_outputs(db: PostgresConnections, outputs: Sequence[Output]) -> None:
    for batch in rounds(outputs, lambda output: (output.run_id, output.attempt)):
        in_order = sorted(batch, key=lambda output: output.run_id)
        await db.rows(_SAVE, *columns([output_row(output) for output in in_order], _OUTPUT))
