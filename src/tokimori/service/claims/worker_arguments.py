"""Checks of the arguments of workers, and their values for claims. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tokimori.errors import InvalidInput
from tokimori.model.ids import ClaimId, RunId, Token, check_job_id, check_uuid
from tokimori.model.outcome import RetryAt, RetryIn, Spawns, spawns_of
from tokimori.model.run import Output, Run
from tokimori.model.sizes import check_size
from tokimori.model.target import check_handler_name
from tokimori.model.words import check_text, check_word
from tokimori.service.validation import Span, When, checked, json_of, many, moment_of, seconds_of

ALIVE_TIME = 60.0
"""Seconds for which a run stays with a worker that says nothing, unless it asks for others."""
LONGEST_ALIVE = 86_400.0
LONGEST_WAIT = 60.0
"""Seconds: a caller who wants to wait for longer asks again."""
MOST_AT_ONCE = 100
MOST_TYPES = 100
MOST_NAME = 255
KEPT_END = 65_536
"""Bytes of an output's beginning and of its end that are kept."""
MOST_SAID = 64 * 1024
"""Bytes of an error, a reason or a result, in UTF-8: lists and the page show them, and children get results."""
_LARGEST_TOKEN = 2**63 - 1


class WorkerRequest(Struct, frozen=True, kw_only=True):
    """Request of a worker: times in seconds. `types` None: any function; `queue` None: of any queue.

    `access_token` is the name of that with which it came; None: it brought none.
    """

    id: ClaimId
    types: tuple[str, ...] | None
    queue: str | None
    limit: int
    wait: float
    alive_time: float
    worker: str
    labels: dict[str, str]
    access_token: str | None = None


def worker_request_of(
    types: Sequence[str] | None,
    *,
    queue: str | None,
    limit: int,
    wait: Span,
    alive_time: Span,
    worker: str,
    labels: Mapping[str, str] | None,
    id: str | None,
    drawn: ClaimId,
    access_token: str | None = None,
) -> WorkerRequest:
    """Return the request; its id is `drawn` if none is given. Raises `InvalidInput`."""
    return WorkerRequest(
        id=drawn if id is None else ClaimId(check_uuid(id, field="id")),
        types=None if types is None else _types_of(types),
        queue=None if queue is None else _queue_of(queue),
        limit=checked("limit", limit, MOST_AT_ONCE),
        wait=_at_most("wait", seconds_of("wait", wait), LONGEST_WAIT),
        alive_time=alive_time_of(alive_time),
        worker=_name_of(worker),
        labels=_labels_of(labels),
        access_token=access_token,
    )


def _types_of(types: object) -> tuple[str, ...]:
    given = many("types", types, "names of functions")
    if not 1 <= len(given) <= MOST_TYPES:
        raise InvalidInput(
            f"types: there are {len(given)}",
            field="types",
            value=given,
            allowed=f"1 to {MOST_TYPES} names of functions",
        )
    for each in given:
        check_text("types", each)
    return tuple(check_handler_name(str(each), field="types") for each in given)


def _queue_of(queue: object) -> str:
    check_word("queue", queue)
    return str(queue)


def _name_of(worker: object) -> str:
    check_text("worker", worker)
    name = str(worker)
    if 1 <= len(name) <= MOST_NAME and name.isprintable():
        return name
    allowed = f"1 to {MOST_NAME} printable characters"
    raise InvalidInput(f"worker: {worker!r} is not a name", field="worker", value=worker, allowed=allowed)


def _labels_of(labels: object) -> dict[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise InvalidInput(f"labels: {labels!r} are none", field="labels", value=labels, allowed="words by words")
    for key, value in labels.items():
        check_word("labels", key)
        check_word("labels", value)
    return dict(labels)


def alive_time_of(given: object) -> float:
    """Return the seconds for which a run stays without a word. Raises `InvalidInput`."""
    seconds = seconds_of("alive_time", given)
    if seconds < 1:
        raise InvalidInput(
            f"alive_time: {given!r} is too short", field="alive_time", value=given, allowed=f"1..{LONGEST_ALIVE:g}"
        )
    return _at_most("alive_time", seconds, LONGEST_ALIVE)


def _at_most(field: str, seconds: float, most: float) -> float:
    if seconds <= most:
        return seconds
    raise InvalidInput(f"{field}: {seconds:g} is too long", field=field, value=seconds, allowed=f"at most {most:g} s")


def key_of(run_id: object, token: object) -> tuple[RunId, Token]:
    """Return the meant attempt. Raises `InvalidInput`."""
    return RunId(check_uuid(run_id, field="run")), Token(checked("token", token, _LARGEST_TOKEN))


def retry_of(after: object, at: When | None) -> RetryAt | RetryIn:
    """Return the time of the retry. Raises `InvalidInput`."""
    if after is not None and at is not None:
        raise InvalidInput("at: a retry is either at or after", field="at", value=at, allowed="one of at, after")
    return RetryIn(seconds_of("after", after or 0)) if at is None else RetryAt(moment_of("at", at, "UTC"))


def said_text(field: str, text: object) -> str:
    """Return the text itself. Raises `InvalidInput`."""
    check_text(field, text)
    check_size(field, str(text), MOST_SAID)
    return str(text)


def result_of(result: object) -> str | None:
    """Return a result as text; anything else than a text is written as JSON. Raises `InvalidInput`."""
    if result is None:
        return None
    return said_text("result", result if isinstance(result, str) else json_of("result", result))


def spawns_in(spawn: object) -> Spawns:
    """Return the runs that a worker spawns. Raises `InvalidInput`."""
    children = list[tuple[str, str | None]]()
    for each in many("spawn", spawn, "objects with job and payload"):
        if not isinstance(each, Mapping) or "job" not in each or each.keys() - {"job", "payload"}:
            raise InvalidInput(f"spawn: {each!r}", field="spawn", value=each, allowed="objects with job and payload")
        payload = each.get("payload")
        text = payload if payload is None or isinstance(payload, str) else json_of("payload", payload)
        children.append((check_job_id(each["job"]), text))
    return spawns_of(children)


def output_of(run: Run, text: object) -> Output:
    """Return the worker's output as it is kept: its beginning and its end. Raises `InvalidInput`."""
    if not isinstance(text, str):
        raise InvalidInput(f"output: {text!r} is not a text", field="output", value=text, allowed="a text")
    written = text.encode(errors="replace")
    head, rest = written[:KEPT_END], written[KEPT_END:]
    return Output(run_id=run.id, attempt=run.attempt, size=len(written), head=head, tail=rest[-KEPT_END:])
