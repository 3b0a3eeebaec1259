"""Crontabs, read as one of four programs reads them. Pure.

Every rule here was checked against Debian's cron 3.0pl1: the files that `crontab FILE` accepts, and the command that
`cron -f` passes to the shell. cronie differs in backslashes, random values (`0~30`) and RANDOM_DELAY. busybox and
supercronic know no `%`, and supercronic takes seconds and years, and runs no job beside itself.

Lines that Debian's cron accepts and then ignores are refused: `22-2` never comes, `*5` is `*`, and a line without a
command runs nothing. Also accepted are cronie's `CRON_TZ` and `-` before the minute (no line in the system's log),
`NAME=` for an empty value, lines that end in CR LF, and a last line without an end.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NoReturn

from tokimori.errors import InvalidInput
from tokimori.model.job import Definition
from tokimori.model.policies import Misfire
from tokimori.model.target import Command
from tokimori.schedules.cron import MACROS
from tokimori.schedules.cron_fields import DAY, HOUR, MINUTE, MONTH, WEEKDAY, FieldKind
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.zones import check_zone
from tokimori.translators.crontab_ids import PROGRAMS, numbered, program_of
from tokimori.translators.entries import Entry, Moved, Warnings, checked, entries, shown

_DEFAULTS = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
_ZONE = "CRON_TZ"
_KINDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_WORDS = (*MACROS, "@reboot")
_SPACES = " \t\r\v\f"  # those of C: Python's strip() takes more

_SETTING = re.compile(r"""(?:"([^="]*)"|'([^=']*)'|([^\s="'][^\s=]*|))\s*=\s*(.*)\Z""", re.ASCII)
_ENTRY = re.compile(r"-?(@[^ \t]*|(?:[^ \t]+[ \t]+){4}[^ \t]+)(?:[ \t]+(.*))?\Z")
_TERM = re.compile(r"(?:\*|([a-z]+|\d{1,4})(?:-([a-z]+|\d{1,4}))?)\Z", re.ASCII | re.IGNORECASE)
_STEP = re.compile(r"\d{1,4}\Z", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@-]*\$?\Z", re.ASCII)
_OF_THE_SYSTEM = re.compile(r"(?:root|www-data|nobody|daemon|ubuntu|ec2-user|vagrant)[ \t]+[^-\s]")
"""A command that begins with a user whose name is no program's: of a system crontab that is read as a user's."""
_FIRST_WORD = re.compile(r"([^ \t]*)[ \t]*(.*)\Z")
_COMMAND = re.compile(r"(?:[^%\\]|\\.|\\\Z)*")
_OF_CRONEXPR = re.compile(r"(?:\?|LW?|\d{1,2}W|[A-Z0-9]{1,3}(?:L|#[1-5]))\Z", re.ASCII | re.IGNORECASE)
_BEHIND = re.compile(r"(?<![&>|\\])&\s*\Z")
_RANDOM = re.compile(r"(\d{0,2})~(\d{0,2})\Z", re.ASCII)
_STEPS = re.compile(r"\d{1,2}/\d{1,4}\Z", re.ASCII)
"""A step from a single number, which supercronic and this library take to the end of the field."""


class CrontabDialect(StrEnum):
    """The program that ran a crontab."""

    DEBIAN = "debian"
    CRONIE = "cronie"
    BUSYBOX = "busybox"
    SUPERCRONIC = "supercronic"


_ONE_ZONE = (CrontabDialect.DEBIAN, CrontabDialect.BUSYBOX)
"""Programs that read `CRON_TZ` as any other variable of the commands."""
PASSING_ON = (CrontabDialect.BUSYBOX, CrontabDialect.SUPERCRONIC)
"""Programs whose commands get the PATH, and supercronic's the whole environment, of the program itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crontab:
    """Facts of a crontab beside its text.

    `file` names it for people; the last part of that becomes part of the ids. A `system` crontab names a user on each
    line; the jobs of any other belong to `owner` and run as `run_as` (None: as the node's user). `zone` is the
    machine's. `host` is the only one on which the jobs may run (None: any). `prefix` stands before each id.
    """

    file: str
    zone: str
    owner: str
    system: bool = False
    run_as: str | None = None
    host: str | None = None
    dialect: CrontabDialect = CrontabDialect.CRONIE
    prefix: str = ""


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


def read_crontab(text: str, crontab: Crontab, taken: Counter[str] | None = None) -> Iterator[Entry]:
    """Read the jobs of a crontab, in its order. A line that can't be one is refused.

    An id is the name of the program, such as `backup-sh`. If a line above has that id already, `-2` follows, then `-3`
    and so on; `taken` are the ids of all files. Bytes that are not UTF-8 must have been decoded by `surrogateescape`.
    """
    settings: dict[str, str] = {}
    ids = Counter[str]() if taken is None else taken
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{crontab.file}:{number}"
        yield from entries(place, partial(_entries, line, place, settings, crontab, ids))


def _entries(line: str, place: str, settings: dict[str, str], crontab: Crontab, taken: Counter[str]) -> Iterator[Entry]:
    match _read_line(line.removesuffix("\r").lstrip(" \t"), crontab):
        case _Setting(name, value):
            settings[name] = value
        case _Entry() as entry:
            definition = _definition(entry, entry.user or crontab.owner, settings, crontab, place)
            name = crontab.prefix + program_of(_translated(entry.command, crontab.dialect)[0])
            warnings, job_id = tuple(_warnings(entry, settings, crontab)), numbered(name, taken)
            yield checked(Moved(place=place, job_id=job_id, definition=definition, warnings=warnings, family=name))
        case None:
            pass


def _read_line(line: str, crontab: Crontab) -> _Setting | _Entry | None:
    if not line or line.startswith("#"):
        return None
    _check_characters(line)
    found = _SETTING.match(line)
    return _entry(line, crontab) if found is None else _setting(*found.groups(default=""))


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


def _entry(line: str, crontab: Crontab) -> _Entry:
    if crontab.dialect is CrontabDialect.SUPERCRONIC and (entry := _of_supercronic(line, crontab)) is not None:
        return entry
    found = _ENTRY.match(line)
    if found is None:
        allowed = "NAME=value, or five fields or an @word and then a command"
        raise InvalidInput(f"line: {line!r} is neither a setting nor a job", field="line", value=line, allowed=allowed)
    when, rest = found.groups(default="")
    schedule = _schedule(when, crontab.dialect)
    user, command = _user_and_command(rest) if crontab.system else (None, rest)
    if command.startswith("*"):
        allowed = "five fields, then a command"
        raise InvalidInput(f"command: {command!r} begins with *", field="command", value=command, allowed=allowed)
    if not _translated(command, crontab.dialect)[0].strip():
        raise InvalidInput("command: it is missing", field="command", value=command, allowed="a command")
    if command.startswith("-"):
        allowed = "a command: the options -n, -q and -s of BSD's cron have no equal here"
        raise InvalidInput(f"command: {command!r} begins with -", field="command", value=command, allowed=allowed)
    if user is None and crontab.run_as is None and _OF_THE_SYSTEM.match(command):
        allowed = "--system, which reads the name of a user before each command"
        raise InvalidInput(
            f"command: {command!r} begins with the name of a user", field="command", value=command, allowed=allowed
        )
    return _Entry(schedule, user, command)


def _user_and_command(rest: str) -> tuple[str, str]:
    found = _FIRST_WORD.match(rest)
    user, command = found.groups() if found else ("", "")
    if _USER.match(user) is None or user in PROGRAMS:
        allowed = "the name of a user, as before every command of a system crontab; without --system lines have none"
        raise InvalidInput(f"user: {user!r} is not a user's name", field="user", value=user, allowed=allowed)
    return user, command


def _of_supercronic(line: str, crontab: Crontab) -> _Entry | None:
    """Read a line whose schedule has seconds and a year, or a year, as supercronic does; None: it has neither."""
    words = line.split(None, 7)
    for count in (7, 6):
        text = " ".join(["0"] * (7 - count) + words[:count])
        if len(words) > count and _is_schedule(text):
            user, command = _user_and_command(" ".join(words[count:])) if crontab.system else (None, line)
            return _Entry(text, user, command if crontab.system else line.split(None, count)[count])
    return None


def _is_schedule(text: str) -> bool:
    try:
        parse_schedule(text)
    except InvalidInput:
        return False
    return True


def _schedule(text: str, dialect: CrontabDialect) -> str:
    """Return the schedule, checked, with single blanks. The check needs no zone."""
    if text.startswith("@"):
        if text not in _WORDS:
            allowed = f"one of {', '.join(_WORDS)}"
            raise InvalidInput(
                f"schedule: {text!r} is not a word of cron's", field="schedule", value=text, allowed=allowed
            )
        return text
    fields = text.split()
    named = zip(_KINDS, fields, strict=True)
    schedule = " ".join(",".join(_term(kind, term, dialect) for term in field.split(",")) for kind, field in named)
    parse_schedule(schedule)
    return schedule


def _term(kind: FieldKind, term: str, dialect: CrontabDialect) -> str:
    """Return the term; cronie's random `0~30` is `H(0-30)`, and supercronic's library knows `?`, L, W and #."""
    if dialect is CrontabDialect.CRONIE and (found := _RANDOM.match(term)):
        return f"H({found[1] or kind.low}-{found[2] or kind.high})"
    if dialect is CrontabDialect.SUPERCRONIC and kind in (DAY, WEEKDAY) and _OF_CRONEXPR.match(term):
        return term
    if not _is_allowed(kind, term) and (dialect is not CrontabDialect.SUPERCRONIC or not _STEPS.match(term)):
        _refuse(kind, term)
    return term


def _is_allowed(kind: FieldKind, term: str) -> bool:
    """Return if cron honours the term: a step needs a range, and no range wraps round."""
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


def _translated(command: str, dialect: CrontabDialect) -> tuple[str, str | None]:
    r"""Return the shell's command and its standard input: the first bare `%` separates them, others are line ends.

    `\%` is a percent sign; by Debian's cron `\\` before the first bare `%` is one backslash.
    """
    if dialect in (CrontabDialect.BUSYBOX, CrontabDialect.SUPERCRONIC):
        return command, None
    found = _COMMAND.match(command)
    shell = found.group() if found else ""
    data = command[len(shell) + 1 :]
    kept = "\\" if dialect is CrontabDialect.CRONIE else ""
    shell = re.sub(r"\\([%\\])", lambda pair: pair[0] if pair[1] == kept else pair[1], shell)
    if not data:
        return shell, None
    data = re.sub(r"\\%|%", lambda sign: "\n" if sign.group() == "%" else "%", data)
    written = data.rstrip("\\")  # backslashes at the end don't count as the start of a line
    return shell, data + "\n" if written and not written.endswith("\n") else data


# Jobs


def _definition(entry: _Entry, user: str, settings: Mapping[str, str], crontab: Crontab, place: str) -> Definition:
    """Return a job under cron's rules: any number of runs at a time, and missed occurrences are skipped."""
    alone = 1 if crontab.dialect is CrontabDialect.SUPERCRONIC else 0
    delay = settings.get("RANDOM_DELAY", "") if crontab.dialect is CrontabDialect.CRONIE else ""
    shell, stdin = _translated(entry.command, crontab.dialect)
    return Definition(
        schedule=entry.schedule,
        time_zone=_zone_named(settings, crontab) or crontab.zone,
        description=place,
        owner=user,
        misfire=Misfire.SKIP,
        max_running=alone,
        labels={} if crontab.host is None else {"host": crontab.host},
        mailto=settings.get("MAILTO"),
        jitter=60 * int(delay) if delay.isdecimal() and len(delay) <= 4 else 0,
        target=Command(
            shell=shell,
            shell_path=settings.get("SHELL") or _DEFAULTS["SHELL"],
            env=_environment(settings, user, crontab),
            user=entry.user or crontab.run_as,
            stdin=stdin,
        ),
    )


def _zone_named(settings: Mapping[str, str], crontab: Crontab) -> str:
    """Return the zone that the lines name; empty if they name none, or their cron keeps to the machine's."""
    return "" if crontab.dialect in _ONE_ZONE else settings.get(_ZONE, "")


def _environment(settings: Mapping[str, str], user: str, crontab: Crontab) -> dict[str, str]:
    """Return cron's defaults, then the settings, then LOGNAME, which no setting can change.

    `CRON_TZ` is for the schedule only: the command's own TZ stays the machine's.
    """
    clock = {"TZ": crontab.zone} if _zone_named(settings, crontab) else {}
    defaults = {name: value for name, value in _DEFAULTS.items() if name != "PATH" or crontab.dialect not in PASSING_ON}
    return {**defaults, **clock, **settings, "LOGNAME": user}


def _warnings(entry: _Entry, settings: Mapping[str, str], crontab: Crontab) -> Iterator[str]:
    """Return warnings for parts of a line that other crons read in another way, and for percent signs."""
    (shell, stdin), found = _translated(entry.command, crontab.dialect), Warnings()
    if stdin is not None:
        found.add("command", shell, f"a bare % ends it, the rest is its input: {shown(stdin)}; \\% is a percent sign")
    if crontab.dialect is not CrontabDialect.DEBIAN and "\\\\" in shell:
        found.add("command", shell, "\\\\ stays two backslashes; Debian's cron makes it one: --dialect debian")
    if _BEHIND.search(shell):
        found.add("command", shell, "a run ends with its line, and what & left behind then ends, too: leave out the &")
    if "H(" in entry.schedule:
        found.add("schedule", entry.schedule, "cronie chooses by chance each time it reads the line, here the id does")
    if crontab.dialect in _ONE_ZONE and (zone := settings.get(_ZONE, "")) not in ("", crontab.zone):
        found.add(_ZONE, zone, f"{crontab.dialect}'s cron does not know it: the schedule is in {crontab.zone}")
    if (clock := settings.get("TZ", "")) not in ("", crontab.zone) and not _zone_named(settings, crontab):
        found.add("TZ", clock, f"as there it is for the command alone: the schedule is in {crontab.zone}")
    return iter(found.all())
