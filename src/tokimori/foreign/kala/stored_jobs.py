"""Jobs as Kala itself keeps and shows them, as jobs of ours. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tokimori.clock import Moment, parse_moment
from tokimori.errors import InvalidInput
from tokimori.foreign.kala.shapes import KalaJob, Remote, Repeats, read_schedule
from tokimori.foreign.kala.translator import definition_of, job_request_in
from tokimori.model.job import Definition
from tokimori.model.policies import AnchoredOn

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_AS_IN_JSON = {
    "job_type": "type",
    "template_delimiters": "TemplateDelimiters",
    "remote_proporties": "remote_properties",
}
_OF_KALA = frozenset(name.casefold() for name in KalaJob.__struct_encode_fields__)
"""Members that are translated, and those in which Kala notes what became of runs."""
_OF_REMOTE = frozenset(Remote.__struct_encode_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """Job that Kala stored. `warnings` are the differences, as (member, value, reason).

    `last_run` is the moment from which its next run is counted, if it is.
    """

    definition: Definition
    runs_remaining: int | None
    disabled: bool
    last_run: Moment | None
    warnings: Sequence[tuple[str, object, str]]


def from_go(value: object) -> object:
    """Return a value with the names of Go's fields (`ParentJobs`), with those of JSON (`parent_jobs`)."""
    if isinstance(value, list):
        return [from_go(each) for each in value]
    if not isinstance(value, dict):
        return value
    names = {name: _WORD.sub("_", name).lower() for name in value}
    headers = {"Headers"}  # their names are data, and stay
    return {
        _AS_IN_JSON.get(ours, ours): each if name in headers and isinstance(each, dict) else from_go(each)
        for name, ours in names.items()
        for each in (value[name],)
    }


def parents_of(jobs: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the parents of each job: those that it names, and those that name it as dependent."""
    parents: dict[str, list[str]] = {}
    for job in jobs:
        job_id = job.get("id")
        for parent in _texts(job.get("parent_jobs")):
            parents.setdefault(str(job_id), []).append(parent)
        for child in _texts(job.get("dependent_jobs")):
            parents.setdefault(child, []).append(str(job_id))
    return {child: list(dict.fromkeys(each)) for child, each in parents.items()}


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def stored_job(job: Mapping[str, Any], parents: Sequence[str], now: Moment) -> StoredJob:
    """Return the job. Raises `InvalidInput`."""
    warnings: list[tuple[str, object, str]] = []
    given = msgspec.structs.replace(job_request_in(_readable(job, warnings)), parent_jobs=tuple(parents))
    repeats = None if given.parent_jobs or not given.schedule else read_schedule(given.schedule)
    finished = _finished(job)
    if repeats is not None and _is_over(job, repeats, finished, now):
        warnings.append(("schedule", given.schedule, "it has no more runs: here the job runs when it is asked to"))
        repeats = None
    elif not given.schedule and not given.parent_jobs:
        warnings.append(("schedule", given.schedule, "it ran once, when it was made: here it runs when it is asked to"))
    is_counted = repeats is not None and repeats.runs not in (None, 1)
    definition = definition_of(given, str(job.get("id")), repeats)
    return StoredJob(
        definition=definition,
        runs_remaining=repeats.runs - finished if is_counted and repeats and repeats.runs else None,
        disabled=given.disabled,
        last_run=_last_run(job, now) if definition.anchored_on is AnchoredOn.LAST_RUN else None,
        warnings=warnings,
    )


def _readable(job: Mapping[str, Any], warnings: list[tuple[str, object, str]]) -> dict[str, Any]:
    """Return the job with headers in the form of both versions, and add a warning for each unknown member."""
    fields = dict(job)
    for name, value in job.items():
        if name.casefold() not in _OF_KALA:
            fields.pop(name)
            if value not in (None, "", 0, False, [], {}):
                warnings.append((name, value, "it is not known, and was left out"))
    remote = fields.get("remote_properties")
    if isinstance(remote, Mapping):
        fields["remote_properties"] = {**remote, "headers": _headers(remote.get("headers"))}
        warnings += [
            (f"remote_properties.{name}", value, "it is not known, and was left out")
            for name, value in remote.items()
            if name not in _OF_REMOTE
        ]
    return fields


def _headers(headers: object) -> object:
    """Return headers by name. In 2015 they were a list of keys and values."""
    if not isinstance(headers, list):
        return headers
    found: dict[str, list[str]] = {}
    for each in headers:
        if not isinstance(each, Mapping):
            allowed = "names with lists of values"
            raise InvalidInput("remote_properties.headers: it is not allowed", field="headers", allowed=allowed)
        found.setdefault(str(each.get("key", "")), []).append(str(each.get("value", "")))
    return found


def _finished(job: Mapping[str, Any]) -> int:
    """Return the number of past runs. In 2015 only the list of results counted them."""
    metadata = job.get("metadata")
    counted = metadata.get("number_of_finished_runs") if isinstance(metadata, Mapping) else None
    if isinstance(counted, int) and counted > 0:
        return counted
    stats = job.get("stats")
    return len(stats) if isinstance(stats, list) else 0


def _last_run(job: Mapping[str, Any], now: Moment) -> Moment | None:
    """Return when Kala last tried to run the job: its next run is an interval later. Raises `InvalidInput`."""
    metadata = job.get("metadata")
    found = metadata.get("last_attempted_run") if isinstance(metadata, Mapping) else None
    text = found or job.get("last_attempted_run")  # in 2015 it stood beside the job
    moment = parse_moment(text, field="last_attempted_run") if isinstance(text, str) and text else Moment(0)
    return moment if 0 < moment <= now else None


def _is_over(job: Mapping[str, Any], repeats: Repeats, finished: int, now: Moment) -> bool:
    if job.get("is_done") is True or (repeats.runs == 1 and repeats.start < now):
        return True
    return repeats.runs is not None and finished >= repeats.runs
