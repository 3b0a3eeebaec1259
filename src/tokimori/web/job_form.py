"""Fields of a job as texts of a form, and back. Pure."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec import DecodeError, json

from tokimori.errors import InvalidInput
from tokimori.model.job_fields import FIELDS, SECTIONS, JobField

Texts = Mapping[str, str]
"""Texts of fields by their paths, such as `retry.attempts`; fields with their defaults are left out."""
_LABELS: Final[Mapping[str, str]] = {"url": "URL", "cwd": "Working folder"}
_PAIRS: Final[Mapping[str, str]] = {"env": "=", "labels": "=", "headers": ": ", "parents": "=", "notify": "="}
_LISTS: Final = frozenset({"email", "calendars", "semaphores", "expect", "notifier.quiet"})
_AREAS: Final = {*_PAIRS, *_LISTS, "command", "schedule", "payload", "stdin", "body", "mail_text", "description"}
_SHOWN: Final = {"command", "url", "function", "cwd", "schedule", "time_zone", "calendars", "parents", "misfire"} | {
    *("queue", "priority", "max_running", "on_overlap", "semaphores", "timeout", "retry.attempts", "retry.delay"),
    *("retry.backoff", "on_exhausted", "notify", "name", "description", "owner"),
}
"""Fields that most jobs have; the others are folded."""


class FormRow(NamedTuple):
    """A field of the form. `kind`: `choice` of one of the options, `area` for several lines, `text`."""

    path: str
    label: str
    kind: str
    text: str
    usual: str
    hint: str
    options: Sequence[str]
    changed: bool
    fault: str


class FormSection(NamedTuple):
    """Section of the form. Some of its fields are folded; `folded_set` counts those with a value."""

    title: str
    rows: Sequence[FormRow]
    folded: Sequence[FormRow]
    folded_set: int
    is_open: bool


def flat(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields by their paths."""
    found: dict[str, object] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping) and name in ("retry", "notifier"):
            found |= {f"{name}.{each}": inner for each, inner in value.items()}
        else:
            found[name] = value
    return {path: value for path, value in found.items() if path in FIELDS and value is not None}


def texts_of(fields: Mapping[str, object]) -> Texts:
    """Return the texts of the form for these fields."""
    return {path: text for path, value in flat(fields).items() if (text := text_of(path, value))}


def text_of(path: str, value: object) -> str:
    """Return the text of a field with this value."""
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return value.replace("\r\n", "\n")
        case int() | float():
            number = f"{value:.6f}".rstrip("0").rstrip(".")
            return f"{number}s" if FIELDS[path].unit == "seconds" else number
        case _ if (lines := _lines(path, value)) is not None:
            return "\n".join(lines)
        case _:
            return json.encode(value).decode()


def _lines(path: str, value: object) -> Sequence[str] | None:
    """Return the lines of a list or of pairs; None for what no lines can say."""
    mark, found = _PAIRS.get(path), list[str]()
    if path == "parents" and isinstance(value, list | tuple):
        found = [f"{each['job']}={each.get('on', 'success')}" for each in value]
    elif path == "notify" and isinstance(value, Mapping):
        found = [f"{event}={name}" for event, names in value.items() for name in names]
    elif mark is not None and isinstance(value, Mapping):
        if any(mark.strip() in name or name != name.strip() for name in value):
            return None
        found = [f"{name}{mark}{each}" for name, each in value.items()]
    elif path in _LISTS and isinstance(value, list | tuple):
        found = [str(each) for each in value]
    else:
        return None
    are_lines = all(len(each.splitlines()) == 1 and each == each.strip() and each[:1] not in "{[" for each in found)
    return found if are_lines else None


def fields_in(texts: Texts, old: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of these texts. A text equal to that of `old` leaves its value. Raises `InvalidInput`."""
    known, found = flat(old), dict[str, object]()
    for path in FIELDS:
        text = texts.get(path, "").replace("\r\n", "\n")
        if not text.strip():
            continue
        same = path in known and text_of(path, known[path]) == text
        value = known[path] if same else _value(path, FIELDS[path], text)
        group, dot, name = path.partition(".")
        if dot:
            found[group] = {**dict(found.get(group, {})), name: value}  # type: ignore[call-overload]
        else:
            found[path] = value
    return found


def _value(path: str, field: JobField, text: str) -> object:
    if isinstance(field.default, bool):
        return text == "yes"
    if path in ("command", *_LISTS, *_PAIRS) and text.lstrip()[:1] in ("[", "{"):
        with suppress(DecodeError):
            return json.decode(text)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if path in _LISTS:
        words = [word.strip() for line in lines for word in line.split(",") if word.strip()]
        return [int(word) if path == "expect" and word.isdecimal() and len(word) < 9 else word for word in words]
    if path in _PAIRS:
        return _paired(path, lines)
    if field.is_number and re.fullmatch(r"-?\d{1,15}(\.\d{1,9})?", text.strip(), re.ASCII):
        return float(text) if "." in text else int(text)
    return text if path in _AREAS else text.strip()


def _paired(path: str, lines: Sequence[str]) -> object:
    mark, pairs = _PAIRS[path].strip(), list[tuple[str, str]]()
    for line in lines:
        name, found, value = line.partition(mark)
        if not found and path != "parents":
            pair = "EVENT=NOTIFIER" if path == "notify" else f"NAME{_PAIRS[path]}VALUE"
            message, allowed = f"{path}: {line[:100]!r} has no {mark!r}", f"a line for each: {pair}"
            raise InvalidInput(message, field=path, value=line[:100], allowed=allowed)
        pairs.append((name.strip(), value.strip()))
    if path == "parents":
        return [{"job": name, "on": value or "success"} for name, value in pairs]
    if path == "notify":
        return {event: [name for each, name in pairs if each == event] for event, _ in pairs}
    return dict(pairs)


def sections(texts: Texts, old: Texts, fault: InvalidInput | None) -> Sequence[FormSection]:
    """Return the form: what most jobs have in each section, and the rest, folded."""
    wrong = place_of(fault)
    found = []
    for title, fields in SECTIONS.items():
        rows = [_row(path, each, texts, old, fault if path == wrong else None) for path, each in fields.items()]
        folded = [row for row in rows if row.path not in _SHOWN]
        shown = [row for row in rows if row.path in _SHOWN]
        is_open = any(row.fault for row in folded)
        found.append(FormSection(title, shown, folded, sum(1 for row in folded if row.text), is_open))
    return found


def place_of(fault: InvalidInput | None) -> str | None:
    """Return the path of the field that is wrong; None if it is none of the form."""
    at = "" if fault is None else fault.field or ""
    return next((path for path in FIELDS if at == path or at.startswith((f"{path}.", f"{path}["))), None)


def _row(path: str, field: JobField, texts: Texts, old: Texts, fault: InvalidInput | None) -> FormRow:
    options = ("yes", "no") if isinstance(field.default, bool) else field.choices
    text = texts.get(path, "")
    kind = (
        "choice" if options and (not text or text in options) else "area" if path in _AREAS or "\n" in text else "text"
    )
    allowed = (
        "" if fault is None or not fault.allowed or fault.allowed in fault.message else f" Allowed: {fault.allowed}"
    )
    return FormRow(
        path=path,
        label=_LABELS.get(path) or path.rpartition(".")[2].replace("_", " ").capitalize(),
        kind=kind,
        text=text,
        usual=field.default_text,
        hint=f"{field.meaning.removesuffix('.')}; {field.bound}" if field.bound and not options else field.meaning,
        options=options,
        changed=text != old.get(path, ""),
        fault="" if fault is None else f"{fault.message}{allowed}",
    )


def diff(old: Texts, new: Texts) -> Sequence[tuple[str, str]]:
    """Return the changed lines, each with its sign."""
    lines = []
    for path in FIELDS:
        before, after = old.get(path, ""), new.get(path, "").replace("\r\n", "\n")
        if before != after:
            lines += [(sign, f"{path} = {text}") for sign, text in (("-", before), ("+", after)) if text]
    return lines
