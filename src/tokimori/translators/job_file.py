"""Files that declare jobs and resources, as `export` writes them: TOML, YAML or JSON. Pure.

set = "prod"                            # may also be said by whoever applies the file

[calendars.holidays]
dates = ["12-25", "12-26"]

[semaphores.printer]
limit = 2

[queues.mail]
paused = true
reason = "moving the server"

[[jobs]]
id = "nightly"
schedule = "0 3 * * *"
command = "make report"
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import count
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.job import schedule_of
from tokimori.model.words import check_word
from tokimori.service.definitions.definitions import definition_from, runs_remaining_in
from tokimori.service.sets.resource_kinds import PARTS, Part, shown_state, state_of
from tokimori.translators.yaml_tree import Faults, Value, read_documents

Format = Literal["toml", "yaml", "json"]
FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
)
"""The formats by the ending of a file's name."""
_TOP: Final = ("set", *PARTS, "jobs")
_LIKE_TOML = re.compile(r"\[|[A-Za-z0-9_.\"'-]+\s*=")
_SHOWN = 80
_MOST_VALUES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJob:
    """Job of a file: its id, its fields, and its place, such as `jobs.toml: jobs[2]`."""

    id: JobId
    fields: Mapping[str, Any]
    file: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredResource:
    """A resource of a file: a calendar, a queue or a semaphore."""

    part: Part
    name: str
    fields: Mapping[str, Any]
    file: str

    @property
    def path(self) -> str:
        """Return its place, such as `calendars.holidays`."""
        return f"{self.part}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """Content of a file: the set of its jobs, if it names one, the jobs, and the resources."""

    set: str | None
    jobs: Sequence[DeclaredJob]
    resources: Sequence[DeclaredResource] = ()


def format_of(name: str, text: str) -> Format:
    """Return the format of a file, by the ending of its name, else by its first line."""
    for ending, known in FORMATS.items():
        if name.casefold().endswith(ending):
            return known
    first = next((line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")), "")
    if first.startswith("{"):
        return "json"
    return "toml" if _LIKE_TOML.match(first) else "yaml"


def read_job_file(text: str, *, file: str, form: Format | None = None) -> JobFile:
    """Return the jobs of a file. Raises `InvalidFile`: its message has a line for each fault, its field is the first's.

    Checks that need a store, such as of a calendar's existence, are not made.
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidFile(f"{file}: it is not UTF-8", field="file", value=file, allowed="a text in UTF-8")
    content = _READERS[form or format_of(file, text)](text, file)
    faults = [*_faults_of_the_top(content, file)]
    if faults:
        raise together(faults)
    jobs: list[DeclaredJob] = []
    for number, fields in enumerate(content.get("jobs", [])):
        try:
            jobs.append(_job(fields, file, f"jobs[{number}]"))
        except InvalidFile as fault:
            faults.append(fault)
    resources: list[DeclaredResource] = []
    for part, name, fields in _named(content):
        try:
            resources.append(_resource(part, name, fields, file))
        except InvalidFile as fault:
            faults.append(fault)
    if faults:
        raise together(faults)
    return JobFile(set=content.get("set"), jobs=jobs, resources=resources)


def together(faults: Sequence[InvalidFile]) -> InvalidFile:
    """Return one error for all these faults, with the field of the first."""
    first = faults[0]
    message = "\n".join(fault.message for fault in faults)
    return InvalidFile(message, field=first.field, value=first.value, allowed=first.allowed)


def fault_in(job: DeclaredJob, fault: InvalidInput) -> InvalidFile:
    """Return a fault of a job, with the place in its file."""
    return _fault(job.file, job.path, fault, job.id)


def _fault(file: str, path: str, fault: InvalidInput, job_id: str | None = None) -> InvalidFile:
    field = path if fault.field is None else f"{path}.{fault.field}"
    of = "" if job_id is None else f" of {job_id}"
    allowed = "" if fault.allowed is None or fault.allowed in fault.message else f"; allowed: {fault.allowed}"
    message = f"{file}: {path}{of}: {fault.message}{allowed}"
    return InvalidFile(message, field=field, value=fault.value, allowed=fault.allowed)


def _wrong(file: str, path: str, value: object, allowed: str) -> InvalidFile:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    message = f"{file}: {path}: {shown} is not allowed; allowed: {allowed}"
    return InvalidFile(message, field=path, value=value, allowed=allowed)


def _faults_of_the_top(content: Mapping[str, Any], file: str) -> Iterator[InvalidFile]:
    for name in content:
        if name not in _TOP:
            yield _wrong(file, name, content[name], f"one of {', '.join(_TOP)}")
    if not isinstance(content.get("jobs", []), list):
        yield _wrong(file, "jobs", content["jobs"], "a list of jobs, each with its id")
    for part in PARTS:
        if not isinstance(content.get(part, {}), Mapping):
            yield _wrong(file, part, content[part], f"{part} by name, each with its fields")
    if "set" in content:
        try:
            check_word("set", content["set"])
        except InvalidInput as fault:
            yield _wrong(file, "set", content["set"], str(fault.allowed))


def _job(fields: object, file: str, path: str) -> DeclaredJob:
    """Return the job, checked as far as it can be without a store. Raises `InvalidFile`."""
    if not isinstance(fields, Mapping):
        raise _wrong(file, path, fields, "the fields of a job, and its id")
    try:
        job_id = check_job_id(fields.get("id"))
    except InvalidInput as fault:
        raise _fault(file, path, fault) from None
    terms = {name: value for name, value in fields.items() if name != "id"}
    try:
        runs_remaining_in(terms)
        definition = definition_from({name: value for name, value in terms.items() if name != "runs_remaining"})
        schedule_of(definition, Moment(0), job_id)
    except InvalidInput as fault:
        raise _fault(file, path, fault, job_id) from None
    return DeclaredJob(id=job_id, fields=terms, file=file, path=path)


def _named(content: Mapping[str, Any]) -> Iterator[tuple[Part, str, object]]:
    for part in PARTS:
        yield from ((part, name, fields) for name, fields in content.get(part, {}).items())


def _resource(part: Part, name: str, fields: object, file: str) -> DeclaredResource:
    """Return the resource, checked. Raises `InvalidFile`."""
    try:
        return DeclaredResource(part=part, name=name, fields=shown_state(state_of(part, name, fields)), file=file)
    except InvalidInput as fault:
        raise _fault(file, part if fault.value == name else f"{part}.{name}", fault) from None


# The formats


def _read_toml(text: str, file: str) -> Mapping[str, Any]:
    try:
        return cast("Mapping[str, Any]", _plain(tomllib.loads(text), count()))
    except (tomllib.TOMLDecodeError, RecursionError) as fault:
        raise _unreadable(file, "TOML", fault) from None


def _read_json(text: str, file: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as fault:
        raise _unreadable(file, "JSON", fault) from None
    return _top(found, file)


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return the members of an object. Raises `ValueError` for one that is there twice."""
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{name!r} is given twice")
        members[name] = value
    return members


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number of JSON")


def _read_yaml(text: str, file: str) -> Mapping[str, Any]:
    faults = Faults(file)
    documents = list(read_documents(text, faults))
    if faults.lines:
        raise InvalidFile("\n".join(faults.texts()), field="file", value=file)
    if len(documents) > 1:
        raise _wrong(file, "file", len(documents), "one document of YAML in each file")
    try:
        return _top(_plain(documents[0], iter(range(_MOST_VALUES))) if documents else {}, file)
    except OverflowError:
        raise InvalidFile(f"{file}: its aliases stand for too many values", field="file", value=file) from None


def _top(found: object, file: str) -> Mapping[str, Any]:
    if isinstance(found, Mapping):
        return found
    raise _wrong(file, "file", found, f"a mapping with {' and '.join(_TOP)}")


def _plain(value: object, budget: Iterator[int]) -> object:
    """Return a library's value as JSON has it: dates and times, which TOML and YAML know, become their texts.

    Aliases of YAML may use a value many times, so values are counted against a budget. Raises `OverflowError`.
    """
    if next(budget, None) is None:
        raise OverflowError
    match value:
        case Value():
            return _plain(value.content, budget)
        case Mapping():
            return {str(name): _plain(each, budget) for name, each in value.items()}
        case list():
            return [_plain(each, budget) for each in value]
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return value


def _unreadable(file: str, form: str, fault: Exception) -> InvalidFile:
    why = "it is nested too deeply" if isinstance(fault, RecursionError) else str(fault)
    return InvalidFile(f"{file}: not {form}: {why}", field="file", value=file)


_READERS: Final[Mapping[Format, Callable[[str, str], Mapping[str, Any]]]] = MappingProxyType(
    {"toml": _read_toml, "yaml": _read_yaml, "json": _read_json}
)
