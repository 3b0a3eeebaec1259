"""Tab with the definition of a job: what is not the default, and how to see and change it elsewhere."""

from collections.abc import Mapping
from typing import Final

from msgspec import json

from tokimori.model.job import Job
from tokimori.web.job_rows import command
from tokimori.web.visit import Visit

_OURS: Final = frozenset({"apart", "foreign", "declared", "moved", "fired_ahead"})
"""Fields that no user has written."""
LINE: Final = 100
"""Characters."""


async def tab(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the fields of the definition that are not defaults."""
    plain_fields = json.decode(json.encode(job.definition))
    fields = [(name, _written(value)) for name, value in plain_fields.items() if name not in _OURS]
    set_name = None if job.definition.declared is None else job.definition.declared.set
    return {"fields": fields, "command": command(job.definition), "set": set_name}


def _written(value: object) -> str:
    """Return a value as JSON on one line, if it fits one; a text as it is."""
    if isinstance(value, str):
        return value
    line = json.format(json.encode(value), indent=0).decode()
    return line if len(line) <= LINE else json.format(line.encode(), indent=2).decode()
