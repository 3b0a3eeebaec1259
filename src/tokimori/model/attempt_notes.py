"""Notes of an attempt while it runs: progress, checkpoint and payload. Pure.

The store keeps the notes of a run's newest attempt among its outputs, under a number that no attempt has. After the
attempt they become details of the run; its next attempt gets the checkpoint.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tokimori.errors import InvalidInput
from tokimori.model.ids import RunId
from tokimori.model.job import Definition
from tokimori.model.run import NO_DETAILS, OF_PARENT, Details, Output, Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.model.words import check_keys, check_text, json_fault

MOST_PAYLOAD = 64 * 1024
"""Bytes of a job's payload, in UTF-8: a claim brings it with each run. A request may bring more."""

MOST_INHERITED = 1_000 * MOST_PAYLOAD
"""Bytes of the payloads of all children of a run together: they are written in one transaction."""


def check_payload(payload: str | None) -> None:
    """Check the payload of a job. Raises `InvalidInput`."""
    if payload is None:
        return
    if (size := len(payload.encode())) > MOST_PAYLOAD:
        allowed = f"at most {MOST_PAYLOAD} bytes; a request may bring more"
        raise InvalidInput(f"payload: {size} bytes are too many", field="payload", value=size, allowed=allowed)
    check_json(payload)


def check_json(payload: str) -> None:
    """Refuse a text that is no JSON, or that would lose a part when it is read. Raises `InvalidInput`."""
    check_text("payload", payload)
    try:
        msgspec.json.decode(payload)
        check_keys("payload", payload)
    except (msgspec.DecodeError, RecursionError) as fault:
        allowed = 'JSON, such as {"to": "ann"}; a text stands between double quotes'
        message = f"payload: {payload[:200]!r} is not JSON ({json_fault(fault, payload)})"
        raise InvalidInput(message, field="payload", value=payload[:200], allowed=allowed) from None


def payload_for(run: Run, definition: Definition | None) -> str | None:
    """Return the payload for an attempt of the run that starts now.

    It is the payload of its request or its parent; else that of an earlier attempt; else that of its job now.
    """
    payload = run.details.payload if run.payload is None else run.payload
    return payload if payload is not None or definition is None else definition.payload


def given_to(run: Run) -> str | None:
    """Return the payload of the run; that of its job counts only from the end of the first attempt on."""
    return run.details.payload if run.payload is None else run.payload


def is_inherited(run: Run) -> bool:
    """Return if the payload came from a parent, of this run or of the run that it repeats; None: of no result."""
    return run.details.inherited or run.origin.startswith(OF_PARENT)


NUMBER = 0
"""Number of the notes, in place of an attempt's."""


class Notes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Notes of the attempt with this number. `progress` is from 0 to 1, with a text for people; `checkpoint` is JSON.

    `payload` is set if the attempt got that of its job.
    """

    attempt: int
    progress: float | None = None
    text: str | None = None
    checkpoint: str | None = None
    payload: str | None = None


def notes_row(run_id: RunId, notes: Notes) -> Output:
    """Return the row of the notes. Of two outputs the larger one stays: those of an earlier attempt never come back."""
    return Output(run_id=run_id, attempt=NUMBER, size=notes.attempt, head=msgspec.json.encode(notes))


def notes_in(row: Output | None, run: Run) -> Notes | None:
    """Return the notes of the run's newest attempt, if the row has them and this version can read them."""
    if row is None or row.size != run.attempt:
        return None
    try:
        return msgspec.json.decode(row.head, type=Notes)
    except msgspec.DecodeError:
        return None


def details_after(run: Run, definition: Definition | None, notes: Notes | None, state: RunState) -> Details | None:
    """Return the new facts of a run after an attempt that had begun; `state` is that of the run from now on.

    A payload from its job stays, however the job is edited meanwhile. A checkpoint lasts until the end.
    """
    before = run.details
    has_own = run.payload is not None or definition is None or definition.payload is None
    if notes is None and before is NO_DETAILS and has_own:
        return None  # most runs: what follows costs more than all else of their end
    if before.as_stored is not None:
        return None
    payload = notes.payload if notes is not None and notes.payload is not None else payload_for(run, definition)
    checkpoint = before.checkpoint if notes is None or notes.checkpoint is None else notes.checkpoint
    after = replace(
        before,
        payload=payload if run.payload is None else before.payload,
        progress=None if notes is None else notes.progress,
        progress_text=None if notes is None else notes.text,
        checkpoint=None if state in ENDS else checkpoint,
    )
    if after == before:
        return None
    return Details(progress_text="") if after == NO_DETAILS else after  # of nothing stores think that nothing changes


def unbegun_once_more(run: Run) -> Details | None:
    """Return the facts of a run after an attempt that never began, if they can be read."""
    return None if run.details.as_stored is not None else replace(run.details, unbegun=run.details.unbegun + 1)


def shown_of(run: Run, notes: Notes | None) -> Details:
    """Return the current facts of a run: the notes of its running attempt, else those noted last."""
    if run.state is not RunState.RUNNING:
        return run.details
    current = Notes(attempt=run.attempt) if notes is None else notes
    return replace(
        run.details,
        payload=run.details.payload if current.payload is None else current.payload,
        progress=current.progress,
        progress_text=current.text,
        checkpoint=run.details.checkpoint if current.checkpoint is None else current.checkpoint,
    )
