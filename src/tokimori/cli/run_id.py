"""Ids of runs as people give them: whole, or as much of one as tells it from others."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from tokimori.cli.session import in_service
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.ids import RunId

if TYPE_CHECKING:
    from tokimori.service.service import Service

_T = TypeVar("_T")
_DIGITS = 32
_LEAST = 8
_BEGINNING = re.compile(rf"[0-9a-f]{{{_LEAST},{_DIGITS}}}\Z", re.ASCII)
_ALLOWED = f"a run's id, or how it begins: {_LEAST} characters or more"
_SHOWN = 5


def with_run(text: str, act: Callable[["Service", str], Awaitable[_T]]) -> _T:
    """Return the result of `act`, which gets the service and the whole id of the run that is meant."""

    async def in_it(service: "Service") -> _T:
        return await act(service, await whole_id(service, text))

    return in_service(in_it)


async def whole_id(service: "Service", text: str, field: str = "run") -> str:
    """Return the id of the only run whose id begins so. Raises `NotFound`, and `InvalidInput` where several runs' ids
    do.
    """
    digits = text.lower().replace("-", "")
    if _BEGINNING.match(digits) is None:
        raise InvalidInput(f"{field}: {text!r} is not the id of a run", field=field, value=text, allowed=_ALLOWED)
    if len(digits) == _DIGITS:
        return str(UUID(digits))
    after = int(digits, 16) + 1 << 4 * (_DIGITS - len(digits))
    before = None if after >> 4 * _DIGITS else RunId(str(UUID(int=after)))
    newest = await service.runs.list(before=before, limit=_SHOWN, longest=0)
    found = [run.id for run in newest if run.id.replace("-", "").startswith(digits)]
    if not found:
        raise NotFound(f"no run's id begins with {text!r}", field=field, value=text, allowed=_ALLOWED)
    if len(found) > 1:
        message = f"{field}: the ids of several runs begin with {text!r}: {', '.join(found)}"
        raise InvalidInput(message, field=field, value=text, allowed="more of the id")
    return found[0]
