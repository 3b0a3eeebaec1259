"""Payload of a run: its own, else that of its job. Pure."""

import msgspec

from tokimori.errors import InvalidInput
from tokimori.model.job import Definition
from tokimori.model.run import Run, asked_by

MOST_PAYLOAD = 64 * 1024
"""Bytes of a job's payload, in UTF-8: a claim brings it with each run. A request may bring more."""

MOST_INHERITED = 1_000 * MOST_PAYLOAD
"""And of the payloads that all children of a run get together: they are written in one transaction."""


def check_payload(payload: str | None) -> None:
    """Refuse a payload that a job can't have. Raises `InvalidInput`."""
    if payload is None:
        return
    if (size := len(payload.encode())) > MOST_PAYLOAD:
        allowed = f"at most {MOST_PAYLOAD} bytes; a request may bring more"
        raise InvalidInput(f"payload: {size} bytes are too many", field="payload", value=size, allowed=allowed)
    check_json(payload)


def check_json(payload: str) -> None:
    """Refuse a text that is no JSON. Raises `InvalidInput`."""
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as fault:
        allowed = 'JSON, such as {"to": "ann"}; a text stands between double quotes'
        message = f"payload: {payload[:200]!r} is not JSON ({fault})"
        raise InvalidInput(message, field="payload", value=payload[:200], allowed=allowed) from None


def payload_for(run: Run, definition: Definition | None) -> str | None:
    """Return the payload for an attempt of the run that starts now.

    What the run was asked for with, or got from its parent; else what an attempt of it has got before; else what its
    job says now.
    """
    said = given_to(run)
    return said if said is not None or definition is None else definition.payload


def given_to(run: Run) -> str | None:
    """Return the payload that the run has got: its job's payload only from the end of its first attempt on."""
    return run.details.payload if run.payload is None else run.payload


def is_inherited(run: Run) -> bool:
    """Return whether the payload of the run is what a parent left, to itself or to the run that it repeats."""
    return run.details.inherited or (run.payload is not None and asked_by(run.origin) == "parent")
