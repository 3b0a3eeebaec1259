"""Jobs in the flat form that all doors use, and its conversion to a definition and back. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Literal, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, field

from tokimori.errors import InvalidInput, Refused
from tokimori.model.build import build_name
from tokimori.model.checks import check_definition
from tokimori.model.email import Email, Tls
from tokimori.model.encoding import allowed_in
from tokimori.model.job import Definition, Job, Terms
from tokimori.model.job_fields import FIELDS, LONGEST, OF_RETRY
from tokimori.model.target import METHODS, Build, Command, Function, Http, Noop, Target, Unreadable
from tokimori.model.words import check_text, texts_in
from tokimori.schedules.stamp import iso_text, seconds_in
from tokimori.service.definitions.arguments import ELSEWHERE, JobArguments, RequestArguments
from tokimori.service.validation import seconds_of
from tokimori.spelling import hint, nearest

MOST_RUNS = 1_000_000_000
"""The most that `runs_remaining` may be."""


class JobFields(Terms, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The fields in which a user describes a job, target and terms side by side (`tokimori.model.job_fields`).

    `runs_remaining` is not part of the definition: the job counts how many are left.
    """

    runs_remaining: Annotated[int, Meta(ge=1, le=MOST_RUNS)] | None = None
    command: str | tuple[str, ...] | None = None
    function: str | None = None
    url: str | None = None
    email: tuple[str, ...] | None = None
    build: str | None = None
    noop: bool = False
    shell_path: str = "/bin/sh"
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    user: str | None = None
    stdin: str | None = None
    method: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    expect: tuple[int, ...] = ()
    callback_within: Annotated[float, Meta(gt=0, le=LONGEST)] | None = None
    sign_with: str | None = None
    smtp: str | None = None
    sender: str | None = None
    tls: Tls = Tls.STARTTLS
    smtp_user: str | None = None
    smtp_password: str | None = None
    mail_subject: str | None = None
    mail_text: str | None = None


_OF_KIND = {
    "command": ("shell_path", "env", "cwd", "user", "stdin"),
    "function": (),
    "url": ("method", "headers", "body", "expect", "callback_within", "sign_with"),
    "build": (),
    "noop": (),
    "email": ("smtp", "sender", "tls", "smtp_user", "smtp_password", "mail_subject", "mail_text"),
}
"""The fields that say a kind of target, each with the others that the kind has."""
_OF_A_TARGET = (*_OF_KIND, *(name for names in _OF_KIND.values() for name in names))
_DEFAULTS = {name: getattr(JobFields(), name) for name in _OF_A_TARGET}
LENGTHS = frozenset(path for path, each in FIELDS.items() if each.unit == "seconds")
"""The fields that say a length of time."""
_INDEX = re.compile(r"\[[^]]*\]")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")


def definition_from(fields: Mapping[str, object], *, time_zone: str = "UTC") -> Definition:
    """Return the definition of these fields; a null is the default, `time_zone` the zone of a job without one.

    Raises `InvalidInput` naming the field. The schedule's text is checked by `schedule_of`.
    """
    _check_names(fields)
    given = _with_seconds(fields)
    parsed = _convert({"time_zone": time_zone, **given})
    terms = dict(zip(Terms.__struct_fields__, _terms_of(parsed), strict=True))
    return check_definition(Definition(target=_target(parsed), **terms))


_terms_of = attrgetter(*Terms.__struct_fields__)


def _with_seconds(fields: Mapping[str, object], within: str = "") -> dict[str, object]:
    """Return the fields that are no null, with seconds for lengths said as texts. Raises `InvalidInput`."""
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in fields.items():
        path = f"{within}{name}"
        if isinstance(value, Mapping) and path in ("retry", "notifier"):
            given[name] = _with_seconds(value, f"{path}.")
        elif isinstance(value, str) and path in LENGTHS:
            given[name] = seconds_of(path, value)
        elif isinstance(value, str) and path == "retention" and (seconds := seconds_in(value)) is not None:
            given[name] = value if value[:1] in "Pp" or seconds < 0 else iso_text(seconds)
    return given


def runs_remaining_in(fields: Mapping[str, object], otherwise: int | None = None) -> int | None:
    """Return how many scheduled runs these fields allow (None: no limit), or `otherwise` if they do not say.

    Raises `InvalidInput`.
    """
    if "runs_remaining" not in fields:
        return otherwise
    return _convert({"runs_remaining": fields["runs_remaining"]}).runs_remaining


def job_fields_of(job: Job) -> JobArguments:
    """Return the present fields of the job without defaults. A job that is added with them behaves alike."""
    fields = fields_of(job.definition)
    if job.runs_remaining is not None:
        fields["runs_remaining"] = job.runs_remaining
    return fields


def fields_of(definition: Definition) -> JobArguments:
    """Return the fields that describe this definition, without defaults; `definition_from` reads them back."""
    terms: dict[str, object] = msgspec.to_builtins(definition)
    for inner in ("target", "apart", "foreign", "declared", "moved", "fired_ahead"):
        terms.pop(inner, None)
    by_name = {"time_zone": definition.time_zone, **terms, **target_fields(definition.target)}
    return cast(JobArguments, by_name)


def target_fields(target: Target | Unreadable) -> dict[str, object]:
    """Return the fields of `JobFields` that describe this target, without defaults."""
    match target:
        case Build(task=task, digest=digest):
            return {"build": build_name(task, digest)}
        case Command():
            return {"command": target.argv if target.shell is None else target.shell, **_others("command", target)}
        case Email():
            return _email_fields(target)
        case Function(name=name):
            return {"function": name}
        case Http(url=url):
            return {"url": url, **_others("url", target)}
        case Noop():
            return {"noop": True}
        case Unreadable():
            return {}


_EMAIL = {
    "smtp": "smtp",
    "sender": "sender",
    "tls": "tls",
    "user": "smtp_user",
    "password": "smtp_password",
    "subject": "mail_subject",
    "text": "mail_text",
}
"""The fields of `Email` with their names in `JobFields`, where other targets have theirs beside them."""


def _email_fields(target: Email) -> dict[str, object]:
    by_name: dict[str, object] = msgspec.to_builtins(target)
    return {"email": target.to, **{name: by_name[field] for field, name in _EMAIL.items() if field in by_name}}


def _email(fields: JobFields) -> Email:
    """Check the arguments. Raises `InvalidInput`."""
    given = {field: value for field, name in _EMAIL.items() if (value := getattr(fields, name)) is not None}
    for name in ("smtp", "sender"):
        if name not in given:
            message, allowed = f"{name}: an e-mail needs it", "smtp: HOST or HOST:PORT, and sender: an address"
            raise InvalidInput(message, field=name, allowed=allowed)
    return Email(to=fields.email or (), **given)


def _others(kind: str, target: Target) -> dict[str, object]:
    """Return the other fields of this kind of target, without defaults."""
    values = {name: getattr(target, name) for name in _OF_KIND[kind]}
    return {name: value for name, value in values.items() if value != _DEFAULTS[name]}


def patched(definition: Definition, changes: Mapping[str, object], *, time_zone: str = "UTC") -> Definition:
    """Return the definition after a JSON merge patch (RFC 7396) of its fields; a null brings the default back.

    A change to another kind of target drops the fields of the old one. Fields that a foreign API stored stay.

    Raises `InvalidInput`, and `Refused` for a definition that can't be read, because its content would be lost.
    """
    check_readable(definition)
    _check_names(changes)
    fields = dict[str, object](fields_of(definition))
    if kinds := [kind for kind in _OF_KIND if changes.get(kind) not in (None, False)]:
        kept = (kinds[0], *_OF_KIND[kinds[0]])
        fields = {name: value for name, value in fields.items() if name not in _OF_A_TARGET or name in kept}
    changed = definition_from(_merge(fields, changes), time_zone=time_zone)
    return with_memory_of(changed, definition)


def with_memory_of(definition: Definition, old: Definition) -> Definition:
    """Return the definition with the texts of foreign formats that the old one carries and that are no fields."""
    remembered = {name: getattr(old, name) for name in ("foreign", "declared", "moved", "fired_ahead")}
    return msgspec.structs.replace(definition, **remembered)


def is_said(job: Job, said: Mapping[str, object], time_zone: str) -> bool:
    """Return whether these fields describe the job as it is now."""
    return fields_of(job.definition) == fields_of(definition_from(said, time_zone=time_zone))


def replacing(job: Job, said: Mapping[str, object]) -> dict[str, object]:
    """Return the merge patch that gives a job these fields, and all others their defaults."""
    old = dict[str, object](job_fields_of(job))
    changes: dict[str, object] = dict.fromkeys(old.keys() - said.keys())
    for name, value in said.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            changes[name] = {**dict.fromkeys(before.keys() - value.keys()), **value}
        elif value != before or name == "time_zone":
            changes[name] = value
    return changes


def check_readable(definition: Definition) -> None:
    """Check that this version can read the definition. Raises `Refused`."""
    if isinstance(definition.target, Unreadable):
        raise Refused(
            f"the job's definition can't be read by this version of Tokimori: {definition.target.why}",
            allowed="to pause or delete the job, or a newer version of Tokimori",
        )


def _merge(old: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    merged = dict(old)
    for name, change in changes.items():
        if change is None:
            merged.pop(name, None)
        elif isinstance(change, Mapping):
            below = merged.get(name)
            merged[name] = _merge(below if isinstance(below, Mapping) else {}, change)
        else:
            merged[name] = change
    return merged


def _target(fields: JobFields) -> Target:
    kinds = [kind for kind in _OF_KIND if getattr(fields, kind) not in (None, False)]
    if fields.approval and not kinds:
        kinds = ["noop"]
    if len(kinds) != 1:
        raise InvalidInput(
            "command: a job runs a command, a function or a build, sends a request (url) or an email, or does nothing"
            " (noop); with approval it may have none of them",
            field="command",
            allowed=f"one of {', '.join(_OF_KIND)}",
        )
    _check_no_others(fields, kinds[0])
    if fields.function is not None:
        return Function(name=fields.function)
    if fields.url is not None:
        method = fields.method
        if method is not None and method.upper() in METHODS:
            method = method.upper()
        others = {name: getattr(fields, name) for name in _OF_KIND["url"] if name != "method"}
        return Http(url=fields.url, method=method, **others)
    if fields.email is not None:
        return _email(fields)
    if fields.build is not None:
        task, at, digest = fields.build.rpartition("@")
        if not at:
            what = f"build: {fields.build!r} has no digest"
            raise InvalidInput(what, field="build", value=fields.build, allowed="TASK@DIGEST")
        return Build(task=task, digest=digest)
    if kinds == ["noop"]:
        return Noop()
    others = {name: getattr(fields, name) for name in _OF_KIND["command"]}
    if isinstance(fields.command, str):
        return Command(shell=fields.command, **others)
    return Command(argv=tuple(fields.command or ()), **others)


def _check_no_others(fields: JobFields, kind: str) -> None:
    """Check that no field of another kind of target is said: it would have no effect. Raises `InvalidInput`."""
    for other, names in _OF_KIND.items():
        for name in names if other != kind else ():
            if (value := getattr(fields, name)) != _DEFAULTS[name]:
                what = {"command": "command", "email": "email"}.get(other, "request")
                raise InvalidInput(
                    f"{name}: only a {what} has this field", field=name, value=value, allowed=f"no value with {kind}"
                )


def _check_names(fields: Mapping[str, object]) -> None:
    known = JobFields.__struct_fields__
    for name in fields:
        if name not in known:
            meant = term_meant(name, known)
            meant = f'retry={{"{OF_RETRY[meant]}": …}}' if meant in OF_RETRY else meant
            raise no_such_term(name, fields[name], meant, known, "jobs.trigger(…, {}=…)")


def term_meant(name: str, known: Iterable[str]) -> str:
    """Return the term of a job that was probably meant by a name; empty if none is near."""
    word = "schedule" if (word := ELSEWHERE.get(name, name)) == "at" else word
    return nearest(word, (*known, *OF_RETRY)) or ""


def no_such_term(name: str, value: object, meant: str, known: Iterable[str], asked: str) -> InvalidInput:
    """Return the error for a name that no term of a job has; `asked` is how a request says its own terms."""
    hint = f"; did you mean {meant}?" if meant else ""
    if not hint and ((word := ELSEWHERE.get(name, name)) == "key" or word in RequestArguments.__annotations__):
        hint = f"; a request has it: {asked.format(word)}"
    return InvalidInput(
        f"{name}: a job has no such field{hint}", field=name, value=value, allowed=f"one of {', '.join(sorted(known))}"
    )


def _convert(fields: Mapping[str, object]) -> JobFields:
    try:
        return msgspec.convert(fields, JobFields)
    except msgspec.DecodeError as fault:
        raise _invalid(str(fault), fields) from None
    except UnicodeEncodeError:  # msgspec found half of a surrogate pair in place of a word or a number
        for name, value in fields.items():
            for text in texts_in(value):
                check_text(name, text)
        raise


def _invalid(fault: str, fields: Mapping[str, object]) -> InvalidInput:
    """Return our error for one of msgspec: `Expected …, got …`, `Invalid enum value …`, `… unknown field …`."""
    why, _, place = fault.replace("`key` in ", "").partition(" - at `$")
    place = place.strip("`.")
    path = _INDEX.sub("", place)
    value = _wrong(fields, place)
    allowed = allowed_in(why) or why
    if words := _words(path):
        allowed = words
    elif why.startswith("Invalid enum value"):
        allowed = _number_or_word(path)
    elif unknown := _UNKNOWN.search(why):
        known = [each for kind in _kinds_at(path) for each in getattr(kind, "__struct_fields__", ())]
        meant = hint(OF_RETRY.get(word := ELSEWHERE.get(unknown[1], unknown[1]), word), known)
        message, path = f"{path}.{unknown[1]}: {path} has no such field{meant}", f"{path}.{unknown[1]}"
        return InvalidInput(message, field=path, value=_at(fields, path), allowed=f"one of {', '.join(known)}")
    return InvalidInput(f"{path}: {value!r} is not allowed", field=path, value=value, allowed=allowed)


def _wrong(fields: Mapping[str, object], place: str) -> object:
    """Return the value at the place; msgspec does not say which value of a mapping (`[...]`) it means."""
    value = _at(fields, place)
    if place.endswith("[...]") and isinstance(value, Mapping):
        return next((each for each in (*value, *value.values()) if not isinstance(each, str)), value)
    return value


def _words(path: str) -> str:
    """Return the words that are allowed in the field `a.b`."""
    return ", ".join(member.value for kind in _kinds_at(path) if issubclass(kind, StrEnum) for member in kind)


def _number_or_word(path: str) -> str:
    """Return the allowed values of a field that takes a number or a word."""
    *before, name = path.split(".")
    hints = [get_type_hints(kind).get(name) for kind in _kinds_at(".".join(before))]
    words = [
        word for hint in hints for part in get_args(hint) if get_origin(part) is Literal for word in get_args(part)
    ]
    return f"a whole number, or {' or '.join(map(repr, words))}"


def _kinds_at(path: str) -> list[type]:
    """Return the types of the field `a.b`."""
    kinds: list[type] = [JobFields]
    for name in filter(None, path.split(".")):
        kinds = [part for kind in kinds for part in _kinds(get_type_hints(kind).get(name))]
    return kinds


def _kinds(hint: object) -> Iterator[type]:
    """Yield the types of which a hint is made."""
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        yield from _kinds(part)


def _at(fields: object, path: str) -> object:
    """Return the value at the path `a[0].b` of nested mappings and lists."""
    for name in re.findall(r"[^.\[\]]+", path):
        if isinstance(fields, Mapping):
            fields = fields.get(name)
        elif isinstance(fields, Sequence) and not isinstance(fields, str) and name.isdecimal():
            fields = fields[int(name)]
    return fields
