"""Terms of requests that an app declares with a function: the key of a run, and what becomes of a second request."""

import inspect
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Protocol, cast

from msgspec import Struct

from tokimori.apps.arguments import Arguments
from tokimori.apps.json_text import text_of
from tokimori.client.asynchronous import AsyncClient, Way
from tokimori.clock import Moment
from tokimori.errors import Conflict, InvalidInput
from tokimori.model.ids import JobId
from tokimori.model.request import key_of_payload
from tokimori.model.transitions import RunState
from tokimori.service.definitions.arguments import RequestArguments
from tokimori.service.definitions.requests import Became, OnDuplicate, read_request
from tokimori.service.store_calls import MOST_TRIES
from tokimori.service.validation import moment_ahead
from tokimori.service.views.runs import RequestedRun


class ByFirst(Protocol):
    """A function of the first argument and the others by name: so a type checker knows the parameters of a lambda."""

    def __call__(self, first: Any, /, **others: Any) -> object:
        """Return the key of a request; None: it is not unique."""
        ...


UniqueBy = ByFirst | Callable[..., object]
"""A function of the arguments by name, which returns the key of a request; None: it is not unique."""

Merge = Callable[[dict[str, Any], dict[str, Any]], Mapping[str, Any]]
"""A function of the arguments of the run that waits and of the new ones, by name, which returns those of both."""
_OF_UNIQUE = ("unique", "on_duplicate")
_LONGEST = 255


class Uniqueness(Struct, frozen=True):
    """Terms of all requests for a function, as `DeclaredArguments` says them."""

    asked: Mapping[str, Any] = {}
    by: Callable[..., object] | None = None
    merge: Merge | None = None

    def terms(self, how: Mapping[str, Any], payload: str | None, arguments: Arguments) -> dict[str, Any]:
        """Return the terms of a request: those that it says go first."""
        merged = {**self.asked, **how}
        if merged.get("unique") is not None and how.get("key") is None and self.by is not None:
            merged["key"] = _key(self.by(**arguments.decode(payload)))
            merged["unique"] = merged["unique"] if merged["key"] is not None else None
        if merged.get("unique") is not None:
            return merged
        return {name: value for name, value in merged.items() if name not in _OF_UNIQUE or (name in how and value)}

    def merges(self, terms: Mapping[str, Any]) -> bool:
        """Return if a request with these terms is merged with one that waits."""
        return self.merge is not None and terms.get("on_duplicate") == OnDuplicate.REPLACE


def _key(value: object) -> str | None:
    """Return the key that a value of `unique_by` is; None is none."""
    if value is None:
        return None
    key = value if isinstance(value, str) else text_of(value, "unique_by")
    is_plain = 1 <= len(key) <= _LONGEST and key.isprintable()
    return key if is_plain else sha256(key.encode(errors="surrogatepass")).hexdigest()


def uniqueness_of(fields: dict[str, Any], arguments: Arguments) -> Uniqueness:
    """Take the terms of requests out of the fields of a declared job. Raises `InvalidInput`."""
    by, merge = fields.pop("unique_by", None), fields.pop("merge", None)
    asked = {name: fields.pop(name) for name in (*_OF_UNIQUE, "expires") if name in fields}
    asked = {name: value for name, value in asked.items() if value is not None}
    if merge is not None and "unique" in asked:
        answer = asked.setdefault("on_duplicate", OnDuplicate.REPLACE.value)
        if answer != OnDuplicate.REPLACE:
            message = f"merge: it is never called, as a second request is answered {answer!r}"
            allowed = "merge beside on_duplicate replace, or alone"
            raise InvalidInput(message, field="merge", value=merge, allowed=allowed)
    if "expires" in asked and moment_ahead("expires", asked["expires"], "UTC", Moment(0)) <= Moment(0):
        message = f"expires: after {asked['expires']!r} each request has expired when it is made"
        raise InvalidInput(message, field="expires", value=asked["expires"], allowed="a length of time, such as 2h")
    read_request(None, None, cast("RequestArguments", asked))
    for name, value, called in (("unique_by", by, dict(arguments.names)), ("merge", merge, ({}, {}))):
        _check_called(name, value, called, is_unique="unique" in asked)
    return Uniqueness(asked, by, merge)


def _check_called(name: str, given: object, called: Any, *, is_unique: bool) -> None:
    if given is None:
        return
    if not is_unique:
        raise InvalidInput(f"{name}: the job is not unique", field=name, value=given, allowed=f"{name} beside unique")
    try:
        signature = inspect.signature(cast("Callable[..., object]", given))
        signature.bind(**called) if isinstance(called, dict) else signature.bind(*called)
    except (TypeError, ValueError) as fault:
        allowed = "a function of the arguments of the job's, by name: lambda order, **_: order"
        allowed = allowed if name == "unique_by" else "a function of two dicts: lambda old, new: {**old, **new}"
        raise InvalidInput(f"{name}: it can't be called: {fault}", field=name, value=given, allowed=allowed) from None


async def ask_merged(
    way: Way, job_id: JobId, payload: str | None, *, terms: Mapping[str, Any], merge: Merge, arguments: Arguments
) -> RequestedRun:
    """Request a run; one of the same key that has not begun takes this request over, with what `merge` makes of both.

    Another one's change in between is seen: then all begins anew. Raises `Conflict` if that never ends.
    """
    key = terms.get("key") or key_of_payload(payload)
    rest = {name: value for name, value in terms.items() if name != "key"}

    async def ask(content: str | None, **more: Any) -> RequestedRun:
        async def act(client: AsyncClient) -> Any:
            return await client.jobs.request(job_id, key, content, **cast("RequestArguments", {**rest, **more}))

        return cast(RequestedRun, await way(act))

    for left in reversed(range(MOST_TRIES)):
        found = await ask(payload, on_duplicate=OnDuplicate.SAME)
        if found.became is Became.MADE or (found.state is RunState.HELD and not found.attempt):
            return found
        waits = not found.attempt and found.state is not RunState.RUNNING
        content, place = payload, cast("tuple[str | None, str | None]", (None, None))
        if waits:
            both = merge(arguments.decode(found.payload), arguments.decode(payload))
            content, place = arguments.encode((), both), (found.id, found.payload)
        try:
            return await ask(content, on_duplicate=OnDuplicate.REPLACE, in_place_of=place)
        except Conflict:
            if not left:
                raise
    raise AssertionError
