"""Jobs as TOML texts: one job for a person to edit, with comments on further fields and on faults. Pure."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from difflib import unified_diff
from typing import Any, Final, NamedTuple

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.ids import JobId, check_job_id
from tokimori.model.job import schedule_of
from tokimori.service.definitions.definitions import definition_from, runs_remaining_in
from tokimori.service.definitions.toml import write_fields


class Hint(NamedTuple):
    """Hint on a field of a job: its form and its meaning."""

    name: str
    example: str
    meaning: str


HINTS: Final = (
    Hint("schedule", '"0 3 * * *"', "or: every 90 seconds; on friday at 22:00; R/2030-01-01T00:00:00Z/P1D; @daily"),
    Hint("time_zone", '"Europe/Paris"', "the zone of the schedule"),
    Hint("command", '"make report"', 'for the shell; or a program and its arguments: ["make", "report"]'),
    Hint("function", '"mail.send"', "instead of a command: a handler of an app"),
    Hint("url", '"https://example.org/hook"', "instead of a command: where a request goes"),
    Hint("name", '"Nightly report"', "for people"),
    Hint("description", '"What it is for"', "for people"),
    Hint("owner", '"ada"', "who is responsible"),
    Hint("queue", '"default"', "what is paused together"),
    Hint("labels", '{ region = "eu" }', "what the node must carry"),
    Hint("priority", "0", "-100 to 100; larger numbers run first"),
    Hint("timeout", "3600", "seconds that an attempt may take"),
    Hint("retry", "{ attempts = 3, delay = 10, backoff = 2, cap = 600 }", "seconds; how failures are tried again"),
    Hint("max_running", "1", "how many of its runs run at a time; 0: no limit"),
    Hint("max_waiting", "10", "how many more may wait"),
    Hint("on_overlap", '"skip"', "or queue, replace: occurrences above max_running"),
    Hint("misfire", '"latest"', "or all, skip: occurrences that were missed"),
    Hint("grace", "3600", "seconds; a missed occurrence that is later does not run"),
    Hint("semaphores", '["db", "gpu:2"]', "what a run holds while it runs"),
    Hint("calendars", '["holidays"]', "days on which nothing runs"),
    Hint("shift", '"next"', "instead of a day off; or previous"),
    Hint("parents", '[{ job = "import", on = "success" }]', "the jobs after which it runs"),
    Hint("join", '"any"', "or all: after each of the parents, or after all of them"),
    Hint("on_failure_job", '"alert"', "a job that runs after a failure"),
    Hint("on_exhausted", '"fail"', "or park: what becomes of the job after the last attempt"),
    Hint("payload", '"{}"', "JSON for each of its runs"),
    Hint("env", '{ LANG = "C" }', "the command's environment"),
    Hint("cwd", '"/srv/app"', "the command's folder; by default HOME"),
    Hint("user", '"www-data"', "the OS user; the node must run as root"),
    Hint("stdin", '"text"', "what the command reads"),
    Hint("method", '"POST"', "of the request; headers, body and expect, too"),
    Hint("starts_at", '"2030-01-01T00:00:00"', "no occurrence before; ends_at: none after"),
    Hint("delay", "60", "seconds from its nominal time to its start; jitter: up to so many more"),
    Hint("retention", '"P30D"', "how long runs are kept; keep_runs: how many are kept longer"),
)
"""Common fields; all others have the same names as over HTTP."""


_MARK = "#! "
"""How a comment on a fault begins: it is taken out before the text is read."""
_LINE = re.compile(r"at line (\d+)")
_CONTEXT = 5


class Edited(NamedTuple):
    """Content of a text: the id of the job, and its fields."""

    id: JobId
    fields: Mapping[str, Any]


def document(head: Sequence[str], fields: Mapping[str, object]) -> str:
    """Return the text: the head as comments, the fields that are set, and the other fields as comments."""
    others = [hint for hint in HINTS if hint.name not in fields]
    width = max((len(hint.name) + len(hint.example) for hint in others), default=0)
    return "".join(
        [
            *(f"# {line}".rstrip() + "\n" for line in head),
            "\n",
            write_fields(fields),
            "\n# What else may be said, without the # before it:\n",
            *(f"# {f'{hint.name} = {hint.example}':<{width + 3}}  # {hint.meaning}\n" for hint in others),
        ]
    )


def read_document(text: str, known: JobId | None = None) -> Edited:
    """Return the job in the text, checked as far as it can be without a store; `known` is its id, if it has one.

    Raises `InvalidInput`, whose field is that of the text.
    """
    try:
        fields = {name: _plain(value) for name, value in tomllib.loads(unmarked(text)).items()}
    except (tomllib.TOMLDecodeError, RecursionError) as fault:
        raise InvalidFile(f"not TOML: {fault}", field="file", allowed="lines such as name = value") from None
    given_id = fields.pop("id", known)
    if known is not None and given_id != known:
        message = f"id: {given_id!r} is not allowed: the job is {known!r}"
        raise InvalidInput(message, field="id", value=given_id, allowed=f"`tokimori job rename {known} NEW-ID`")
    job_id = check_job_id(given_id) if known is None else known
    runs_remaining_in(fields)
    definition = definition_from({name: value for name, value in fields.items() if name != "runs_remaining"})
    schedule_of(definition, Moment(0), job_id)
    return Edited(job_id, fields)


def marked(text: str, fault: InvalidInput) -> str:
    """Return the text with the fault as comments below its line, or at the top if it has none."""
    lines = unmarked(text).removesuffix("\n").split("\n")  # texts may hold what only Python takes for the end of a line
    allowed = [] if fault.allowed is None or fault.allowed in fault.message else [f"allowed: {fault.allowed}"]
    marked_lines = [f"{_MARK}{line}" for part in (fault.message, *allowed) for line in part.splitlines()]
    at = _place(lines, fault)
    return "".join(f"{line}\n" for line in [*lines[:at], *marked_lines, *lines[at:]])


def unmarked(text: str) -> str:
    """Return the text without comments on faults."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_MARK))


def changes(old: Mapping[str, object], new: Mapping[str, object], name: str) -> list[str]:
    """Return the unified diff of the two, with five lines of context; empty if they mean the same."""
    before, after = (write_fields(fields).splitlines() for fields in (old, new))
    return list(unified_diff(before, after, name, f"{name} (edited)", n=_CONTEXT, lineterm=""))


def _place(lines: Sequence[str], fault: InvalidInput) -> int:
    """Return the line below which the fault is shown."""
    if isinstance(fault, InvalidFile):
        found = _LINE.search(fault.message)
        return 0 if found is None else min(int(found[1]), len(lines))
    name = re.split(r"[.\[]", fault.field or "")[0]
    return next(_lines_of(lines, name), 0) if name else 0


def _lines_of(lines: Sequence[str], name: str) -> Iterator[int]:
    begins = re.compile(rf'\s*(\[\s*)?["\']?{re.escape(name)}\b')
    return (number for number, line in enumerate(lines, 1) if begins.match(line))


def _plain(value: object) -> object:
    """Return the value as JSON has it: dates and times, which TOML knows, become their texts."""
    match value:
        case Mapping():
            return {str(name): _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return value
