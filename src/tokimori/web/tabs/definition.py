"""Tab with the definition of a job: what is not the default, as TOML and as a command, to have it elsewhere."""

from collections.abc import Mapping

from tokimori.logs.controls import visible
from tokimori.model.job import Job
from tokimori.model.target import Unreadable
from tokimori.service.definitions.command_line import add_command
from tokimori.service.definitions.definitions import job_fields_of
from tokimori.service.definitions.toml import write_toml
from tokimori.web.job_rows import command
from tokimori.web.visit import Visit


async def tab(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the definition as `tokimori apply` and `tokimori job add` take it, without defaults."""
    is_readable, fields = not isinstance(job.definition.target, Unreadable), job_fields_of(job)
    adds = add_command(job.id, fields) if is_readable else None
    return {
        "toml": write_toml([{"id": job.id, **fields}]) if is_readable else "",
        "adds": adds if adds is not None and visible(adds) == adds else None,
        "command": command(job.definition),
        "set": None if job.definition.declared is None else job.definition.declared.set,
    }
