"""Methods of a store that are functions of its modules: a line for each, and mypy holds it against the protocol."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
DB = TypeVar("DB")
DB_co = TypeVar("DB_co", covariant=True)


class Watched(Protocol):
    """A store that tells whoever watches it of changes."""

    def tell(self) -> None:
        """Tell that something has changed."""
        ...


class Connected(Watched, Protocol[DB_co]):
    """A store with connections, once it is open."""

    @property
    def db(self) -> DB_co:
        """The connections. Raises `StoreError` while the store is closed."""
        ...


S = TypeVar("S", bound=Watched)


def forwarded(
    work: Callable[Concatenate[DB, P], Awaitable[T]],
) -> Callable[Concatenate[Connected[DB], P], Coroutine[Any, Any, T]]:
    """The method that does this work with the connections of its store."""

    @wraps(work)
    async def method(store: Connected[DB], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await work(store.db, *args, **kwargs)

    return method


def telling(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The same method, after which the store tells of the change."""

    @wraps(method)
    async def call(store: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = await method(store, *args, **kwargs)
        store.tell()
        return result

    return call
