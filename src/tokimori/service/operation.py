"""Operations: methods of parts of the service, declared once. Rights, audit, events, HTTP and the clients derive them.

A part of the service is `Part[Inside]`, `Part[Async]` or `Part[Sync]`: the mode says how its operations are called, and
what they return. Any way to a part (with rights, with an audit log, over HTTP, from another thread) is the same class,
made by `through`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from enum import Enum, auto
from functools import update_wrapper
from types import MethodType
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from tokimori.model.access_token import Role
from tokimori.service.access import Reach, Sight


class Inside:
    """Mode of parts within a node: operations are awaited, and return values whose moments are integers."""


class Async:
    """Mode of parts of programs: operations are awaited, and return values whose moments are datetimes."""


class Sync:
    """Mode of parts of programs whose operations return when they are done."""


M = TypeVar("M")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S")


class Audit(Enum):
    """Ways to record an operation in the audit log."""

    STATE = auto()
    """With the thing before and after; nothing if that did not change."""
    OUTCOME = auto()
    """With its result; nothing if that is None."""
    REQUEST = auto()
    """As `OUTCOME`, at doors alone: runs that a program requests say themselves who has done so."""
    ITSELF = auto()
    """The method writes the entry, before it waits for others."""


STATE, OUTCOME, REQUEST, ITSELF = Audit
MADE: Final = "made"
"""The event of an operation that adds what there is not, and changes what there is."""


class Via(Protocol):
    """A way to a part. `whole`: composed methods and streams go this way too; else they run where they are called."""

    whole: bool

    def __call__(self, member: "Member[Any, Any, Any]", name: str, /) -> Callable[..., Any]:
        """Return the function that carries out this member, called `part.member`."""
        ...


class Part(Generic[M]):
    """A part of the service: operations on things of one noun, each called `word`. M is invariant on purpose."""

    noun: ClassVar[str]
    word: ClassVar[str]
    _via: Via | None = None

    def __copy__(self) -> NoReturn:
        raise TypeError("a part is not copied: it keeps what was bound for it")

    async def _state(self, name: Any) -> object:
        """Return the state of a thing, for people who read the audit log: a part that records states has its own."""
        raise NotImplementedError(f"{self.noun} records no state of {name}")


_Part = TypeVar("_Part", bound=Part[Any])


def through(kind: type[_Part], via: Via) -> _Part:
    """Return a part of this kind whose operations go this way. It holds nothing else."""
    part = kind.__new__(kind)
    part._via = via
    return part


class Member(Generic[P, R, T]):
    """A method of a part. Its first lookup binds it, in the part's `__dict__`, which precedes this descriptor.

    `gives` makes of its result what programs get (None: the same).
    """

    name: str

    def __init__(self, method: Callable[..., Any], gives: Callable[[Any], T] | None) -> None:
        self.method, self.gives = method, gives
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def _bound(self, part: Part[Any]) -> Any:
        via = part._via
        if via is None or not (via.whole or isinstance(self, Operation)):
            bound: Any = MethodType(self.method, part)
        else:
            bound = via(self, f"{part.noun}.{self.name}")
        part.__dict__[self.name] = bound
        return bound


class _Awaited(Member[P, R, T]):
    """A method that is awaited, but in parts that are `Sync`."""

    @overload
    def __get__(self, part: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, part: Part[Sync], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, part: Part[Async], owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, part: Part[Any], owner: Any) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, part: Part[Any] | None, owner: Any) -> Any:
        """Return the method of this part."""
        return self if part is None else self._bound(part)


class Operation(_Awaited[P, R, T]):
    """A method that needs a role, within a scope. `twin` is the form for callers with a limited scope."""

    role: Role
    reach: Reach
    audit: Audit | None = None
    event: str | None = None
    of: str | None = None
    doing: str | None = None
    door: bool = True
    by_role: bool = False
    reads_if: str | None = None
    twin: Callable[..., Coroutine[Any, Any, Any]] | None = None

    def within(
        self, twin: Callable[Concatenate[S, Sight, P], Coroutine[Any, Any, R]]
    ) -> Callable[Concatenate[S, Sight, P], Coroutine[Any, Any, R]]:
        """Declare the form of the operation for callers with a limited scope.

        A recorded operation passes it the recording part, which has operations and no store.
        """
        self.twin = twin
        return twin


class Composed(_Awaited[P, R, T]):
    """A method that is made of operations, and runs where it is called."""


class Stream(Member[P, R, T]):
    """A method that yields without end. It is made of operations, and runs where it is called."""

    @overload
    def __get__(self, part: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, part: Part[Sync], owner: Any) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, part: Part[Async], owner: Any) -> Callable[P, AsyncGenerator[T, None]]: ...
    @overload
    def __get__(self, part: Part[Any], owner: Any) -> Callable[P, AsyncGenerator[R, None]]: ...
    def __get__(self, part: Part[Any] | None, owner: Any) -> Any:
        """Return the stream of this part."""
        return self if part is None else self._bound(part)


_Coroutine = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


class _Terms(TypedDict, total=False):
    audit: Audit | None
    event: str | None
    of: str | None
    doing: str | None
    door: bool
    by_role: bool
    reads_if: str | None


@overload
def operation(
    role: Role, reach: Reach, *, gives: Callable[[Any], T], **terms: Unpack[_Terms]
) -> Callable[[_Coroutine[S, P, R]], Operation[P, R, T]]: ...
@overload
def operation(
    role: Role, reach: Reach, **terms: Unpack[_Terms]
) -> Callable[[_Coroutine[S, P, R]], Operation[P, R, R]]: ...
def operation(role: Role, reach: Reach, *, gives: Callable[[Any], Any] | None = None, **terms: Unpack[_Terms]) -> Any:
    """Declare an operation by its role and the scope of its first argument.

    `gives` converts its result for programs: with datetimes. `event`: the change that events report; `of`: the word for
    the thing, if it is not the part's. `doing` names the action in a refusal. `door`: a node offers it. `by_role`: its
    twin holds in any scope. `reads_if` names an argument with which it only reads.
    """

    def declared(method: Callable[..., Any]) -> Operation[Any, Any, Any]:
        made: Operation[Any, Any, Any] = Operation(method, gives)
        vars(made).update(terms, role=role, reach=reach)
        return made

    return declared


@overload
def composed() -> Callable[[_Coroutine[S, P, R]], Composed[P, R, R]]: ...
@overload
def composed(gives: Callable[[Any], T]) -> Callable[[_Coroutine[S, P, R]], Composed[P, R, T]]: ...
def composed(gives: Callable[[Any], Any] | None = None) -> Any:
    """Declare a method that is made of operations; `gives` as of an operation."""
    return lambda method: Composed(method, gives)


_Steps = Callable[Concatenate[S, P], AsyncIterator[R]]


@overload
def stream() -> Callable[[_Steps[S, P, R]], Stream[P, R, R]]: ...
@overload
def stream(gives: Callable[[Any], T]) -> Callable[[_Steps[S, P, R]], Stream[P, R, T]]: ...
def stream(gives: Callable[[Any], Any] | None = None) -> Any:
    """Declare a stream that is made of operations; `gives` makes of each step what programs get."""
    return lambda method: Stream(method, gives)


def members_in(kind: type[Part[Any]]) -> Mapping[str, Member[Any, Any, Any]]:
    """Return the members of a part by name."""
    found = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: each for name, each in found.items() if isinstance(each, Member)}


def operations_in(kind: type[Part[Any]]) -> Mapping[str, Operation[Any, Any, Any]]:
    """Return the operations of a part by name."""
    return {name: each for name, each in members_in(kind).items() if isinstance(each, Operation)}
