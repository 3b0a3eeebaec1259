"""What `import_all` is given, checked. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokimori.errors import InvalidInput
from tokimori.model.ids import JobId, check_new_job_id
from tokimori.model.job import Definition
from tokimori.model.sizes import check_reason
from tokimori.service.definitions import runs_remaining_in

PAIRS = "pairs of an id and a Definition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import: the jobs that it added, and those that were there already."""

    added: tuple[JobId, ...]
    unchanged: tuple[JobId, ...]


def checked_pair(pair: object) -> tuple[JobId, Definition]:
    """An id and a definition. Raises `InvalidInput`."""
    match pair:
        case (job_id, Definition() as definition):
            return check_new_job_id(job_id), definition
        case _:
            raise InvalidInput(f"jobs: {pair!r} is not such a pair", field="jobs", value=pair, allowed=PAIRS)


def checked_reasons(given: object) -> Mapping[str, str]:
    """The reasons by id. Raises `InvalidInput`."""
    reasons = _by_id("paused_because", given, "reasons")
    for reason in reasons.values():
        check_reason("paused_because", reason)
    return reasons


def checked_limits(given: object) -> Mapping[str, int | None]:
    """The numbers of runs by id. Raises `InvalidInput`."""
    limits = _by_id("runs_remaining", given, "whole numbers")
    return {job_id: runs_remaining_in({"runs_remaining": number}) for job_id, number in limits.items()}


def _by_id(field: str, given: object, values: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        allowed = f"a dict of {values} by id"
        raise InvalidInput(f"{field}: {given!r} is not a mapping", field=field, value=given, allowed=allowed)
    return given
