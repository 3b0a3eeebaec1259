"""Jobs of cronstable and yacron, from their YAML. Pure.

All scalars are texts there, as strictyaml reads them. Defaults are merged into a job field by field, and lists are
joined. A day of the month and a weekday must both match.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tokimori.config.value import MASK
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.task import read_env
from tokimori.schedules.cron_fields import WEEKDAY
from tokimori.service.definitions.imports import Start
from tokimori.translators.cron_sets import ranges_of
from tokimori.translators.entries import (
    AT_ONCE,
    Entry,
    Inactive,
    Moved,
    Unread,
    Warnings,
    entries,
    fault_text,
    id_of,
    moved,
    refusal,
)
from tokimori.translators.yaml_tree import Faults, Value, read_documents

Plain = Mapping[str, Any]
_FIELDS = ("minute", "hour", "dayOfMonth", "month", "dayOfWeek", "year")
_JOBS = frozenset(("jobs", "defaults", "include"))
_UNLIMITED = 1_000_000
_MOST_INCLUDED = 100
_CONCURRENCY: Mapping[str, tuple[int, str]] = {"Allow": (0, "skip"), "Forbid": (1, "skip"), "Replace": (1, "replace")}
_MISSED = {"skip": "skip", "run-once": "latest", "run-all": "all"}
_RETRY = {"initialDelay": "1", "maximumDelay": "300", "backoffMultiplier": "2"}
_TRANSLATED = frozenset(
    {
        *(
            "name",
            "command",
            "shell",
            "schedule",
            "timezone",
            "utc",
            "concurrencyPolicy",
            "executionTimeout",
            "enabled",
        ),
        *("killTimeout", "environment", "env_file", "workingDirectory", "user", "onMissed", "startingDeadlineSeconds"),
    }
)
_AS_HERE = {
    ("clusterPolicy", "leader"),
    ("clusterPolicy", "preferleader"),
    ("captureStdout", "true"),
    ("captureStderr", "true"),
    ("failsWhen.nonzeroReturn", "true"),
} | {(f"failsWhen.{name}", "false") for name in ("producesStdout", "producesStderr", "always")}
_WHY_NOT = {
    "captureStdout": "what a run writes is kept here all the same",
    "captureStderr": "what a run writes is kept here all the same",
    "clusterPolicy": "there each node runs it, here one of them: a job for each, pinned by its label `host`",
    "saveLimit": "how much is kept is a setting of the node",
    "failsWhen": "here a run fails by its exit code alone",
    "onFailure": "left out: `notifier add` notifies of failures here",
    "onPermanentFailure": "left out: `notifier add` notifies of failures here",
    "onSuccess": "left out: `notifier add` notifies of runs here",
}


class Cronstable(NamedTuple):
    """Terms that no file names.

    `zone` is that of jobs without one, and `local` that of jobs with `utc: false`. `other` reads included files; None:
    none may be included.
    """

    file: str
    zone: str = "UTC"
    local: Callable[[], str] = lambda: "UTC"
    other: Callable[[str], str] | None = None


class _Document(NamedTuple):
    defaults: Plain
    jobs: Sequence[tuple[str, Plain]]
    others: Sequence[Inactive | Unread]


def read_cronstable(text: str, said: Cronstable) -> Iterator[Entry]:
    """Read the jobs of a file and of the files that it includes. Raises `InvalidFile` if it is not such YAML."""
    found = _document(text, said, [])
    yield from found.others
    for place, job in found.jobs:

        def translate(place: str = place, job: Plain = job) -> Iterator[Entry]:
            yield _job(place, job, said)

        yield from entries(place, translate)


def _document(text: str, said: Cronstable, within: list[str]) -> _Document:
    """Read a file; `within` are the files that include it."""
    faults = Faults(within[-1] if within else said.file)
    found = [(document, document.fields()) for document in read_documents(text, faults, as_texts=True)]
    if faults.lines:
        raise InvalidFile("\n".join(faults.texts()), field="file", value=faults.file)
    defaults, jobs, others = dict[str, Any](), list[tuple[str, Plain]](), list[Inactive | Unread]()
    for document, fields in found:
        for name in document.below("include").texts() if "include" in fields else ():
            try:
                inner = _included(name, said, [*within, name])
            except InvalidFile as fault:
                if fault.field == "include":  # files that include each other have no end
                    raise
                place = f"{faults.file}:{fields['include'].line}"
                others.append(Unread(place, f"include: its jobs and defaults are missing: {fault_text(fault)}"))
                continue
            defaults, jobs = _merged(defaults, inner.defaults), [*jobs, *inner.jobs]
            others += inner.others
        defaults = _merged(defaults, _plain(document.below("defaults")))
        for job in document.below("jobs").items() if "jobs" in fields else ():
            jobs.append((f"{faults.file}:{job.line}", _merged(defaults, _plain(job))))
        for name in fields.keys() - _JOBS:
            others.append(Inactive(f"{faults.file}:{fields[name].line}", f"{name}: it is no job, and is not moved"))
    return _Document(defaults, jobs, others)


def _included(name: str, said: Cronstable, within: list[str]) -> _Document:
    if said.other is None or within.count(name) > 1 or len(within) > _MOST_INCLUDED:
        allowed = "files by their command line" if said.other is None else "files that don't include themselves"
        raise InvalidFile(f"{within[0]}: include: {name!r} is not allowed here", field="include", allowed=allowed)
    return _document(said.other(name), said, within)


def _plain(value: Value) -> Any:
    match value.content:
        case dict():
            return {name: _plain(each) for name, each in value.content.items()}
        case list():
            return [_plain(each) for each in value.content]
        case _:
            return value.content


def _merged(first: Plain, second: Any) -> dict[str, Any]:
    """Return the fields of both; those of the second one win."""
    if not isinstance(second, Mapping):
        raise InvalidFile("defaults: it is not a mapping", field="defaults", allowed="a mapping")
    merged = dict(first)
    for name, value in second.items():
        match merged.get(name), value:
            case (dict() as old, dict()):
                merged[name] = _merged(old, value)
            case (list() as old, list()):
                merged[name] = [*old, *value]
            case _:
                merged[name] = value
    return merged


# A job


def _job(place: str, job: Plain, said: Cronstable) -> Moved:
    warnings = Warnings()
    name = _text(job, "name") or ""
    zone = _text(job, "timezone") or (said.zone if _flag(job, "utc", default=True) else said.local())
    running, overlap = _choice(job, "concurrencyPolicy", _CONCURRENCY, "Allow")
    schedule = _schedule(job.get("schedule"))
    fields = {
        "name": name if name != id_of(name) else None,
        "schedule": schedule,
        "time_zone": zone,
        "gap": "later" if zone != "UTC" else None,
        "misfire": _choice(job, "onMissed", _MISSED, "skip"),
        "grace": _number(job, "startingDeadlineSeconds"),
        "max_running": running,
        "on_overlap": overlap,
        "retry": _retry(job),
        "timeout": _number(job, "executionTimeout"),
        "timeout_grace": _number(job, "killTimeout", 30),
        "user": _text(job, "user"),
        "cwd": _text(job, "workingDirectory"),
        "env": _env(job, said) or None,
        **_command(job),
    }
    if schedule == "@reboot":
        warnings.add("schedule", schedule, "there at each start of the program, here at each boot of the machine")
    _warn_untranslated(warnings, job)
    start = AT_ONCE if _flag(job, "enabled", default=True) else Start(paused_because="disabled in cronstable")
    return moved(place, id_of(name), fields, start=start, warnings=warnings.all())


def _text(job: Plain, field: str) -> str | None:
    value = job.get(field)
    if value is None or isinstance(value, str):
        return value or None
    raise refusal(field, value, "a text")


def _flag(job: Plain, field: str, *, default: bool) -> bool:
    text = (_text(job, field) or str(default)).lower()
    if text not in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        raise refusal(field, job[field], "true or false")
    return text in ("true", "yes", "on", "1")


def _number(job: Plain, field: str, default: float | None = None) -> float | None:
    text = _text(job, field)
    try:
        return default if text is None else float(text)
    except ValueError:
        raise refusal(field, text, "a number") from None


def _choice(job: Plain, field: str, allowed: Mapping[str, Any], default: str) -> Any:
    word = _text(job, field) or default
    if word not in allowed:
        raise refusal(field, word, ", ".join(allowed))
    return allowed[word]


def _command(job: Plain) -> dict[str, object]:
    command = job.get("command")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return {"command": command}
    if isinstance(command, str) and command.strip():
        return {"command": command, "shell_path": _text(job, "shell") or "/bin/sh"}
    raise refusal("command", command, "a text for the shell, or a list of words")


def _retry(job: Plain) -> dict[str, object] | None:
    failing = job.get("onFailure") or {}
    retry = (failing.get("retry") or {}) if isinstance(failing, Mapping) else failing
    if not isinstance(retry, Mapping):
        raise refusal("onFailure", retry, "retry and report")
    most = _number(retry, "maximumRetries", 0) or 0
    if most == 0:
        return None
    delay, cap, backoff = (_number({**_RETRY, **retry}, name) for name in _RETRY)
    return {"attempts": _UNLIMITED if most < 0 else 1 + int(most), "delay": delay, "cap": cap, "backoff": backoff}


def _env(job: Plain, said: Cronstable) -> dict[str, str]:
    env: dict[str, str] = {}
    if (file := _text(job, "env_file")) is not None:
        if said.other is None:
            raise refusal("env_file", file, "its variables as `environment`")
        try:
            env |= read_env(said.other(file).encode(errors="surrogateescape"), file)
        except InvalidFile as fault:
            raise InvalidInput(f"env_file: {fault.message}", field="env_file", allowed=fault.allowed) from None
    given = job.get("environment") or ()
    for each in given if isinstance(given, list | tuple) else (given,):
        if not isinstance(each, Mapping) or not isinstance(each.get("key"), str) or not each["key"]:
            raise refusal("environment", each, "a list of key and value")
        env[each["key"]] = _text(each, "value") or ""
    return env


def _warn_untranslated(warnings: Warnings, job: Plain) -> None:
    """Warn of fields without an equal here."""
    for field, value in job.items():
        if field in _TRANSLATED:
            continue
        inner = value if isinstance(value, Mapping) and value else {None: value}
        for name, each in inner.items():
            path = field if name is None else f"{field}.{name}"
            if path != "onFailure.retry" and (path, str(each).lower()) not in _AS_HERE:
                shown = each if isinstance(each, str) else MASK  # passwords and addresses of reports stand in there
                warnings.add(path, shown, _WHY_NOT.get(field, "there is no such thing here, and it was left out"))


# When


def _schedule(said: object) -> str:
    """Return the schedule; a day of the month and a weekday that are both restricted must both match."""
    if isinstance(said, Mapping):
        if unknown := [name for name in said if name not in (*_FIELDS, "second")]:
            raise refusal(f"schedule.{unknown[0]}", said[unknown[0]], ", ".join((*_FIELDS, "second")))
        words = [_text(said, name) or "*" for name in _FIELDS]
        second = _text(said, "second") or "0"
        words = words[:5] if words[5] == "*" and second == "0" else words if second == "0" else [second, *words]
    elif isinstance(said, str) and said.strip():
        words = said.split()
    else:
        raise refusal("schedule", said, "a cron expression, or fields such as minute and hour")
    if len(words) == 1:
        return words[0]
    if not 5 <= len(words) <= 7:
        raise refusal("schedule", said, "5 fields, 6 with a year, or 7 with seconds before and a year behind")
    second, year = (words[0] if len(words) == 7 else "0"), (words[-1] if len(words) > 5 else "*")
    minute, hour, day, month, weekday = words[1:6] if len(words) == 7 else words[:5]
    weekday = ",".join(_last_first(term) for term in weekday.split(","))
    clock = f"{second} {minute} {hour}" if len(words) > 5 else f"{minute} {hour}"
    behind = f" {year}" if len(words) > 5 else ""
    if "*" in (day, weekday) or "?" in (day, weekday):
        return f"{clock} {day} {month} {weekday}{behind}"
    others = ranges_of(set(range(7)) - _weekdays(weekday))
    return f"{clock} {day} {month} *{behind}" + (f" except {clock} * {month} {others}{behind}" if others else "")


def _last_first(term: str) -> str:
    """Return `5L` for their `L5`."""
    return f"{term[1:]}L" if term[:1] in "lL" and len(term) > 1 else term


def _weekdays(text: str) -> set[int]:
    """Return the numbers of weekdays, 0 = Sunday. Raises `InvalidInput`."""
    found: set[int] = set()
    for term in text.split(","):
        values, _, step = term.partition("/")
        first, dash, last = values.partition("-")
        begin = 0 if values == "*" else _weekday(first, text)
        end = _weekday(last, text) if dash else 6 if step else begin
        end = 7 if dash and end == 0 else end
        if (step and not (step.isdecimal() and int(step))) or end < begin:
            raise _refused(text)
        found |= {each % 7 for each in range(begin, end + 1, int(step or 1))}
    return found


def _weekday(word: str, whole: str) -> int:
    if word.lower() in WEEKDAY.names:
        return WEEKDAY.names.index(word.lower())
    if word.isdecimal() and len(word) == 1 and int(word) <= 7:
        return int(word)
    raise _refused(whole)


def _refused(weekday: str) -> InvalidInput:
    return refusal(
        "schedule", weekday, "weekdays such as 1-5 or mon,fri beside a day of the month, which both must match"
    )
