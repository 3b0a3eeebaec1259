"""Timers of systemd with their services, read as jobs. Pure.

`files` are unit files by name, drop-ins as `NAME.d/FILE.conf`, and links of `*.wants` folders as empty texts under
`timers.target.wants/NAME`: if there are any, a timer that none of them names is added paused.

A service that would run in another way is refused. Its surroundings there (a sandbox, conditions, an order of units)
are left out, with a warning. A service never runs twice at a time, as there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput, InvalidSchedule
from tokimori.schedules.fluent import every
from tokimori.schedules.parse import parse_schedule
from tokimori.service.definitions.imports import Start
from tokimori.translators.entries import Entry, Inactive, Warnings, entries, fault_text, inactive_if_over, moved
from tokimori.translators.on_calendar import ALLOWED as ON_CALENDAR
from tokimori.translators.on_calendar import Calendar, read_calendar
from tokimori.translators.time_span import ALLOWED, microseconds_of
from tokimori.translators.unit_file import (
    Assignment,
    Unit,
    command_of,
    expanded,
    file_of,
    prefix_and_instance,
    read_unit,
    stem_of,
    words_of,
)

_SECOND: Final = 1_000_000
_AFTER_START: Final = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_AFTER_A_RUN: Final = ("OnUnitActiveSec", "OnUnitInactiveSec")
_READ: Final = frozenset(
    (*_AFTER_START, *_AFTER_A_RUN, "OnCalendar", "Persistent", "RandomizedDelaySec", "Unit", "RemainAfterElapse")
)
_WHY_NOT: Final = {
    "AccuracySec": "runs come on time here, and are not put together",
    "FixedRandomDelay": "each run has a delay of its own here",
    "RandomizedOffsetSec": "left out: `jitter` delays runs here",
    "WakeSystem": "left out: nothing here wakes a machine",
    "OnClockChange": "left out: no run comes because the clock was set",
    "OnTimezoneChange": "left out: no run comes because the zone was changed",
    "DeferReactivation": "left out",
}


class Timing(NamedTuple):
    """Schedule of a job of a timer; `suffix` follows the timer's name in its id.

    `is_relative`: the interval counts from the last run.
    """

    suffix: str
    schedule: str
    time_zone: str
    is_relative: bool
    is_persistent: bool
    jitter: float
    warnings: tuple[str, ...]


def timings_of(timer: Unit, time_zone: str) -> Iterator[Timing]:
    """Yield its jobs' schedules: by calendar or interval, one for the machine's start. Raises `InvalidFile`."""
    warnings = Warnings()
    _warn_untranslated(timer, warnings)
    calendars = timer.all("Timer", "OnCalendar")
    intervals = [each for key in _AFTER_A_RUN for each in timer.all("Timer", key)]
    starts = [each for key in _AFTER_START for each in timer.all("Timer", key)]
    jitter = sum(_length(each) for each in timer.all("Timer", "RandomizedDelaySec")[-1:]) / _SECOND
    persistent = any(each.flag() for each in timer.all("Timer", "Persistent")[-1:])
    if len(intervals) > 1 or (intervals and calendars):
        others = f"{calendars[0].key}={calendars[0].value}" if calendars else "another interval"
        raise intervals[-1].refused(f"it can't be one job together with {others}", "a timer for each")
    if not (calendars or intervals or starts):
        raise InvalidFile(
            "the timer has no time", field=timer.name, allowed="OnCalendar=, OnUnitActiveSec=, OnBootSec="
        )
    if calendars:
        schedule, zone = _united(calendars)
        yield Timing("", schedule, zone or time_zone, False, persistent, jitter, warnings.all())
    if intervals:
        schedule = _interval(intervals[0], starts, warnings)
        yield Timing("", schedule, time_zone, True, False, jitter, warnings.all())
    elif starts:
        start_warnings = _start(starts)
        suffix = "-boot" if calendars else ""
        yield Timing(suffix, "@reboot", time_zone, False, False, 0, (*warnings.all(), *start_warnings))


def _warn_untranslated(timer: Unit, warnings: Warnings) -> None:
    for key in timer.keys("Timer"):
        for each in timer.all("Timer", key):
            if key in _WHY_NOT:
                warnings.add(key, each.value, _WHY_NOT[key])
            elif key not in _READ:
                warnings.add(key, each.value, f"left out ({each.place}): it is not known here")


def _united(lines: Sequence[Assignment]) -> tuple[str, str | None]:
    """Return the schedule of all calendar expressions, and their zone. Raises `InvalidFile`."""
    found = [_calendar(line) for line in lines]
    zones = {each.zone for each in found}
    if len(zones) > 1:
        raise lines[-1].refused("it has another zone than the lines before", "one zone for all lines")
    left_out = [each.left_out for each in found if each.left_out is not None]
    if left_out and len(found) > 1:
        raise lines[-1].refused(
            "a weekday together with a day of the month can't be combined with other lines", "a timer for each"
        )
    schedule = "; ".join(dict.fromkeys(each.cron for each in found))
    return f"{schedule} except {left_out[0]}" if left_out else schedule, found[0].zone


def _calendar(line: Assignment) -> Calendar:
    try:
        calendar = read_calendar(line.value)
        parse_schedule(calendar.cron)
    except InvalidSchedule as fault:
        raise line.refused(fault.message, fault.allowed or ON_CALENDAR) from None
    except InvalidInput as fault:
        raise InvalidFile(fault_text(fault), field=line.place, value=line.value, allowed=fault.allowed) from None
    return calendar


def _interval(line: Assignment, starts: Sequence[Assignment], warnings: Warnings) -> str:
    length = _length(line)
    if length % _SECOND or not length:
        raise line.refused("it is not a whole number of seconds", "1s and more")
    seconds = length // _SECOND
    if line.key == "OnUnitInactiveSec":
        warnings.add(line.key, line.value, "it counts from the beginning of the last run here, not from its end")
    for each in starts:
        warnings.add(each.key, each.value, "left out: the first run comes one interval after the import")
    if seconds % 3600 == 0:
        return str(every(seconds // 3600).hours)
    return str(every(seconds // 60).minutes if seconds % 60 == 0 else every(seconds).seconds)


def _start(lines: Sequence[Assignment]) -> tuple[str, ...]:
    """Return the times after a start, which are lost: the run comes when a node has started after it."""
    warnings = Warnings()
    for line in lines:
        _length(line)
        warnings.add(line.key, line.value, "the run comes as soon as a node starts after the machine has")
    return warnings.all()


def _length(line: Assignment) -> int:
    length = microseconds_of(line.value)
    if length is None:
        raise line.refused("it is no length of time", ALLOWED)
    return length


_TIMER, _SERVICE = ".timer", ".service"
_WANTS = ".wants/"
_TYPES: Final = ("simple", "exec", "oneshot", "idle")
_COMMANDS: Final = ("ExecStartPre", "ExecStart", "ExecStartPost")
_REFUSED: Final = (
    *("ExecCondition", "ExecStop", "ExecStopPost", "ExecReload", "EnvironmentFile", "PassEnvironment"),
    *("RootDirectory", "RootImage", "StandardInput", "StandardInputText", "StandardInputData", "DynamicUser"),
)
"""Keys of a service without which its commands would do something else."""
_TRANSLATED: Final = (
    *("Type", *_COMMANDS, "User", "WorkingDirectory", "Environment", "UnsetEnvironment"),
    *("TimeoutSec", "TimeoutStartSec", "TimeoutStopSec", "RuntimeMaxSec", "SuccessExitStatus"),
)
_MEANINGLESS: Final = frozenset(
    ("SyslogIdentifier", "StandardOutput", "StandardError", "RemainAfterExit", "GuessMainPID", "SyslogFacility")
)
"""Keys whose usual values already describe our behaviour."""
_OUTPUT: Final = frozenset(("StandardOutput", "StandardError"))
_USUAL: Final = frozenset(("journal", "inherit", "syslog", "kmsg", "journal+console"))
_INSTEAD: Final = {
    "EnvironmentFile": "Environment= for each variable, or a command that reads the file (passwords: secrets)",
    "OnFailure": "`job update --on-failure-job ID` names the job that follows, `--notify NAME` notifies people",
    **dict.fromkeys(("Restart", "RestartSec"), "`job update --attempts N --retry-delay SECONDS` tries again"),
    "MemoryMax": "`job update --max-memory MIB` limits an attempt",
    **dict.fromkeys(("StandardOutput", "StandardError"), "what a run writes is kept here: `run logs` shows it"),
}
"""Hints for keys that a job has in other words."""
_OF_UNIT: Final = frozenset(("Description", "Documentation", "SourcePath", "DefaultDependencies"))
_ORDER: Final = "what orders units has no equal here"
_SANDBOX: Final = "a command on a node has no equal, and may do more than there"
_OFF: Final = frozenset(("no", "false", "off", "0"))
"""Values that only say what a command on a node has anyway: no sandbox, no restarts."""
_FOREVER: Final = "infinity"
_STOP_GRACE: Final = 90.0
"""Seconds from TERM to KILL if a service does not set them."""


class Systemd(NamedTuple):
    """Terms that no file has: the machine's zone, the host of the jobs (None: any), their user, and the time.

    Units of a `user` belong to the user's own systemd, whose folder is `home` (None: not known on this machine).
    """

    time_zone: str
    host: str | None = None
    user: str | None = None
    now: Moment = Moment(0)
    home: str | None = None


def read_systemd(files: Mapping[str, str], systemd: Systemd) -> Iterator[Entry]:
    """Yield the jobs of the timers among these files; the id of one is the name of the timer without `.timer`."""
    wanted = {name.rpartition("/")[2] for name in files if _WANTS in name and name.endswith(_TIMER)}
    instances = {name for name in wanted if "@" in name and file_of(name, files) is not None}
    timers = sorted({name for name in files if name.endswith(_TIMER) and "/" not in name} | instances)
    for name in timers:

        def translate(name: str = name) -> Iterator[Entry]:
            return _jobs(name, files, systemd, is_wanted=not wanted or name in wanted)

        yield from entries(name, translate)


def _jobs(name: str, files: Mapping[str, str], systemd: Systemd, *, is_wanted: bool) -> Iterator[Entry]:
    if "@" in name and not prefix_and_instance(name)[1]:
        yield Inactive(name, "it is a template, which runs nothing by itself")
        return
    if not files[file_of(name, files) or name].strip():
        yield Inactive(name, "it is masked")
        return
    known = {key: value for key, value in (("h", systemd.home), ("u", systemd.user)) if value and systemd.user}
    timer = read_unit(name, files, known)
    service = _service_of(timer, files, known)
    warnings = Warnings()
    fields = {**_service_fields(service, systemd, warnings), **_unit_fields(timer, service, warnings)}
    start = Start() if is_wanted else Start(paused_because="not enabled in systemd")
    for timing in timings_of(timer, systemd.time_zone):
        job_id = f"{stem_of(name)}{timing.suffix}"
        all_warnings = (*warnings.all(), *timing.warnings)
        job = moved(name, job_id, {**fields, **_timing_fields(timing)}, start=start, warnings=all_warnings)
        yield job if timing.schedule == "@reboot" else inactive_if_over(job, systemd.now)


def _timing_fields(timing: Timing) -> Mapping[str, object]:
    return {
        "schedule": timing.schedule,
        "time_zone": timing.time_zone,
        "gap": "skip",
        "anchored_on": "last run" if timing.is_relative else None,
        "jitter": timing.jitter or None,
        "misfire": "latest" if timing.is_persistent else "skip",
        "max_running": 1,
    }


def _service_of(timer: Unit, files: Mapping[str, str], known: Mapping[str, str]) -> Unit:
    """Return the unit that the timer starts, whose own name defines `%i`. Raises `InvalidInput`."""
    unit = timer.last("Timer", "Unit")
    name = f"{stem_of(timer.name)}{_SERVICE}" if unit is None else expanded(unit.value, timer, unit)
    if not name.endswith(_SERVICE):
        place = timer.name if unit is None else unit.place
        raise InvalidFile(f"Unit={name}: it is no service", field=place, value=name, allowed="a .service")
    if file_of(name, files) is None:
        place = timer.name if unit is None else unit.place
        raise InvalidFile(f"{name} is not among the files", field=place, value=name, allowed=f"the file {name}, too")
    return read_unit(name, files, known)


def _unit_fields(timer: Unit, service: Unit, warnings: Warnings) -> Mapping[str, object]:
    """Return the description and owner; add a warning for the order of units."""
    for unit in (timer, service):
        keys = [key for key in unit.keys("Unit") if key not in _OF_UNIT]
        for each in [each for key in keys if key in _INSTEAD for each in unit.all("Unit", key)]:
            _left_out(each, _INSTEAD[each.key], warnings)
        _left_out_together(unit, [key for key in keys if key not in _INSTEAD], _ORDER, warnings)
    description = service.last("Unit", "Description") or timer.last("Unit", "Description")
    return {
        "description": None if description is None else expanded(description.value, service, description),
    }


def _left_out(each: Assignment, why: str, warnings: Warnings) -> None:
    warnings.add(each.key, each.value, f"left out ({each.place}): {why}")


def _left_out_together(unit: Unit, keys: Sequence[str], why: str, warnings: Warnings) -> None:
    """Warn once of all keys of a unit that have no equal: a usual sandbox has twenty."""
    if keys:
        warnings.note(f"{', '.join(keys)}: left out ({unit.name}): {why}")


# The service


def _service_fields(service: Unit, systemd: Systemd, warnings: Warnings) -> Mapping[str, object]:
    _check_kind(service, warnings)
    lines = [each for key in _COMMANDS for each in service.all("Service", key)]
    if not service.all("Service", "ExecStart"):
        raise InvalidFile("it has no ExecStart", field=service.name, allowed="ExecStart= with a command")
    user = service.last("Service", "User")
    return {
        "command": command_of(lines, service),
        "env": _environment(service),
        "cwd": _folder(service, systemd),
        "user": systemd.user if user is None else expanded(user.value, service, user),
        "owner": systemd.user,
        "labels": {} if systemd.host is None else {"host": systemd.host},
        "timeout": _timeout(service),
        "timeout_grace": _grace(service),
    }


def _check_kind(service: Unit, warnings: Warnings) -> None:
    """Refuse keys that a command can't have, and warn of those left out."""
    kind = service.last("Service", "Type")
    if kind is not None and kind.value not in _TYPES:
        raise kind.refused("its command does not end with the work", ", ".join(_TYPES))
    alone: dict[str, None] = {}
    for key in service.keys("Service"):
        for each in service.all("Service", key):
            if key in _REFUSED:
                allowed = _INSTEAD.get(key, "to leave it out")
                raise each.refused("a command on a node can't have this", allowed)
            is_usual = key in _MEANINGLESS and (key not in _OUTPUT or each.value in _USUAL)
            if key in _TRANSLATED or is_usual or each.value.lower() in _OFF:
                continue
            if key in _INSTEAD:
                _left_out(each, _INSTEAD[key], warnings)
            else:
                alone[key] = None
    _left_out_together(service, list(alone), _SANDBOX, warnings)
    for each in service.all("Service", "SuccessExitStatus"):
        _left_out(each, "only 0 is a success here", warnings)
    for each in service.all("Service", "UnsetEnvironment"):
        _left_out(each, "commands get a small environment of their own here", warnings)


def _environment(service: Unit) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for line in service.all("Service", "Environment"):
        for word in words_of(line):
            name, equals, value = expanded(word, service, line).partition("=")
            if not equals or not name:
                raise line.refused(f"{word!r} sets no variable", "NAME=value, quoted where it holds blanks")
            found[name] = value
    return found


def _folder(service: Unit, systemd: Systemd) -> str | None:
    """Return the folder, which is the root without a line, but a user's home (None) for what belongs to users."""
    line = service.last("Service", "WorkingDirectory")
    if line is None:
        return None if systemd.user is not None else "/"
    if line.value.removeprefix("-") == "~":
        return None
    folder = expanded(line.value.removeprefix("-"), service, line)
    if not folder.startswith("/"):
        raise line.refused("it is no absolute path", "an absolute path, or ~")
    return folder


def _timeout(service: Unit) -> float | None:
    """Return how long a run may take. A service that is not `oneshot` has only RuntimeMaxSec for that."""
    kind = service.last("Service", "Type")
    keys = ["RuntimeMaxSec", "TimeoutStartSec", "TimeoutSec"]
    for key in keys if kind is not None and kind.value == "oneshot" else keys[:1]:
        if (line := service.last("Service", key)) is not None:
            return seconds_in(line)
    return None


def _grace(service: Unit) -> float:
    for key in ("TimeoutStopSec", "TimeoutSec"):
        if (line := service.last("Service", key)) is not None:
            return seconds_in(line) or _STOP_GRACE
    return _STOP_GRACE


def seconds_in(line: Assignment) -> float | None:
    """Return the seconds of a line; None: without end. Raises `InvalidFile`."""
    if line.value == _FOREVER:
        return None
    length = microseconds_of(line.value)
    if length is None:
        raise line.refused("it is no length of time", ALLOWED)
    return length / 1_000_000 or None
