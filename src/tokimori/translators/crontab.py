"""Crontabs, read as Debian's cron 3.0pl1 reads them. Pure.

Every rule here was checked against that program: what `crontab FILE` accepts, and what `cron -f` hands to the shell of
a job. What it accepts without doing what the text says is refused: `22-2` never comes, `*5` is `*`, and a line without
a command runs nothing. More is accepted than there: cronie's `CRON_TZ` and `-` before the minute (no line in the
system's log), `NAME=` for an empty value, lines that end in CR LF, and a last line without an end.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePath
from typing import NoReturn

from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.job import Definition
from tokimori.model.policies import Misfire
from tokimori.model.target import Command
from tokimori.schedules.cron import MACROS
from tokimori.schedules.cron_fields import DAY, HOUR, MINUTE, MONTH, WEEKDAY, FieldKind
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.zones import check_zone

_DEFAULTS = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
_ZONE = "CRON_TZ"
_KINDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_WORDS = (*MACROS, "@reboot")
_LONGEST_FILE = 200  # leaves room in an id for what stands around it
_SPACES = " \t\r\v\f"  # those of C: Python's strip() takes more

_SETTING = re.compile(r"""(?:"([^="]*)"|'([^=']*)'|([^\s="'][^\s=]*|))\s*=\s*(.*)\Z""", re.ASCII)
_ENTRY = re.compile(r"-?(@[^ \t]*|(?:[^ \t]+[ \t]+){4}[^ \t]+)(?:[ \t]+(.*))?\Z")
_TERM = re.compile(r"(?:\*|([a-z]+|\d{1,4})(?:-([a-z]+|\d{1,4}))?)\Z", re.ASCII | re.IGNORECASE)
_STEP = re.compile(r"\d{1,4}\Z", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@-]*\$?\Z", re.ASCII)
_FIRST_WORD = re.compile(r"([^ \t]*)[ \t]*(.*)\Z")
_COMMAND = re.compile(r"(?:[^%\\]|\\.|\\\Z)*")
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9._:@+-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crontab:
    """What a crontab's text does not say about it.

    `file` names it for people; the last part of that becomes part of the ids. A `system` crontab names a user on each
    line; the jobs of any other belong to `owner` and run as `run_as` (None: as the node's user). `zone` is the
    machine's. `host` is the only one on which the jobs may run (None: any).
    """

    file: str
    zone: str
    owner: str
    system: bool = False
    run_as: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class _Setting:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line that defines a job; `user` is None in a crontab that is not the system's. `command` is as typed."""

    schedule: str
    user: str | None
    command: str


def read_crontab(text: str, crontab: Crontab) -> list[tuple[str, Definition]]:
    """The jobs of a crontab, in its order, with their ids. Raises `InvalidFile`, which names every bad line.

    An id is `crontab-<file>-<hash>`: the last part of the file's path, with `_` for characters that an id can't hold,
    then the first 8 hex digits of the SHA-256 of user, NUL and command, as typed, in UTF-8. Where a line above has that
    id already, `-2` follows, then `-3` and so on. Bytes that are not UTF-8 must have been decoded by `surrogateescape`.
    """
    settings: dict[str, str] = {}
    jobs: list[tuple[str, Definition]] = []
    faults: list[str] = []
    taken: Counter[str] = Counter()
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{crontab.file}:{number}"
        try:
            match _read_line(line.removesuffix("\r").lstrip(" \t"), crontab.system):
                case _Setting(name, value):
                    settings[name] = value
                case _Entry() as entry:
                    user = entry.user or crontab.owner
                    definition = _definition(entry, user, settings, crontab, place)
                    jobs.append((_job_id(crontab.file, user, entry.command, taken), definition))
                case None:
                    pass
        except InvalidInput as fault:
            allowed = "" if fault.allowed is None or fault.allowed in fault.message else f"; allowed: {fault.allowed}"
            faults.append(f"{place}: {fault.message}{allowed}")
    if faults:
        raise InvalidFile("\n".join(faults), field="file", value=crontab.file)
    return jobs


def _read_line(line: str, system: bool) -> _Setting | _Entry | None:
    if not line or line.startswith("#"):
        return None
    _check_characters(line)
    found = _SETTING.match(line)
    return _entry(line, system) if found is None else _setting(*found.groups(default=""))


def _check_characters(line: str) -> None:
    if "\0" in line:
        raise InvalidInput("line: it contains a NUL character", field="line", value=line, allowed="text")
    if any("\ud800" <= character <= "\udfff" for character in line):
        raise InvalidInput("line: it is not UTF-8", field="line", value=ascii(line), allowed="text in UTF-8")


# Settings


def _setting(in_double: str, in_single: str, bare: str, text: str) -> _Setting:
    """Read `NAME=value`: quotes keep blanks around name or value; nothing is expanded."""
    name = in_double or in_single or bare
    if not name:
        raise InvalidInput(f"name: the value {text!r} has no name", field="name", value="", allowed="NAME=value")
    value = _unquoted(text.strip(_SPACES))
    if name == _ZONE and value:
        check_zone(value, field=_ZONE)
    return _Setting(name, value)


def _unquoted(text: str) -> str:
    quote = text[:1]
    if quote not in ("'", '"'):
        return text
    inner, closed, rest = text[1:].partition(quote)
    if not closed or rest:
        allowed = f"no {quote}, or one at the beginning and one at the end"
        raise InvalidInput(f"value: {text!r} is badly quoted", field="value", value=text, allowed=allowed)
    return inner


# Entries


def _entry(line: str, system: bool) -> _Entry:
    found = _ENTRY.match(line)
    if found is None:
        allowed = "NAME=value, or five fields or an @word and then a command"
        raise InvalidInput(f"line: {line!r} is neither a setting nor a job", field="line", value=line, allowed=allowed)
    when, rest = found.groups(default="")
    schedule = _schedule(when)
    user, command = _user_and_command(rest) if system else (None, rest)
    if command.startswith("*"):
        allowed = "five fields, then a command"
        raise InvalidInput(f"command: {command!r} begins with *", field="command", value=command, allowed=allowed)
    if not _translated(command)[0].strip():
        raise InvalidInput("command: it is missing", field="command", value=command, allowed="a command")
    return _Entry(schedule, user, command)


def _user_and_command(rest: str) -> tuple[str, str]:
    found = _FIRST_WORD.match(rest)
    user, command = found.groups() if found else ("", "")
    if _USER.match(user) is None:
        allowed = "the name of a user, as before every command of a system crontab"
        raise InvalidInput(f"user: {user!r} is not a user's name", field="user", value=user, allowed=allowed)
    return user, command


def _schedule(text: str) -> str:
    """The schedule, checked, with single blanks. What can be wrong with it does not depend on a zone."""
    if text.startswith("@"):
        if text not in _WORDS:
            allowed = f"one of {', '.join(_WORDS)}"
            raise InvalidInput(
                f"schedule: {text!r} is not a word of cron's", field="schedule", value=text, allowed=allowed
            )
        return text
    fields = text.split()
    for kind, field in zip(_KINDS, fields, strict=True):
        for term in field.split(","):
            if not _is_allowed(kind, term):
                _refuse(kind, term)
    schedule = " ".join(fields)
    parse_schedule(schedule)
    return schedule


def _is_allowed(kind: FieldKind, term: str) -> bool:
    """Whether cron does what the term says: a step needs a range, and no range goes over the end of its field."""
    values, slash, step = term.partition("/")
    found = _TERM.match(values)
    if found is None or (slash and _STEP.match(step) is None):
        return False
    low, high = found.groups()
    if low is None:
        return True
    first, last = _value(kind, low), _value(kind, low if high is None else high)
    return first is not None and last is not None and first <= last and not (slash and high is None)


def _value(kind: FieldKind, text: str) -> int | None:
    if not text.isdigit():
        return kind.low + kind.names.index(text.lower()) if text.lower() in kind.names else None
    return int(text) if kind.low <= int(text) <= kind.high else None


def _refuse(kind: FieldKind, term: str) -> NoReturn:
    names = f" or {kind.names[0]}-{kind.names[-1]}" if kind.names else ""
    allowed = f"*, {kind.low}-{kind.high}{names}, lists, ascending ranges, and / after * or a range"
    raise InvalidInput(f"{kind.name}: {term!r} is not allowed in cron", field=kind.name, value=term, allowed=allowed)


def _translated(command: str) -> tuple[str, str | None]:
    r"""The shell's command and its standard input: the first bare `%` separates them, further ones are line ends.

    `\%` is a percent sign; before the first bare `%`, `\\` is one backslash.
    """
    found = _COMMAND.match(command)
    shell = found.group() if found else ""
    data = command[len(shell) + 1 :]
    shell = re.sub(r"\\([%\\])", r"\1", shell)
    if not data:
        return shell, None
    data = re.sub(r"\\%|%", lambda sign: "\n" if sign.group() == "%" else "%", data)
    written = data.rstrip("\\")  # backslashes at the end don't count as the start of a line
    return shell, data + "\n" if written and not written.endswith("\n") else data


# Jobs


def _definition(entry: _Entry, user: str, settings: Mapping[str, str], crontab: Crontab, place: str) -> Definition:
    """A job under cron's rules: any number of runs at a time, and missed occurrences are skipped."""
    shell, stdin = _translated(entry.command)
    return Definition(
        schedule=entry.schedule,
        time_zone=settings.get(_ZONE) or crontab.zone,
        description=place,
        owner=user,
        misfire=Misfire.SKIP,
        max_running=0,
        labels={} if crontab.host is None else {"host": crontab.host},
        mailto=settings.get("MAILTO"),
        target=Command(
            shell=shell,
            shell_path=settings.get("SHELL") or _DEFAULTS["SHELL"],
            env=_environment(settings, user, crontab.zone),
            user=entry.user or crontab.run_as,
            stdin=stdin,
        ),
    )


def _environment(settings: Mapping[str, str], user: str, zone: str) -> dict[str, str]:
    """Cron's defaults, then the settings, then LOGNAME, which no setting can change.

    `CRON_TZ` is for the schedule only: the command's own TZ stays the machine's.
    """
    clock = {"TZ": zone} if settings.get(_ZONE) else {}
    return {**_DEFAULTS, **clock, **settings, "LOGNAME": user}


def _job_id(file: str, user: str, command: str, taken: Counter[str]) -> str:
    name = _NOT_IN_AN_ID.sub("_", PurePath(file).name)[:_LONGEST_FILE]
    digits = sha256(f"{user}\0{command}".encode()).hexdigest()[:8]
    job_id = f"crontab-{name}-{digits}"
    taken[job_id] += 1
    return job_id if taken[job_id] == 1 else f"{job_id}-{taken[job_id]}"
