"""PerfectSched's table, read as jobs: each row is a schedule with its next slot. Pure.

The job is what `tokimori.perfectsched` would add: its slots run one at a time, the oldest first, and none is missed.
The `timeout` of a row is when its slot `next_time` runs or, while a worker has the slot, until when.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

import msgspec

from tokimori.clock import SECOND, Moment, format_moment
from tokimori.config.value import MASK
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.job import Definition, schedule_of
from tokimori.model.target import check_handler_name
from tokimori.schedules.cron import Dialect, rewrite
from tokimori.service.definitions.imports import Start
from tokimori.translators.became import Became, cited, unknown
from tokimori.translators.entries import Entry, Moved, Row, Warnings, entries, moved, number_in, refusal, shown, text_in
from tokimori.translators.store_urls import store_url
from tokimori.translators.yaml_tree import Faults, Value, read_documents

_SAME = {
    "timezone": ("time_zone", ""),
    "poll_interval": (
        "schedule.update_interval_seconds",
        "a node sleeps until something is due; this is how often it asks for edits at least, and each beat, every 2 s,"
        " asks too",
    ),
    "log": ("log.file", ""),
}
_NO_EQUAL = {
    "type": "nothing has to be said: the URL of the store says of which kind it is",
    "table": "all is kept in tables named tokimori_…; `?namespace=NAME` in the store's URL keeps two systems in one"
    " database apart",
    "alive_time": "a node holds one lease for all that it runs: it is renewed every 2 s, and a node that is dead is"
    " known after 7 s",
    "retry_wait": "each job says how its failures are tried again: `tokimori job update ID --attempts N --retry-delay"
    " LENGTH`",
    "max_acquire": "PerfectSched does not use it; how many run at a time is node.concurrency",
}
_STORE = ("url", "sslca")
KEYS = dict.fromkeys((*_SAME, *_NO_EQUAL, *_STORE))
_TEMPLATE = "<%"


def read_perfectsched_settings(text: str, base: PurePath) -> Iterator[Became]:
    """Yield the result of each key of each section, which becomes `[env.NAME]`. Raises `InvalidInput`."""
    faults = Faults("line")
    for document in read_documents(text, faults):
        sections = document.fields()
        flat = any(not isinstance(section.content, dict) for section in sections.values())
        for env, section in ((None, document),) if flat else sections.items():
            yield from _section(section, env, base)
    if faults.lines:
        raise InvalidFile("\n".join(faults.texts()), field="file")


def _section(section: Value, env: str | None, base: PurePath) -> Iterator[Became]:
    content = {key: value.content for key, value in section.fields().items() if value.content is not None}
    for key, value in content.items():
        _check_plain(key, value)
        if key in _SAME:
            setting, why = _SAME[key]
            yield Became(key=key, given=cited(value), settings={setting: value}, why=why, env=env)
        elif key in _NO_EQUAL:
            yield Became(key=key, given=cited(value), why=_NO_EQUAL[key], env=env)
        elif key not in KEYS:
            yield unknown(key, KEYS, "PerfectSched", env)
    yield from _store(content, env, base)


def _check_plain(key: str, value: object) -> None:
    """Refuse a template of Ruby, which means nothing until Ruby has run it."""
    if isinstance(value, str) and _TEMPLATE in value:
        raise InvalidInput(f"{key}: it is a template of Ruby", field=key, allowed="the value that it stands for")


def _store(said: dict[str, object], env: str | None, base: PurePath) -> Iterator[Became]:
    url, authority = said.get("url"), said.get("sslca")
    if url is None:
        if authority is not None:
            yield Became(key="sslca", given=cited(authority), why="no url is said, to which it belongs", env=env)
        return
    if not isinstance(url, str) or not (authority is None or isinstance(authority, str)):
        key = "sslca" if isinstance(url, str) else "url"
        raise InvalidInput(f"{key}: this is no text", field=key, allowed="a text")
    store = store_url(url, base, {"sslca": authority}, field="url")
    for key in (key for key in _STORE if key in said):
        yield Became(key=key, given=MASK, settings={"store": store.url}, why=store.why if key == "url" else "", env=env)


_NUMBER = r"(?:\d+|[a-z]{3})"
_TERM = re.compile(rf"(?:\*|{_NUMBER}(?:-{_NUMBER})?)(?:/\d+)?\Z", re.ASCII | re.IGNORECASE)
_MACROS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@hourly"})
_WITHOUT_END = 1_000_000
_LATEST = 2**31 - 1
_CRON = "five fields of *, numbers, names, ranges, steps and lists, or one of " + ", ".join(sorted(_MACROS))


class PerfectSched(NamedTuple):
    """Terms that no row names: the `table`, which becomes the queue, the `retry_wait` of a configuration, the zone."""

    table: str
    retry_wait: float = 300
    time_zone: str = "UTC"


def read_perfectsched(rows: Sequence[Row], perfectsched: PerfectSched) -> Iterator[Entry]:
    """Yield the jobs of these rows; the id of one is its key."""
    for row in rows:

        def translate(row: Row = row) -> Iterator[Entry]:
            yield _job(row, perfectsched)

        yield from entries(f"{perfectsched.table}, id {shown(row.get('id'))}", translate)


def _job(row: Row, perfectsched: PerfectSched) -> Moved:
    warnings = Warnings()
    key = text_in(row, "id")
    kind, payload = _type_and_data(row, key, warnings)
    fields: Mapping[str, object] = {
        "function": kind,
        "payload": payload,
        "schedule": _cron(text_in(row, "cron"), warnings),
        "delay": number_in(row, "delay"),
        "time_zone": text_in(row, "timezone") or perfectsched.time_zone,
        "queue": perfectsched.table,
        "gap": "skip",
        "fold": "both",
        "misfire": "all",
        "on_overlap": "queue",
        "retry": {
            "attempts": _WITHOUT_END,
            "delay": perfectsched.retry_wait,
            "lost_attempts": "unlimited",
            "asked_retries": _WITHOUT_END,
        },
    }
    place = f"{perfectsched.table}, id {shown(key)}"
    job = moved(place, key, fields)
    return replace(job, start=_start(row, job.definition, warnings), warnings=warnings.all())


def _start(row: Row, definition: Definition, warnings: Warnings) -> Start:
    """Return the slot with which the job continues, and when that may run."""
    slot, timeout, delay = (_seconds(row, column) for column in ("next_time", "timeout", "delay"))
    if schedule_of(definition, Moment(0)).next_after(Moment(slot * SECOND - 1)) != slot * SECOND:
        named = format_moment(Moment(slot * SECOND))
        warnings.add("next_time", slot, f"the cron text does not name {named}: the next that it names is the first")
    if timeout > slot + delay:
        then = format_moment(Moment(timeout * SECOND))
        warning = f"the slot runs from {then} on: somebody may be at work on it there, or it waits for its retry"
        warnings.add("timeout", timeout, warning)
    return Start(since=Moment(slot * SECOND), not_before=Moment(timeout * SECOND))


def _seconds(row: Row, column: str) -> int:
    seconds = number_in(row, column)
    if not 0 <= seconds <= _LATEST:
        raise refusal(column, seconds, f"seconds, 0..{_LATEST}")
    return seconds


def _type_and_data(row: Row, key: str, warnings: Warnings) -> tuple[str, str | None]:
    """Return the type in the data, or before the first dot of the key, and the rest of the data, if any."""
    data = row.get("data")
    found: object = None
    try:
        found = msgspec.json.decode(data) if isinstance(data, str | bytes) else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    if not isinstance(found, dict):
        if data not in (None, "", b""):
            warnings.add("data", data, "it is no object of JSON, and read as none, as there")
        found = {}
    kind = found.pop("type", None) or key.partition(".")[0]
    try:
        check_handler_name(str(kind), field="data.type")
    except InvalidInput as fault:
        raise refusal("data.type", kind, str(fault.allowed)) from None
    if not isinstance(kind, str):
        raise refusal("data.type", kind, "a text")
    return kind, msgspec.json.encode(found).decode() if found else None


def _cron(text: str, warnings: Warnings) -> str:
    """Return the cron text in our own rules. Raises `InvalidInput` for a text that never runs there."""
    if text.strip() in _MACROS:
        return text.strip()
    fields = text.split()
    if len(fields) != 5 or not all(_TERM.match(term) for field in fields for term in field.split(",")):
        raise refusal("cron", text, _CRON)
    plain, written = " ".join(fields), rewrite(text, Dialect.CHRONO)
    if written != plain:
        warnings.add("cron", text, f"kept as {written!r}, which is what it means there")
    return written
