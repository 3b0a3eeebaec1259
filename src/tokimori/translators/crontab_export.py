"""Jobs, written as a crontab. Pure.

A job that a crontab can't express becomes a comment with the reason. Every other line is checked before it is written:
`read_crontab` finds the same schedule, zone, shell, command and input in it.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from tokimori.model.job import Definition, Job, JobState, schedule_of
from tokimori.model.target import Command
from tokimori.schedules.cron import Cron, FieldTable
from tokimori.schedules.fluent import Weekly
from tokimori.schedules.schedule import Reboot
from tokimori.service.definitions.definitions import fields_of
from tokimori.translators.crontab import Crontab, CrontabDialect, read_crontab
from tokimori.translators.entries import Moved

_HEADER = """\
# Written by `tokimori export crontab`. cron starts a job at each of its times: it does not make up for missed times,
# has no limits and never retries. What else it can't do is noted beside each job.
"""
_DEFAULTS = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
_RESETTABLE = frozenset({"SHELL", "PATH", "MAILTO", "CRON_TZ"})
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})
_SAID = frozenset(
    {
        *("schedule", "time_zone", "name", "description", "owner", "mailto"),
        *("command", "env", "cwd", "user", "stdin", "shell_path"),
    }
)
_AS_IN_CRON = {"misfire": "skip", "max_running": 0}
_SETTING_NAME = re.compile(r"[^\s=\"'#][^\s=\"']*\Z", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_BACKSLASHES = re.compile(r"\\{2,}|\\(?=%|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedCrontab:
    """A crontab, and the jobs that are only comments in it: by id, with the reason."""

    text: str
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """Facts of a job for its lines. `settings` must hold there. `schedules`: the typed one comes first."""

    job: Job
    command: Command
    schedules: Sequence[str]
    settings: Mapping[str, str]


def write_crontab(jobs: Sequence[Job], *, zone: str, system: bool = False) -> ExportedCrontab:
    """Return the jobs as a crontab, of the system or of one user, for a machine in that zone.

    A setting holds for all lines below it, so jobs with few variables come first; a job that must not have a variable
    from above unsets it. Jobs of other zones come after `CRON_TZ`, which cronie knows and Debian's cron does not.
    """
    left_out: dict[str, str] = {}
    entries: list[_Entry] = []
    for job in jobs:
        entry = _entry(job, zone, system)
        if isinstance(entry, str):
            left_out[job.id] = entry
        else:
            entries.append(entry)
    held, written = dict(_DEFAULTS), [_HEADER]
    for entry in sorted(entries, key=_order):
        lines = _lines(entry, held, zone, system)
        if lines is None:
            left_out[entry.job.id] = "a crontab can't hold its command or its environment"
        else:
            written.append("\n".join([_comment(entry.job), *lines, ""]))
            held |= _needed_settings(entry, held)
    comments = [f"# {job.id} is left out: {_plain(left_out[job.id])}\n" for job in jobs if job.id in left_out]
    return ExportedCrontab(text="\n".join([*written, *(["".join(comments)] if comments else [])]), left_out=left_out)


# Jobs that a line can express


def _entry(job: Job, zone: str, system: bool) -> _Entry | str:
    """Return the job as its line needs it, or the reason why it can't have a line."""
    command = job.definition.target
    if job.state is not JobState.ENABLED:
        return f"it is {job.state}" + (f" ({job.reason})" if job.reason else "")
    if not isinstance(command, Command):
        return "it runs no command"
    if job.runs_remaining is not None:
        return "cron can't stop it after a number of runs"
    schedules = list(_schedules(job))
    if not schedules:
        return _why_no_fields(job.definition)
    if system and command.user is None:
        return "it names no user, as each line of a system crontab must"
    if command.user is not None and not system:
        return f"it runs as {command.user}, which only a system crontab can express (--system)"
    if (command.argv or command.cwd) and not _is_shell(command):
        return f"its shell, {command.shell_path}, is not known to run such a line"
    if "\n" in _shell(command):
        return "its command has more than one line"
    return _Entry(job=job, command=command, schedules=schedules, settings=_settings(job, command, zone))


def _why_no_fields(definition: Definition) -> str:
    if definition.schedule is None:
        return "it has no schedule"
    if definition.calendars:
        return f"cron can't leave out the days of calendars ({', '.join(definition.calendars)})"
    if definition.starts_at is not None or definition.ends_at is not None:
        return "cron can't keep to a moment from which or until which it runs (starts_at, ends_at)"
    return f"{definition.schedule!r} can't be written in five fields"


def _schedules(job: Job) -> Iterator[str]:
    """Yield the schedules that cron may understand: as typed, and as our own parser prints it."""
    schedule = schedule_of(job.definition, job.anchor, job.id, job.days_off)
    match schedule:
        case Reboot():
            yield "@reboot"
        case Cron() | FieldTable():
            cron = schedule if isinstance(schedule, Cron) else schedule.cron
            second, *five, year = cron.texts()
            special = cron.fields.day.special or cron.fields.weekday.special
            if (second, year) == ("0", "*") and not special:
                yield " ".join((job.definition.schedule or "").split())
                yield " ".join(five)
        case Weekly():
            days = "*" if len(schedule.weekdays) == 7 else ",".join(map(str, schedule.weekdays))
            yield f"{schedule.minute % 60} {schedule.minute // 60} * * {days}"
        case _:
            pass


def _settings(job: Job, command: Command, zone: str) -> dict[str, str]:
    """Return the settings that the job needs. A TZ that is the zone of cron itself is not needed."""
    env = {name: value for name, value in command.env.items() if name not in ("LOGNAME", "CRON_TZ")}
    settings = {**_DEFAULTS, **env, "SHELL": command.shell_path}
    if job.definition.mailto is not None:
        settings["MAILTO"] = job.definition.mailto
    if job.definition.time_zone != zone:
        settings["CRON_TZ"] = job.definition.time_zone
        if settings.get("TZ") == zone:
            del settings["TZ"]
    return settings


def _is_shell(command: Command) -> bool:
    return PurePath(command.shell_path).name in _SHELLS


# Lines


def _order(entry: _Entry) -> tuple[int, bool, int, Sequence[tuple[str, str]], str]:
    """Return the order of the lines: jobs whose settings others would have to undo come last."""
    settings = entry.settings
    unset = len(settings.keys() - _RESETTABLE)
    return (
        unset,
        "CRON_TZ" in settings,
        len(settings.items() - _DEFAULTS.items()),
        sorted(settings.items()),
        entry.job.id,
    )


def _needed_settings(entry: _Entry, held: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that must hold for the job, given what holds so far; an empty zone is the machine's."""
    wanted = dict(entry.settings)
    if "CRON_TZ" in held:
        wanted.setdefault("CRON_TZ", "")
    if "MAILTO" in held:
        wanted.setdefault("MAILTO", entry.job.definition.owner or "")
    return wanted


def _lines(entry: _Entry, held: Mapping[str, str], zone: str, system: bool) -> list[str] | None:
    """Return the settings that change, and the job's line; None if a reading would give something else."""
    wanted = _needed_settings(entry, held)
    unwanted = [name for name in held if name not in wanted]
    if unwanted and not (_is_shell(entry.command) and all(map(_VARIABLE.match, unwanted))):
        return None
    settings = {name: _setting(name, value) for name, value in wanted.items()}
    if not all(settings.values()):
        return None
    changed = [text for name, text in settings.items() if text and held.get(name) != wanted[name]]
    shell = (f"unset {' '.join(unwanted)}; " if unwanted else "") + _shell(entry.command)
    user = f"{entry.command.user} " if system else ""
    rest = f"{user}{_escaped(shell)}{_input(entry.command.stdin)}"
    for schedule in entry.schedules:
        lines = [*(text for text in settings.values() if text), f"{schedule} {rest}"]
        if _reads_back(lines, entry, shell, zone, system):
            return [*changed, lines[-1]]
    return None


def _setting(name: str, value: str) -> str | None:
    """Return `NAME=value`, quoted if needed (for Debian's cron also if it is empty); None if it can't be written."""
    if not _SETTING_NAME.match(name) or "\n" in value or "\r" in value:
        return None
    if value and value == value.strip() and value[0] not in ("'", '"'):
        return f"{name}={value}"
    quote = next((mark for mark in "\"'" if mark not in value), None)
    return None if quote is None else f"{name}={quote}{value}{quote}"


def _shell(command: Command) -> str:
    folder = f"cd {shlex.quote(command.cwd)} || exit; " if command.cwd else ""
    return folder + (shlex.join(command.argv) if command.shell is None else command.shell)


def _escaped(shell: str) -> str:
    r"""Return the command, escaped for cron: `\%` is a percent sign, and `\\` before the first bare one a backslash."""
    return _BACKSLASHES.sub(lambda found: found[0] * 2, shell).replace("%", r"\%")


def _input(stdin: str | None) -> str:
    return "" if stdin is None else "%" + stdin.removesuffix("\n").replace("%", r"\%").replace("\n", "%")


def _reads_back(lines: Sequence[str], entry: _Entry, shell: str, zone: str, system: bool) -> bool:
    crontab = Crontab(
        file="export",
        zone=zone,
        owner=entry.job.definition.owner or "owner",
        system=system,
        dialect=CrontabDialect.DEBIAN,
    )
    command = entry.command
    found = list(read_crontab("\n".join(lines), crontab))
    of_cronie = read_crontab("\n".join(lines), replace(crontab, dialect=CrontabDialect.CRONIE))  # Debian's has one zone
    zones = [each.definition.time_zone for each in of_cronie if isinstance(each, Moved)]
    read_back = [each.definition.target for each in found if isinstance(each, Moved)]
    return (
        len(read_back) == len(found) == 1
        and zones == [entry.job.definition.time_zone]
        and all(
            isinstance(target, Command)
            and (target.shell, target.stdin or None) == (shell, command.stdin or None)
            and (target.shell_path, target.user) == (command.shell_path, command.user)
            for target in read_back
        )
    )


def _comment(job: Job) -> str:
    """Return the comment above a job: what it is, and which of its fields cron does not know."""
    fields = fields_of(job.definition)
    unsaid = [name for name, value in fields.items() if name not in _SAID and value != _AS_IN_CRON.get(name)]
    text = f"# {job.id}"
    if words := job.definition.name or job.definition.description:
        text += f": {_plain(words)}"
    return text + (f" (not in cron: {', '.join(unsaid)})" if unsaid else "")


def _plain(text: str) -> str:
    """Return one line of printable characters."""
    return "".join(character if character.isprintable() else " " for character in text)
