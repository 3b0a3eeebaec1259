"""Jobs of APScheduler 3, as its table `apscheduler_jobs` keeps them: `job_state` is a pickle, read as data. Pure."""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokimori.clock import Moment
from tokimori.service.imports import Start
from tokimori.translators.apscheduler_triggers import read_trigger
from tokimori.translators.call_arguments import Parameters, payload_of
from tokimori.translators.inert_pickle import read_pickle
from tokimori.translators.moving import (
    AT_ONCE,
    Entry,
    Moved,
    Row,
    Warnings,
    entries,
    id_of,
    lasting,
    moved,
    refusal,
    shown,
)

TABLE, KEY = "apscheduler_jobs", "id"
_VERSION = 1
_KNOWN = frozenset(
    {
        *("version", "id", "func", "trigger", "executor", "args", "kwargs", "name", "misfire_grace_time", "coalesce"),
        *("max_instances", "next_run_time"),
    }
)


def from_base64(row: Row) -> Row:
    """Return a row whose state is written as text; what is no Base64 stays as it is, and is refused with the row."""
    try:
        return {**row, "job_state": b64decode(str(row.get("job_state")), validate=True)}
    except ValueError:
        return row


def read_apscheduler(rows: Iterable[Row], now: Moment, parameters: Parameters | None = None) -> Iterator[Entry]:
    """Yield the jobs of these rows. `parameters` are the names of the arguments that a job gives by place."""
    for row in rows:
        place = f"{TABLE}, id {shown(row.get(KEY))}"

        def translate(row: Row = row, place: str = place) -> Iterator[Entry]:
            yield lasting(_job(row, place, parameters or {}), now)

        yield from entries(place, translate)


def _job(row: Row, place: str, parameters: Parameters) -> Moved:
    state = _state(row)
    warnings = Warnings()
    name = _text(state, "id")
    title = _text(state, "name") if state.get("name") else name
    fields = {
        "function": _function(state),
        "name": title if state.get("name") or name != id_of(name) else None,
        "payload": payload_of(warnings, _text(state, "func"), _args(state), _kwargs(state), parameters),
        **read_trigger(state.get("trigger")),
        **_policies(state),
    }
    if (executor := state.get("executor")) != "default":
        warnings.add("executor", executor, "there are none here: functions run in worker processes")
    for more in sorted(map(str, state.keys() - _KNOWN)):
        warnings.add(more, state[more], "it is not known, and left out")
    start = Start(paused_because="paused in APScheduler") if state.get("next_run_time") is None else AT_ONCE
    return moved(place, id_of(name), fields, start=start, warnings=warnings.all())


def _state(row: Row) -> Mapping[str, Any]:
    data = row.get("job_state")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise refusal("job_state", data, "a pickle, as SQLAlchemyJobStore writes it")
    state = read_pickle(bytes(data))
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise refusal("job_state", state, "the state of a job, as SQLAlchemyJobStore writes it")
    if state.get("version") != _VERSION:
        raise refusal("version", state.get("version"), f"{_VERSION}, that of APScheduler 3")
    return state


def _text(state: Mapping[str, Any], name: str) -> str:
    value = state.get(name)
    if isinstance(value, str) and value:
        return value
    raise refusal(name, value, "a text")


def _function(state: Mapping[str, Any]) -> str:
    """`module:function` is how both write it."""
    text = _text(state, "func")
    if ":" not in text:
        raise refusal("func", text, "module:function")
    return text


def _args(state: Mapping[str, Any]) -> Sequence[object]:
    args = state.get("args", ())
    if isinstance(args, tuple | list):
        return args
    raise refusal("args", args, "a list")


def _kwargs(state: Mapping[str, Any]) -> Mapping[Any, object]:
    kwargs = state.get("kwargs", {})
    if isinstance(kwargs, dict):
        return kwargs
    raise refusal("kwargs", kwargs, "a dict")


def _policies(state: Mapping[str, Any]) -> dict[str, object]:
    """Several missed times are one run where they are coalesced; each is left out that is later than the grace."""
    grace, coalesce, most = (state.get(name) for name in ("misfire_grace_time", "coalesce", "max_instances"))
    if not isinstance(coalesce, bool):
        raise refusal("coalesce", coalesce, "True or False")
    if not isinstance(grace, int | float | None):
        raise refusal("misfire_grace_time", grace, "seconds, or None")
    if not isinstance(most, int):
        raise refusal("max_instances", most, "a whole number")
    return {
        "misfire": "latest" if coalesce else "all",
        "grace": grace,
        "max_running": most,
        "on_overlap": "skip",
    }
