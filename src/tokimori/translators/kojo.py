"""Kōjō's job types and waiting jobs, from its tables or a configuration, as jobs of ours. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tokimori.clock import FIRST, LAST, Moment, format_moment, from_datetime
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.policies import retention_of
from tokimori.schedules.cron import MACROS
from tokimori.schedules.parse import parse_schedule
from tokimori.service.definitions.imports import Start
from tokimori.translators.entries import (
    AT_ONCE,
    Entry,
    Inactive,
    Warnings,
    entries,
    filled_text_in,
    id_of,
    moved,
    refusal,
    shown,
)
from tokimori.translators.php_array import PhpValue, read_php_array
from tokimori.translators.yaml_tree import Faults, Value, read_documents

TYPES, TYPE_KEY, JOBS, JOB_KEY = "kojo_job_type", "kojo_job_type_id", "kojo_job", "kojo_job_id"
_COLUMNS = (
    *("type_code", "name", "worker_uri", "worker_method", "can_work_in_parallel", "default_importance"),
    *("cron_expression", "schedule_limit", "schedule_limit_allowance", "is_enabled", "auto_complete_success"),
    "auto_delete_interval_duration",
)
_MOST_COLUMNS = 100
"""Columns of a row: far more than Kōjō has. A file may name one row of a million columns a million times."""
_STEP_FROM = re.compile(r"(?<![-\w*])\d+/\d+")
_MOST_PRIORITY = 100
_WAITING = ("new", "waiting", "crashed")
Row = tuple[str, Mapping[str, Any]]
"""Place of a row, and its columns."""


def placed_types(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Yield rows of the table of types, with their places."""
    return [(f"{TYPES}, type_code {shown(row.get('type_code'))}", row) for row in rows]


def placed_jobs(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Yield rows of the table of jobs, with their places."""
    return [(f"{JOBS}, id {shown(row.get(JOB_KEY))}", row) for row in rows]


def read_types(types: Iterable[Row], command: Sequence[str] = (), zone: str = "UTC") -> Iterator[Entry]:
    """Read the jobs of these types. With a command they run `command CLASS METHOD`, else the function `CLASS::METHOD`.

    Their schedules are in `zone`.
    """
    for place, row in types:
        yield from entries(place, partial(_one, _type, place, row, command, zone))


def read_waiting(
    jobs: Iterable[Row], types: Iterable[Row], command: Sequence[str] = (), zone: str = "UTC"
) -> Iterator[Entry]:
    """Yield a job for each requested one that waits for its time. Ended ones are left out."""
    known = {str(row.get("type_code")): row for _, row in types}
    for place, row in jobs:
        if not str(row.get("assigned_state")).startswith("complete_"):
            yield from entries(place, partial(_one, _waiting, place, row, command, known, zone))


def _one(translate: Callable[..., Entry], *arguments: object) -> Iterator[Entry]:
    yield translate(*arguments)


_WITHOUT_END: Mapping[str, object] = {"lost_attempts": "unlimited", "asked_retries": 1_000_000}
"""There a crash is always worked again, and a worker may ask for it as often as it likes."""


def _type(place: str, row: Mapping[str, Any], command: Sequence[str], zone: str) -> Entry:
    warnings = Warnings()
    code, retention = filled_text_in(row, "type_code"), _optional_text(row, "auto_delete_interval_duration")
    if retention is not None:
        retention_of(retention)  # PHP knows no other lengths
    fields = {
        "name": _optional_text(row, "name") or (code if code != id_of(code) else None),
        **_target(row, command),
        **_schedule(row, zone),
        **_limits(row, warnings),
        "priority": _priority(row.get("default_importance"), warnings),
        "auto_complete_success": _flag(row, "auto_complete_success", default=False),
        "retention": retention,
        "keep_runs": None if retention is None else 0,
        "retry": _WITHOUT_END,
    }
    for name, value in row.items():
        if name not in _COLUMNS and name != TYPE_KEY and value is not None:
            warnings.add(name, value, "Kōjō has no such column, and it was left out")
    start = AT_ONCE if _flag(row, "is_enabled", default=True) else Start(paused_because="disabled in Kōjō")
    return moved(place, id_of(code), fields, start=start, warnings=warnings.all())


def _optional_text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return None if value in (None, "") else filled_text_in(row, name)


def _flag(row: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = row.get(name)
    if value is None:
        return default
    if value in (0, 1) or str(value) in ("0", "1"):
        return bool(int(value))
    raise refusal(name, value, "true or false, or 0 or 1")


def _number(row: Mapping[str, Any], name: str) -> int:
    value = row.get(name)
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise refusal(name, value, "a whole number from 0")


def _target(row: Mapping[str, Any], command: Sequence[str]) -> dict[str, object]:
    worker, method = filled_text_in(row, "worker_uri").lstrip("\\"), filled_text_in(row, "worker_method")
    if command:
        return {"command": [*command, worker, method]}
    return {"function": f"{worker}::{method}"}


def _schedule(row: Mapping[str, Any], zone: str) -> dict[str, object]:
    """Return cron in the zone; minutes that pass without a worker are not made up for."""
    text = _optional_text(row, "cron_expression")
    if text is None:
        return {"time_zone": zone}
    words = text.split()
    if text not in MACROS and (len(words) != 5 or _STEP_FROM.search(text) or text == "@minutely"):
        raise refusal("cron_expression", text, "five fields, or @hourly … @yearly, as Kōjō takes them")
    return {"schedule": " ".join(words), "time_zone": zone, "misfire": "skip"}


def _limits(row: Mapping[str, Any], warnings: Warnings) -> dict[str, object]:
    """Return the limits: one at a time unless the type may work in parallel, else its limit and allowance."""
    limit, allowance = _number(row, "schedule_limit"), _number(row, "schedule_limit_allowance")
    parallel = _flag(row, "can_work_in_parallel", default=False)
    if limit == 0:
        if allowance:
            warnings.add("schedule_limit_allowance", allowance, "without a schedule_limit it means nothing")
        return {"max_running": 0 if parallel else 1, "on_overlap": "queue"}
    running = limit if parallel else 1
    waiting = limit - running + allowance
    return {"max_running": running, "max_waiting": waiting, "on_overlap": "queue" if waiting else "skip"}


def _priority(value: object, warnings: Warnings) -> int:
    importance = _number({"default_importance": value}, "default_importance")
    if importance > _MOST_PRIORITY:
        warnings.add("default_importance", importance, f"priorities end at {_MOST_PRIORITY} here, which it has now")
    return min(importance, _MOST_PRIORITY)


# Jobs that wait


def _waiting(
    place: str, row: Mapping[str, Any], command: Sequence[str], types: Mapping[str, Mapping[str, Any]], zone: str
) -> Entry:
    """Return the job of a request, which runs once at its time, or soon if that is past."""
    state, code, at = row.get("assigned_state"), filled_text_in(row, "type_code"), _moment(row)
    if state not in _WAITING:
        raise refusal("assigned_state", state, f"one of {', '.join(_WAITING)}: end it in Kōjō first")
    if _is_named(types.get(code, {}).get("cron_expression"), at, zone):
        return Inactive(place, f"work_at_date_time: {format_moment(at)}: the schedule of {code} names it here, too")
    warnings = Warnings()
    fields = {
        **_target(row, command),
        "name": _optional_text(row, "name"),
        "schedule": f"at {format_moment(at)}",
        "misfire": "latest",
        "priority": _priority(row.get("priority"), warnings),
        "auto_complete_success": _flag(types.get(code, {}), "auto_complete_success", default=False),
        "retry": _WITHOUT_END,
    }
    job_id = id_of(f"{code}-kojo-{row.get(JOB_KEY)}")
    return moved(place, job_id, fields, start=Start(since=at), warnings=warnings.all())


def _is_named(cron: object, at: Moment, zone: str) -> bool:
    """Return whether a schedule names the moment."""
    try:
        return bool(cron) and parse_schedule(str(cron), zone=zone).next_after(Moment(at - 1)) == at
    except InvalidInput:
        return False


def _moment(row: Mapping[str, Any]) -> Moment:
    """Return when it may work: databases hold UTC without an offset."""
    value = row.get("work_at_date_time")
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise refusal("work_at_date_time", value, "a time, such as 2030-01-01 00:00:00") from None
    if not isinstance(value, datetime):
        raise refusal("work_at_date_time", value, "a time")
    moment = from_datetime(value if value.tzinfo is not None else value.replace(tzinfo=UTC))
    if not FIRST <= moment <= LAST:  # an offset goes over the first day, or over the last
        raise refusal("work_at_date_time", value.isoformat(), "a time in UTC of the years 1 to 9999")
    return moment


# Configurations


def rows_of_file(text: str, file: str) -> list[Row]:
    """Return the job types of a YAML file, or of a PHP file that returns an array. Raises `InvalidFile`.

    Types stand in a list, or by their codes; perhaps below `job_types` or `kojo_job_type`.
    """
    if text.lstrip().startswith("<?"):
        return list(_rows_of_php(read_php_array(text, file), file))
    faults = Faults(file)
    documents = list(read_documents(text, faults))
    rows = [row for document in documents for row in _rows_of_yaml(document, file)]
    if faults.lines or not documents:
        raise InvalidFile("\n".join(faults.texts()) or f"{file}: it is empty", field="source", value=file)
    return rows


_ABOVE = ("job_types", "kojo_job_type", "kojo_job_table")


def _rows_of_yaml(document: Value, file: str) -> Iterator[Row]:
    above = _ABOVE if isinstance(document.content, dict) else ()
    inner = next((found for name in above if (found := document.get(name))), document)
    if isinstance(inner.content, list):
        for each in inner.items():
            yield f"{file}:{each.line}", _columns(each)
        return
    for code, each in inner.fields().items():
        yield f"{file}:{each.line}", {"type_code": code, **_columns(each)}


def _columns(row: Value) -> dict[str, object]:
    columns = row.fields()
    if len(columns) > _MOST_COLUMNS:
        row.refuse(f"it has {len(columns)} columns; allowed: at most {_MOST_COLUMNS}")
        return {}
    return {name: _plain(value) for name, value in columns.items()}


def _plain(value: Value) -> object:
    return shown(value.content) if isinstance(value.content, dict | list) else value.content


def _rows_of_php(array: PhpValue, file: str) -> Iterator[Row]:
    members = array.content if isinstance(array.content, list) else []
    for key, each in members:
        if key in _ABOVE and isinstance(each.content, list):
            members = each.content
    for key, each in members:
        fields = each.plain()
        if not isinstance(fields, dict):
            message = f"{file}:{each.line}: it is no job type"
            raise InvalidFile(message, field="source", value=file, allowed="an array with the columns' names")
        yield f"{file}:{each.line}", fields if key is None or key.isdecimal() else {"type_code": key, **fields}
