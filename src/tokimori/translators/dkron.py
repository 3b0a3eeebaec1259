"""Jobs of Dkron, as its API answers them. Pure.

A job without tags runs on one node. Tags choose nodes: `web:1` is one of those with the tag, `web` all of them, which
no job here does. A cron text has seconds first, and a day or weekday such as `*/2` restricts, as in robfig's library.
"""

import base64
import binascii
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tokimori.config.value import MASK
from tokimori.service.definitions.imports import Start
from tokimori.translators.entries import AT_ONCE, Entry, Moved, Row, Warnings, entries, id_of, moved, refusal, shown

_GO_LENGTH = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)", re.DOTALL)
_ONE_NODE = re.compile(r"(.+):1\Z", re.DOTALL)
_OF_DKRON = frozenset(
    {
        *("id", "name", "displayname", "timezone", "schedule", "owner", "disabled", "tags", "retries", "parent_job"),
        *("dependent_jobs", "concurrency", "executor", "executor_config", "expires_at", "status", "next"),
        *("success_count", "error_count", "last_success", "last_error"),
    }
)
_WHY_NOT = {
    "owner_email": "left out: `notifier add` notifies of failures here",
    "processors": "left out: what a run writes is kept here",
    "metadata": "left out: there is no such thing here",
    "ephemeral": "left out: here the job stays after its first success",
}
_MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@minutely")
_SHELL = frozenset({"shell", "command", "env", "cwd", "timeout", "payload", "su"})
_HTTP = frozenset({"method", "url", "headers", "body", "timeout", "expectCode", "debug"})


def read_dkron(jobs: Sequence[Row], zone: str) -> Iterator[Entry]:
    """Yield the jobs; `zone` is that of jobs without one."""
    for number, job in enumerate(jobs):
        name = job.get("name") or job.get("id")
        place = f"job {shown(name)}" if name else f"jobs, number {number}"

        def translate(job: Row = job, place: str = place) -> Iterator[Entry]:
            yield _job(place, job, zone)

        yield from entries(place, translate)


def _job(place: str, job: Row, zone: str) -> Moved:
    warnings = Warnings()
    name, parent = _text(job, "name") or _text(job, "id"), _text(job, "parent_job")
    text = _text(job, "schedule")
    if parent and text:
        warnings.add("schedule", text, "left out, as there: the job runs after its parent")
    prefix = _ZONE.match(text)
    text, zone = (prefix[2], prefix[1]) if prefix else (text, _text(job, "timezone") or zone)
    fields = {
        "name": _text(job, "displayname") or (name if name != id_of(name) else None),
        "owner": _text(job, "owner") or None,
        "schedule": None if parent else _schedule(text, warnings),
        "time_zone": zone,
        "gap": "skip",
        "fold": "both",
        "misfire": "skip",
        "ends_at": _text(job, "expires_at") or None,
        "parents": [{"job": id_of(parent)}] if parent else None,
        "max_running": _most(job),
        "retry": {"attempts": 1 + retries} if (retries := _retries(job)) else None,
        "labels": _labels(job) or None,
        **_target(job, warnings),
    }
    for member in sorted(job.keys() - _OF_DKRON):
        if job[member]:
            value = MASK if member == "processors" else job[member]  # their passwords stand in there
            warnings.add(member, value, _WHY_NOT.get(member, "it is not known, and was left out"))
    start = Start(paused_because="disabled in Dkron") if job.get("disabled") is True else AT_ONCE
    return moved(place, id_of(name), fields, start=start, warnings=warnings.all())


def _text(fields: Row, member: str) -> str:
    value = fields.get(member)
    if value is None or isinstance(value, str):
        return value or ""
    raise refusal(member, value, "a text")


def _most(job: Row) -> int:
    """Return how many may run at a time; 0: any number."""
    match _text(job, "concurrency"):
        case "forbid":
            return 1
        case "" | "allow":
            return 0
        case other:
            raise refusal("concurrency", other, "allow, forbid")


def _retries(job: Row) -> int:
    retries = job.get("retries") or 0
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise refusal("retries", retries, "a whole number")
    return retries


def _labels(job: Row) -> dict[str, str]:
    """Return the labels that a node must have. Raises `InvalidInput` for tags that mean several nodes."""
    tags = job.get("tags") or {}
    if not isinstance(tags, Mapping):
        raise refusal("tags", tags, "texts by name")
    labels = {}
    for name, value in tags.items():
        one = _ONE_NODE.match(str(value))
        if one is None:
            allowed = f"{name}: {str(value).partition(':')[0]}:1; for several nodes a job for each"
            raise refusal(f"tags.{name}", value, allowed)
        labels[str(name)] = one[1]
    return labels


# When


def _schedule(text: str, warnings: Warnings) -> str | None:
    word, _, rest = text.strip().partition(" ")
    match word:
        case "@manually":
            return None
        case "@at":
            return f"at {rest.strip()}"
        case "@every":
            return f"@every {_interval(rest, warnings)}s"
        case word if word in _MACROS:
            return word
        case _:
            return _cron(text, warnings)


def _cron(text: str, warnings: Warnings) -> str:
    fields = text.split()
    if len(fields) != 6:
        raise refusal("schedule", text, "6 fields with seconds first, @hourly … @yearly, @every, @at, @manually")
    if "~" in text:
        warnings.add("schedule", text, "~ is H here: as steady, but another number than there")
    day, weekday = fields[3], fields[5]
    if not {day, weekday} & {"*", "?"}:  # `*/2` restricts there, and would not here
        fields[3] = re.sub(r"\*/", "1-31/", day)
        fields[5] = re.sub(r"\*/", "0-6/", weekday)
    return " ".join(fields).replace("~", "H")


def _interval(text: str, warnings: Warnings) -> int:
    seconds = _seconds("schedule", text.strip())
    whole = max(1, int(seconds))
    if whole != seconds:
        warnings.add("schedule", f"@every {text}", f"kept as {whole} s, as there")
    return whole


def _seconds(member: str, text: str) -> float:
    """Return a length as Go writes it (`1h30m`), in seconds."""
    parts = _GO_LENGTH.findall(text)
    if not parts or "".join(parts) != text:
        raise refusal(member, text, "a length such as 90s or 1h30m")
    units = (re.search(r"[a-zµ]+\Z", part) for part in parts)
    return sum(float(part[: unit.start()]) * _SECONDS[unit[0]] for part, unit in zip(parts, units, strict=True) if unit)


# What


def _target(job: Row, warnings: Warnings) -> dict[str, Any]:
    config = job.get("executor_config") or {}
    if not isinstance(config, Mapping):
        raise refusal("executor_config", config, "texts by name")
    match _text(job, "executor"):
        case "shell":
            known, fields = _SHELL, _command(config)
        case "http":
            known, fields = _HTTP, _request(config, warnings)
        case other:
            raise refusal("executor", other, "shell, http")
    for member in sorted(config.keys() - known):
        if config[member] not in (None, "", "false"):
            raise refusal(f"executor_config.{member}", MASK, f"one of {', '.join(sorted(known))}")
    return fields


def _command(config: Row) -> dict[str, Any]:
    command, timeout = _text(config, "command"), _text(config, "timeout")
    in_shell = _text(config, "shell").lower() in ("1", "t", "true")
    return {
        "command": command if in_shell else _words(command),
        "env": dict(_variables(_text(config, "env"))) or None,
        "cwd": _text(config, "cwd") or None,
        "user": _text(config, "su") or None,
        "timeout": _seconds("executor_config.timeout", timeout) if timeout else None,
        "stdin": _input(_text(config, "payload")),
    }


def _words(command: str) -> list[str]:
    """Return the words of a command that no shell reads. Raises `InvalidInput`."""
    member, allowed = "executor_config.command", 'a program and its arguments; others with "shell": "true"'
    try:
        words = shlex.split(command)
        apart = list(shlex.shlex(command, posix=True, punctuation_chars=";&|<>"))
    except ValueError:
        raise refusal(member, command, allowed) from None
    if not words or any(set(word) <= set(";&|<>") for word in apart if word):
        raise refusal(member, command, allowed)
    return words


def _variables(text: str) -> Iterator[tuple[str, str]]:
    for each in filter(None, text.split(",")):
        name, sign, value = each.partition("=")
        if not sign:
            raise refusal("executor_config.env", MASK, "NAME=VALUE,NAME=VALUE")
        yield name.strip(), value


def _input(payload: str) -> str | None:
    try:
        return base64.b64decode(payload, validate=True).decode() or None
    except (binascii.Error, UnicodeDecodeError):
        raise refusal("executor_config.payload", payload, "base64 of a text") from None


def _request(config: Row, warnings: Warnings) -> dict[str, Any]:
    codes, timeout = _text(config, "expectCode"), _text(config, "timeout")
    if not codes:
        warnings.add("executor_config.expectCode", codes, "there any answer is a success, here one of 200 to 299")
    try:
        expect, seconds = [int(code) for code in codes.split(",")] if codes else None, float(timeout or 30)
    except ValueError:
        raise refusal("executor_config", f"{codes} {timeout}", "numbers in expectCode and timeout") from None
    return {
        "url": _text(config, "url"),
        "method": _text(config, "method") or None,
        "headers": dict(_headers(_text(config, "headers"))) or None,
        "body": _text(config, "body") or None,
        "expect": expect,
        "timeout": seconds,
    }


def _headers(text: str) -> Iterator[tuple[str, str]]:
    try:
        lines = msgspec.json.decode(text or "[]", type=list[str])
    except msgspec.DecodeError:
        raise refusal("executor_config.headers", MASK, 'a list as JSON: ["Name: value"]') from None
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()
