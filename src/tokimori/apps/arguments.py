"""From the payload of a run to the arguments of a function, and back. Types are those of the function's signature."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_type_hints

import msgspec

from tokimori.apps.json_text import text_of, value_of
from tokimori.apps.misfits import MOST_SHOWN, misfit_of
from tokimori.apps.task import Task
from tokimori.errors import InvalidInput

_KINDS = inspect.Parameter


class Arguments:
    """The arguments of one function. A first parameter annotated `tokimori.Task` gets the task in hand.

    A payload is a JSON object with a member for each other parameter. Any other JSON is the value of the only one.
    Raises `InvalidInput` for a function that can't be called so.
    """

    def __init__(self, function: Callable[..., object], *, bound: bool = False) -> None:
        called = _called(function)
        self.name = getattr(called, "__qualname__", repr(function))
        _check_called(called, self.name, bound=bound)
        parameters = list(_signature(function, self.name).parameters.values())[1 if bound else 0 :]
        hints = _hints(called, self.name)
        self.wants_task = bool(parameters) and hints.get(parameters[0].name) is Task
        self._parameters = parameters[1:] if self.wants_task else parameters
        self._open = any(each.kind is _KINDS.VAR_KEYWORD for each in self._parameters)
        named = [each for each in self._parameters if each.kind is not _KINDS.VAR_KEYWORD]
        for each in named:
            self._check_kind(each)
        self._names = [each.name for each in named]
        self._form = msgspec.defstruct(
            f"Arguments of {self.name}",
            [_field(each, hints.get(each.name, Any)) for each in named],
            kw_only=True,
            forbid_unknown_fields=not self._open,
        )
        self._signature = inspect.Signature(self._parameters)

    def _check_kind(self, parameter: inspect.Parameter) -> None:
        if parameter.kind in (_KINDS.POSITIONAL_ONLY, _KINDS.VAR_POSITIONAL):
            raise InvalidInput(
                f"function: {self.name} can't be a handler, because its parameter {parameter.name!r} has no name that "
                "a payload could use",
                field="function",
                value=self.name,
                allowed="parameters that can be given by name",
            )

    def decode(self, payload: str | None) -> dict[str, Any]:
        """The arguments that a payload says, by name. Raises `InvalidInput`."""
        if payload is None and not self._names:
            return {}
        given = self._given(payload)
        try:
            values = msgspec.convert(given, self._form, dec_hook=_from_json)
        except (msgspec.ValidationError, ValueError, TypeError) as fault:
            why, value = misfit_of(fault, given)
            raise self._unfit(value or payload, why) from None
        arguments = {name: getattr(values, name) for name in self._names}
        if self._open:
            arguments |= {name: value for name, value in given.items() if name not in arguments}
        return arguments

    def _given(self, payload: str | None) -> dict[str, Any]:
        if payload is None:
            return {}
        value = value_of(payload)
        if isinstance(value, dict):
            return value
        if len(self._names) == 1:
            return {self._names[0]: value}
        raise self._unfit(payload, f"{len(self._names)} arguments need a JSON object with their names")

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """The payload that says these arguments; None where there are none. Raises `InvalidInput`."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as fault:
            raise InvalidInput(
                f"arguments of {self.name}: {fault}", field="arguments", allowed=f"{self.name}{self._signature}"
            ) from None
        said = dict(bound.arguments)
        for parameter in self._parameters:
            if parameter.kind is _KINDS.VAR_KEYWORD:
                said |= said.pop(parameter.name, {})
        if not said:
            return None
        payload = text_of(said, f"arguments of {self.name}")
        self.decode(payload)
        return payload

    def _unfit(self, value: str | None, why: str) -> InvalidInput:
        return InvalidInput(
            f"payload: it does not fit {self.name}{self._signature}: {why}",
            field="payload",
            value=None if value is None else value[:MOST_SHOWN],
            allowed=f"a JSON object with the arguments of {self.name}{self._signature}",
        )


def arguments_of(target: Callable[..., object]) -> Arguments:
    """The arguments of a function, or of the method which does the work of a class. Raises `InvalidInput`."""
    return method_of(target)[1] if inspect.isclass(target) else Arguments(target)


def method_of(target: type, name: str | None = None) -> tuple[str, Arguments]:
    """The name of the method which does the work of a class (`run`, else `perform`), and its arguments.

    Raises `InvalidInput`.
    """
    name = name or ("run" if callable(getattr(target, "run", None)) else "perform")
    method = getattr(target, name, None)
    if not callable(method):
        raise InvalidInput(
            f"handler: the class {target.__qualname__} has neither run nor perform",
            field="handler",
            value=target.__qualname__,
            allowed="a class with a method run or perform",
        )
    return name, Arguments(method, bound=inspect.isfunction(inspect.getattr_static(target, name)))


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that does the work: itself, that of a partial, or the `__call__` of an object."""
    while isinstance(function, partial):
        function = function.func
    found: Any = function
    is_one = inspect.isroutine(found) or inspect.isclass(found) or hasattr(found, "__wrapped__") or not callable(found)
    called: Callable[..., Any] = found if is_one else found.__call__
    return called


def name_of(function: Callable[..., object]) -> str:
    """The name of a function or class. Raises `InvalidInput` for what has none, such as a lambda."""
    name: str = getattr(_called(function), "__name__", "<>")
    if "<" in name or name == "__call__":
        raise InvalidInput(f"id: {function!r} has no name", field="id", allowed='a name, as in app.job(id="…")')
    return name


def is_awaited(function: Callable[..., object]) -> bool:
    """Tell if what does the work is a coroutine function."""
    return inspect.iscoroutinefunction(_called(function))


def _check_called(function: Callable[..., object], name: str, *, bound: bool) -> None:
    """Refuse what can be called, but would not do what is meant. Raises `InvalidInput`."""
    owner = name.rpartition(".")[0]
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        why, allowed = "what a generator yields goes nowhere", "a function that returns when it is done"
    elif not bound and owner and not owner.endswith("<locals>") and _first_of(function) in ("self", "cls"):
        why, allowed = "a method has no object here", f"app.job()({owner}().method), or a class with a method run"
    else:
        return
    raise InvalidInput(f"function: {name} can't be a handler: {why}", field="function", value=name, allowed=allowed)


def _first_of(function: Callable[..., object]) -> str | None:
    """The name of the first parameter of a plain function."""
    return next(iter(inspect.signature(function).parameters), None) if inspect.isfunction(function) else None


def _signature(function: Callable[..., object], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as fault:
        raise InvalidInput(
            f"function: {name} can't be a handler: {fault}", field="function", value=name, allowed="a function"
        ) from None


def _hints(function: Callable[..., object], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as fault:
        raise InvalidInput(
            f"function: the types of {name} can't be read: {fault}", field="function", value=name, allowed="known types"
        ) from None


def _field(parameter: inspect.Parameter, kind: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is _KINDS.empty:
        return parameter.name, kind
    default = parameter.default
    return parameter.name, kind, msgspec.field(default_factory=lambda: default)


def _from_json(kind: Any, value: Any) -> Any:
    """A value of a type that msgspec does not know: pydantic's models read themselves."""
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError(f"values of {kind!r} can't be read from JSON")
    return validate(value)
