"""The options that define a job: one for every field of `JobFields`."""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import click

from tokimori.cli.command import arguments_given
from tokimori.cli.completion import zones
from tokimori.cli.moment import AHEAD, Length
from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.job_fields import BOTH_WAYS, FIELDS, OF_RETRY, OPTIONS, SPELLINGS, JobField
from tokimori.model.job_fields import SECTIONS as BY_SECTION
from tokimori.schedules.stamp import future_moment_text

_METAVARS = {
    **dict.fromkeys(("function", "user", "queue", "smtp_user", "calendars"), "NAME"),
    **dict.fromkeys(("email", "sender", "mailto"), "ADDRESS"),
    **dict.fromkeys(("sign_with", "smtp_password"), "SECRET"),
    **dict.fromkeys(("mail_subject", "mail_text", "subject", "text"), "TEMPLATE"),
    **dict.fromkeys(("env", "labels"), "KEY=VALUE"),
    **dict.fromkeys(("starts_at", "ends_at"), "TIME"),
    "build": "TASK@DIGEST",
    "url": "URL",
    "payload": "JSON",
    "cwd": "FOLDER",
    "shell_path": "FILE",
    "method": "WORD",
    "headers": "'NAME: VALUE'",
    "expect": "STATUS",
    "smtp": "HOST[:PORT]",
    "time_zone": "ZONE",
    "parents": "ID[=ON]",
    "priority": "-100..100",
    "semaphores": "NAME[:WEIGHT]",
    "retry_backoff": "FACTOR",
    "retry_jitter": "0..1",
    "on_failure_job": "ID",
    "notify": "[EVENT=]NAME",
    "quiet": "HOURS",
    "retention": "DURATION",
}
_BOUNDS = {"starts_at": AHEAD, "ends_at": AHEAD, "notify": "without EVENT: of all but success"}
_MANY = ("email", "calendars", "labels", "semaphores", "notify", "parents", "env", "headers", "expect", "quiet")
SECTIONS = {title: tuple(OPTIONS[path] for path in fields) for title, fields in BY_SECTION.items()}
"""The options in the help, by what they are about."""
_NOTIFIER = tuple(OPTIONS[path] for path in FIELDS if path.startswith("notifier."))
"""The fields of `Notifier`, which are their options."""


def _count_or_unlimited(_context: click.Context, _option: click.Parameter, text: str | None) -> int | str | None:
    """Return a number if it is one; what else is allowed is the service's affair."""
    return int(text) if text is not None and text.lstrip("-").isdecimal() else text


def _option(path: str, field: JobField) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return the option of a field, as the table describes it."""
    name, spelling = OPTIONS[path], SPELLINGS[path]
    extra: dict[str, Any] = {"multiple": name in _MANY}
    if isinstance(field.default, bool):
        extra = {"is_flag": True, "default": None}
        spelling = f"{spelling}/--no-{spelling[2:]}" if name in BOTH_WAYS else spelling
    elif field.unit == "seconds":
        extra |= {"type": Length(), "metavar": "LENGTH"}
    elif field.choices and name not in _METAVARS:
        extra["type"] = click.Choice(field.choices)
    elif name == "lost_attempts":
        extra |= {"callback": _count_or_unlimited, "metavar": "N"}
    else:
        kind = (float if field.unit in ("factor", "part") else int) if field.is_number else None
        extra |= {"type": kind, "metavar": _METAVARS.get(name, "N" if field.is_number else "TEXT")}
    if name == "time_zone":
        extra["shell_complete"] = zones
    return click.option(spelling, name, help=_help(path, field), **extra)


def _help(path: str, field: JobField) -> str:
    """Return the text of the option: options in place of fields, and what its metavar does not say."""
    text = re.sub(r"`([a-z_]+)`", lambda found: SPELLINGS.get(found[1], found[1]), field.meaning)
    bound = "" if field.choices else _BOUNDS.get(path, field.bound)
    return f"{text} [default: {field.default_text}{bound and f'; {bound}'}]"


def job_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command all of them, in order."""
    for path, field in reversed(list(FIELDS.items())):
        command = _option(path, field)(command)
    return command


def fields_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `JobFields` from these options and the program after `--`; only those that were given."""
    given = {name: value for name, value in values.items() if value is not None and value != ()}
    retry = {field: given.pop(option) for option, field in OF_RETRY.items() if option in given}
    if notifier := {option: given.pop(option) for option in _NOTIFIER if option in given}:
        given["notifier"] = notifier
    for name in ("labels", "env"):
        if name in given:
            given[name] = _pairs(name, given[name])
    if "headers" in given:
        given["headers"] = dict(_header(text) for text in given["headers"])
    if "notify" in given:
        given["notify"] = _notify(given["notify"])
    if "parents" in given:
        given["parents"] = [_parent(text) for text in given["parents"]]
    if retry:
        given["retry"] = retry
    arguments = arguments_given()
    if arguments is not None:
        if "command" in given:
            raise InvalidInput(
                "command: given twice", field="command", value=shlex.join(arguments), allowed="--command or -- ARGV"
            )
        given["command"] = arguments
    return given


def with_moments(fields: Mapping[str, Any], now: Moment) -> dict[str, Any]:
    """Return the fields, with the bounds of the job's time as a definition has them. Raises `InvalidInput`."""
    bounds = {name: fields[name] for name in ("starts_at", "ends_at") if fields.get(name) is not None}
    return {**fields, **{name: future_moment_text(name, text, now) for name, text in bounds.items()}}


def _parent(text: str) -> dict[str, str]:
    """Read `ID` or `ID=ON`: no id holds an equals sign."""
    job, _, on = text.partition("=")
    return {"job": job, "on": on or "success"}


def _notify(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Read `EVENT=NAME`, or `NAME` for all events but each success."""
    from tokimori.model.notifier import TROUBLES

    found: dict[str, list[str]] = {}
    for text in texts:
        event, equals, name = text.rpartition("=")
        for each in (event,) if equals else TROUBLES:
            found.setdefault(str(each), []).append(name)
    return found


def _header(text: str) -> tuple[str, str]:
    """Read `NAME: VALUE`, as curl has it."""
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise InvalidInput(f"header: {text!r} is not a header", field="header", value=text, allowed="'NAME: VALUE'")
    return name.strip(), value.strip()


def _pairs(name: str, texts: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidInput(f"{name}: {text!r} is not a pair", field=name, value=text, allowed="KEY=VALUE")
        pairs[key] = value
    return pairs
