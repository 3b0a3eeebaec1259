"""Checks of `import_all`'s arguments. Pure."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.job import Definition, Job
from tokimori.model.policies import AnchoredOn
from tokimori.model.settle import parked
from tokimori.model.sizes import check_reason
from tokimori.service.definitions.definitions import runs_remaining_in
from tokimori.service.definitions.edits import kept_since, paused
from tokimori.service.validation import moment_of

PAIRS = "pairs of an id and a Definition"


class Imported(Struct, frozen=True, kw_only=True):
    """The result of an import: the jobs that it added, and those that were there already."""

    added: tuple[JobId, ...]
    unchanged: tuple[JobId, ...]


class Start(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """State in which a job from elsewhere continues.

    `paused_because` and `parked_because` are reasons for which it is added paused, or parked as by a failure. All that
    it names from `since` on is decided here, the past too, but nothing before `not_before`: see `add_since`. Where the
    schedule counts from the last run, `since` was that one.
    """

    paused_because: str | None = None
    parked_because: str | None = None
    since: Moment | None = None
    not_before: Moment | None = None


def started(job: Job, start: Start | None, now: Moment, by: str | None) -> Job:
    """Return the new job with the start that was given."""
    if start is None:
        return job
    if start.since is not None:
        from_last_run = job.definition.anchored_on is AnchoredOn.LAST_RUN
        job = replace(job, anchor=start.since) if from_last_run else job
        job = kept_since(job, start.since, start.not_before)
    if start.paused_because is not None:
        return paused(job, now, start.paused_because, by)
    return job if start.parked_because is None else replace(parked(job, start.parked_because), by=by)


def checked_pair(pair: object) -> tuple[JobId, Definition]:
    """Return an id and a definition. Raises `InvalidInput`."""
    match pair:
        case (job_id, Definition() as definition):
            return check_job_id(job_id), definition
        case _:
            raise InvalidInput(f"jobs: {pair!r} is not such a pair", field="jobs", value=pair, allowed=PAIRS)


def checked_starts(given: object, reasons: object) -> Mapping[str, Start]:
    """Return the start of jobs by id, with reasons for which some are paused. Raises `InvalidInput`."""
    because = _by_id("paused_because", reasons, "reasons")
    starts = {job_id: Start(paused_because=reason) for job_id, reason in because.items()}
    for job_id, start in _by_id("starts", given, "Start").items():
        if not isinstance(start, Start):
            raise InvalidInput(f"starts: {start!r} is no Start", field="starts", value=start, allowed="a Start")
        starts[job_id] = start
    for start in starts.values():
        _check_start(start)
    return starts


def _check_start(start: Start) -> None:
    for name in ("paused_because", "parked_because"):
        if (reason := getattr(start, name)) is not None:
            check_reason(name, reason)
    for name in ("since", "not_before"):
        if (moment := getattr(start, name)) is not None:
            moment_of(name, moment, "UTC")


def checked_limits(given: object) -> Mapping[str, int | None]:
    """Return the numbers of runs by id. Raises `InvalidInput`."""
    limits = _by_id("runs_remaining", given, "whole numbers")
    return {job_id: runs_remaining_in({"runs_remaining": number}) for job_id, number in limits.items()}


def _by_id(field: str, given: object, values: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        allowed = f"a dict of {values} by id"
        raise InvalidInput(f"{field}: {given!r} is not a mapping", field=field, value=given, allowed=allowed)
    return given
