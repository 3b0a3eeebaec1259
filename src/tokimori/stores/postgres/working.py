"""From ready runs to ended ones: each method hands finished values to one function of the database."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tokimori.model.ids import NodeId, RunId
from tokimori.model.run import Attempt, Output
from tokimori.model.transitions import ENDS
from tokimori.ports.store import Change, Claim, Claimed, Verdict
from tokimori.stores.postgres.batches import columns, rounds
from tokimori.stores.postgres.connections import Connections, Row
from tokimori.stores.rows import OUTPUT, all_claimed, output_row
from tokimori.stores.rules import JOB_DELETED, MOST_EXAMINED, PARKED_BY
from tokimori.stores.text import storable

_SETTLE = f"SELECT * FROM tokimori_settle({', '.join(f'${n}' for n in range(1, 28))})"
_CHANGE_COLUMNS, _OUTPUT_COLUMNS = 16, 5


async def claim(db: Connections, claim: Claim) -> list[Claimed]:
    """See `Working.claim`."""
    statement = "SELECT * FROM tokimori_claim($1, $2, $3, $4, $5)"
    rows = await db.rows(statement, claim.id, claim.node, claim.lanes, claim.limit, MOST_EXAMINED)
    return all_claimed(rows)


async def settle(db: Connections, changes: Sequence[Change], by: NodeId) -> list[Verdict]:
    """See `Working.settle`. Changes of one run take effect one after the other."""
    verdicts: dict[int, Verdict] = {}
    for batch in rounds(list(enumerate(changes)), lambda numbered: numbered[1].run_id):
        applied, already = await _settle(db, [change for _, change in batch], by)
        for number, change in batch:
            if change.run_id in applied:
                verdicts[number] = Verdict.APPLIED
            else:
                verdicts[number] = Verdict.ALREADY_APPLIED if change.run_id in already else Verdict.LOST
    return [verdicts[number] for number in range(len(changes))]


async def _settle(db: Connections, changes: Sequence[Change], by: NodeId) -> tuple[set[RunId], set[RunId]]:
    in_order = sorted(changes, key=lambda change: change.run_id)
    attempts = [_storable(change.attempt) for change in changes if change.attempt is not None]
    outputs = [output_row(change.output) for change in changes if change.output is not None]
    ((applied, already),) = await db.rows(
        _SETTLE,
        by,
        *columns([_change_row(change) for change in in_order], _CHANGE_COLUMNS),
        [change.incarnation for change in in_order if change.parks],
        [change.incarnation for change in in_order if change.state not in ENDS],
        msgspec.json.encode(attempts).decode() if attempts else None,
        *columns(outputs, _OUTPUT_COLUMNS),
        JOB_DELETED,
        PARKED_BY,
    )
    return set(applied), set(already)


def _change_row(change: Change) -> Row:
    return (
        change.run_id,
        change.incarnation,
        change.owner,
        change.token,
        change.state,
        change.due,
        change.rank,
        change.failures,
        change.lost,
        change.ended,
        change.started,
        change.pid,
        change.exit_code,
        change.signal,
        None if change.error is None else storable(change.error),
        None if change.result is None else storable(change.result),
    )


def _storable(attempt: Attempt) -> Attempt:
    return attempt if attempt.error is None else replace(attempt, error=storable(attempt.error))


async def save_outputs(db: Connections, outputs: Sequence[Output]) -> None:
    """See `Working.save_outputs`."""
    for batch in rounds(outputs, lambda output: (output.run_id, output.attempt)):
        await db.rows(
            f"""
            INSERT INTO tokimori_outputs ({OUTPUT}, settled)
            SELECT run_id, attempt, size, head, tail, false
            FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::bytea[], $5::bytea[]) AS o ({OUTPUT})
            ON CONFLICT (run_id, attempt) DO UPDATE
            SET size = excluded.size, head = excluded.head, tail = excluded.tail
            WHERE NOT tokimori_outputs.settled AND excluded.size >= tokimori_outputs.size
            """,
            *columns([output_row(output) for output in sorted(batch, key=lambda output: output.run_id)], 5),
        )
