"""Tab with the definition of a job: what is not the default, as TOML, and how to see and change it elsewhere."""

from collections.abc import Mapping

from tokimori.model.job import Job
from tokimori.model.target import Unreadable
from tokimori.service.definitions.definitions import job_fields_of
from tokimori.service.definitions.toml import write_toml
from tokimori.web.job_rows import command
from tokimori.web.visit import Visit


async def tab(visit: Visit, job: Job) -> Mapping[str, object]:
    """Return the definition as `tokimori apply` takes it, without defaults."""
    is_readable = not isinstance(job.definition.target, Unreadable)
    text = write_toml([{"id": job.id, **job_fields_of(job)}]) if is_readable else ""
    set_name = None if job.definition.declared is None else job.definition.declared.set
    return {"toml": text, "command": command(job.definition), "set": set_name}
