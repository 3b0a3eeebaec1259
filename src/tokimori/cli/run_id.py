"""Ids of runs as people give them."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from tokimori.cli.session import in_service

if TYPE_CHECKING:
    from tokimori.service.service import Service

_T = TypeVar("_T")


def with_run(text: str, act: Callable[["Service", str], Awaitable[_T]]) -> _T:
    """Return the result of `act`, which gets the service and the whole id of the run that is meant."""

    async def in_it(service: "Service") -> _T:
        return await act(service, await service.runs.whole_id(text))

    return in_service(in_it)
