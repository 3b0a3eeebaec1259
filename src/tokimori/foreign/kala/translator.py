"""Translation of Kala's jobs and commands to ours. Pure."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.foreign.kala.shapes import REMOTE, JobRequest, Remote, Repeats, epsilon_seconds, read_schedule
from tokimori.model.encoding import invalid_json
from tokimori.model.job import Definition
from tokimori.model.sizes import check_depth
from tokimori.model.words import LONGEST_WORD, json_fault
from tokimori.service.definitions.definitions import definition_from


def filled(field: str, text: str, request: JobRequest, job_id: str) -> str:
    """Return the text with members of the job in place of their names. Raises `InvalidInput`."""
    if not request.delimiters:
        return text
    pair = request.delimiters.split(" ")
    if len(pair) != 2 or not all(pair):
        raise InvalidInput(
            "TemplateDelimiters: Job has invalid templating delimiters.",
            field="TemplateDelimiters",
            value=request.delimiters,
            allowed="two, with a blank between them, such as {{ }}",
        )
    facts = _facts(request, job_id)
    left, right = map(re.escape, pair)
    place = re.compile(rf"(?:\s*{left}-\s|{left})(.*?)(?:\s-{right}\s*|{right})", re.DOTALL)

    def fact(found: re.Match[str]) -> str:
        name = found[1].strip().removeprefix("$")  # of Go: the job itself, which is the dot here
        if name in facts:
            return facts[name]
        message = f"{field}: {name!r} is not known when the job is added"
        allowed = f"one of {', '.join(facts)} between the delimiters"
        raise InvalidInput(message, field=field, value=name, allowed=allowed)

    return place.sub(fact, text)


def _facts(request: JobRequest, job_id: str) -> dict[str, str]:
    """Return the value of each name, as Go would write it."""
    return {
        ".Name": request.name,
        ".Id": job_id,
        ".Command": request.command,
        ".Owner": request.owner,
        ".Disabled": str(request.disabled).lower(),
        ".Schedule": request.schedule,
        ".Retries": str(request.retries),
        ".Epsilon": request.epsilon,
        ".OnFailureJob": request.on_failure_job,
    }


TIMEOUT = 30
"""Seconds that a request may take where its job says nothing."""
EXPECTED = (200,)
"""The statuses that are a success where its job says nothing."""
LATE_AFTER = 5
"""Seconds after which a job that resumes at its next time has missed one."""

_Shape = TypeVar("_Shape", bound=Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """Job to add. `runs_now`: it has no schedule, and runs once, at once."""

    definition: Definition
    runs_remaining: int | None
    disabled: bool
    runs_now: bool


def read_job_request(body: bytes) -> JobRequest:
    """Return a program's request. Names are compared without case, unknown ones ignored. Raises `InvalidInput`."""
    check_depth(body)
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise InvalidInput(f"the body is not JSON: {json_fault(fault, body)}", allowed="a JSON object") from None
    return job_request_in(content)


def job_request_in(said: object) -> JobRequest:
    """Return the request in this value, as `read_job_request` reads it. Raises `InvalidInput`."""
    return _read(said, JobRequest)


def new_job(request: JobRequest, job_id: str, now: Moment, default_owner: str | None = None) -> NewJob:
    """Return the job to add. Raises `InvalidInput`."""
    _check(request)
    repeats = None if request.parent_jobs or not request.schedule else read_schedule(request.schedule)
    if repeats is not None and repeats.start < now:
        message = f"schedule: its start {request.schedule.split('/')[1]} has passed"
        raise InvalidInput(message, field="schedule", value=request.schedule, allowed="a start in the future")
    return NewJob(
        definition=definition_of(request, job_id, repeats, default_owner),
        runs_remaining=None if repeats is None or repeats.runs == 1 else repeats.runs,
        disabled=request.disabled,
        runs_now=not (request.disabled or request.schedule or request.parent_jobs),
    )


def definition_of(
    request: JobRequest, job_id: str, repeats: Repeats | None, default_owner: str | None = None
) -> Definition:
    """Return the definition, which holds the request. Raises `InvalidInput`."""
    _check(request)
    fields = {
        "name": request.name,
        "owner": request.owner or default_owner or None,
        "time_zone": "UTC",
        "parents": [{"job": parent} for parent in request.parent_jobs],
        "semaphores": [line_of_children(parent) for parent in dict.fromkeys(request.parent_jobs)],
        "on_failure_job": request.on_failure_job or None,
        "retry": _retry(request, repeats),
        **_times(repeats, resumes=request.resume_at_next_scheduled_time),
        **target_of(request, job_id),
    }
    return msgspec.structs.replace(definition_from(fields), foreign=msgspec.json.encode(request).decode())


def makes_up(definition: Definition) -> bool:
    """Return whether an enabled job makes up for a missed time at once. One on a fixed grid does not."""
    return definition.foreign is not None and not job_request_of(definition.foreign).resume_at_next_scheduled_time


def line_of_children(parent: str) -> str:
    """Return the semaphore of a job's children: they run one at a time, in the order of their adding."""
    name = f"v1-children-of-{parent}"
    return name if len(name) <= LONGEST_WORD else sha256(name.encode()).hexdigest()


@lru_cache(maxsize=1024)
def job_request_of(foreign: str | None) -> JobRequest:
    """Return the request behind a job (`Definition.foreign`); an empty one for jobs added elsewhere."""
    try:
        return JobRequest() if foreign is None else msgspec.json.decode(foreign, type=JobRequest)
    except msgspec.DecodeError:
        return JobRequest()


def target_of(request: JobRequest, job_id: str) -> dict[str, Any]:
    """Return the fields of our job that are its target. Raises `InvalidInput`."""
    if request.type != REMOTE:
        return {"command": list(arguments_of(filled("command", request.command, request, job_id)))}
    remote = request.remote_properties
    headers = {name: ", ".join(values) for name, values in (remote.headers or {}).items()}
    if not any(name.casefold() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    return {
        "url": filled("remote_properties.url", remote.url, request, job_id),
        "method": remote.method.upper() or "GET",
        "headers": headers,
        "body": filled("remote_properties.body", remote.body, request, job_id) or None,
        "expect": list(remote.expected_response_codes or EXPECTED),
        "timeout": remote.timeout or TIMEOUT,
    }


def _check(request: JobRequest) -> None:
    """Check that nothing is missing. Raises `InvalidInput`."""
    if not request.name:
        raise InvalidInput("name: it is missing", field="name", value=request.name, allowed="a text that is not empty")
    if request.type == REMOTE and not request.remote_properties.url:
        field = "remote_properties.url"
        raise InvalidInput(f"{field}: it is missing", field=field, value="", allowed="the address of a service")
    if request.type != REMOTE and not request.command:
        raise InvalidInput("command: it is missing", field="command", value="", allowed="a program and its arguments")


def _times(repeats: Repeats | None, *, resumes: bool) -> dict[str, Any]:
    """Return the times of the job: never twice at a time, and as Kala counts, one interval after the last run.

    One that `resumes` at its next scheduled time keeps to its grid instead.
    """
    if repeats is None:
        return {"max_running": 1}
    times: dict[str, Any] = {"schedule": repeats.text, "max_running": 1}
    if resumes:
        return {**times, "misfire": "skip", "late_after": LATE_AFTER, "on_overlap": "skip"}
    anchor = {} if repeats.runs == 1 else {"anchored_on": "last run"}
    return {**times, **anchor, "misfire": "latest", "on_overlap": "queue", "max_waiting": 1}


def _retry(request: JobRequest, repeats: Repeats | None) -> dict[str, Any]:
    """Return the retries: further attempts follow at once. An epsilon counts only for a schedule."""
    epsilon = None if repeats is None else epsilon_seconds(request.epsilon)
    return {"attempts": request.retries + 1, **({} if epsilon is None else {"epsilon": epsilon})}


def _read(said: object, kind: type[_Shape]) -> _Shape:
    """Return the value. Members may be in any case, and null means absent, as in Go. Raises `InvalidInput`."""
    if not isinstance(said, Mapping):
        raise InvalidInput("the body is not a JSON object", allowed="a JSON object")
    known = {name.casefold(): name for name in kind.__struct_encode_fields__}
    given = {known[name.casefold()]: value for name, value in said.items() if name.casefold() in known}
    given = {name: value for name, value in given.items() if value is not None}
    if kind is JobRequest and "remote_properties" in given:
        given["remote_properties"] = _read(given["remote_properties"], Remote)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as fault:
        raise invalid_json(fault, given) from None


_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_ALLOWED = "a program and its arguments, with both quotes around what is quoted"


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a word: a text, the name of a variable, or a command (`substitution`) whose output it is."""

    kind: Literal["text", "variable", "substitution"]
    text: str


Word = list[Part]


@lru_cache(maxsize=1024)
def arguments_of(command: str) -> tuple[str, ...]:
    """Return the program and its arguments. Raises `InvalidInput`.

    A word with a variable or a command in back-ticks is known when the run starts. A shell then puts the value there,
    and does nothing else.
    """
    words = list(_words(command))
    if not words:
        raise InvalidInput("command: it is empty", field="command", value=command, allowed=_ALLOWED)
    if all(part.kind == "text" for word in words for part in word):
        return tuple("".join(part.text for part in word) for word in words)
    return ("/bin/sh", "-c", " ".join(["exec", *map(_quoted, words)]))


def _words(command: str) -> Iterator[Word]:
    """Yield the words. Quotes keep blanks. A backslash keeps the next character, except in single quotes."""
    word: Word | None = None
    place = 0
    while place < len(command):
        character = command[place]
        if character in " \t\r\n":
            if word is not None:
                yield word
            word = None
            place += 1
            continue
        parts, place = _next(command, place)
        word = [*(word or []), *parts]
    if word is not None:
        yield word


def _next(command: str, place: int) -> tuple[Sequence[Part], int]:
    """Return the parts that begin at this place, and the place of the next ones."""
    match command[place]:
        case "'":
            end = _end(command, place)
            return _parts(command[place + 1 : end]), end + 1
        case "`":
            end = _end(command, place)
            return [Part("substitution", command[place + 1 : end])], end + 1
        case '"':
            return _in_double_quotes(command, place)
        case "\\":
            if place + 1 == len(command):
                raise _unfinished(command)
            return [Part("text", command[place + 1])], place + 2
        case _:
            end = place + 1
            while end < len(command) and command[end] not in " \t\r\n'\"`\\":
                end += 1
            return _parts(command[place:end]), end


def _in_double_quotes(command: str, place: int) -> tuple[Sequence[Part], int]:
    parts: Word = [Part("text", "")]
    place += 1
    while place < len(command) and command[place] != '"':
        if command[place] == "\\" and place + 1 < len(command):
            parts.append(Part("text", command[place + 1]))
            place += 2
            continue
        end = place + 1
        while end < len(command) and command[end] not in '"\\':
            end += 1
        parts += _parts(command[place:end])
        place = end
    if place >= len(command):
        raise _unfinished(command)
    return parts, place + 1


def _parts(text: str) -> Sequence[Part]:
    """Return a text with its variables, which Kala finds in single quotes too."""
    parts, place = [], 0
    for found in _VARIABLE.finditer(text):
        parts += [Part("text", text[place : found.start()]), Part("variable", found[1] or found[2])]
        place = found.end()
    return [*parts, Part("text", text[place:])]


def _end(command: str, place: int) -> int:
    end = command.find(command[place], place + 1)
    if end < 0:
        raise _unfinished(command)
    return end


def _unfinished(command: str) -> InvalidInput:
    return InvalidInput("command: a quote has no end", field="command", value=command, allowed=_ALLOWED)


def _quoted(word: Word) -> str:
    """Return the word quoted for a shell: it stays one word for all values of its variables."""
    return "".join(_quoted_part(part) for part in word if part.text or part.kind == "text") or "''"


def _quoted_part(part: Part) -> str:
    match part.kind:
        case "text":
            return shlex.quote(part.text) if part.text else ""
        case "variable":
            return f'"${{{part.text}}}"'
        case "substitution":
            return f'"$(/bin/sh -c {shlex.quote(part.text)})"'
