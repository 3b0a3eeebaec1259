"""The facts of an attempt that templates may name. Pure."""

import json
from collections.abc import Collection

from tokimori.clock import format_moment
from tokimori.model.templates import SECRETS, check_filled, names_parts, parts_of
from tokimori.ports.executor import AttemptTask


def facts_of(task: AttemptTask, texts: Collection[str] = ()) -> dict[str, str]:
    """Return the facts that templates may name (`tokimori.model.templates`), for these texts.

    Raises `InvalidInput` where the texts would become too large with it.
    """
    known = {
        "job_id": task.job_id,
        "run_id": task.run_id,
        "attempt": str(task.attempt),
        "token": str(task.token),
        "nominal_time": format_moment(task.nominal),
        "due_time": format_moment(task.due),
        "parent_run_id": task.parent_id,
        "payload": task.payload,
        "payload_json": json.dumps(task.payload),
    }
    secrets = {SECRETS + name: value for name, value in task.secrets.items()}
    parts = parts_of(task.payload) if names_parts(texts) else {}
    facts = {name: fact for name, fact in known.items() if fact is not None} | secrets | dict(parts)
    check_filled(texts, facts)
    return facts
