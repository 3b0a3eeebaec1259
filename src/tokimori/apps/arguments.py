"""From the payload of a run to the arguments of a function, and back. Types are those of the function's signature."""

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import GenericAlias
from typing import Any, NamedTuple, Unpack, get_args, get_origin, get_type_hints

import msgspec

from tokimori.apps.closed import (
    Bounds,
    bounds_of,
    changed_by_json,
    check_bounds,
    check_closed,
    from_json,
    has_closed,
    unfolded,
    unknown_in,
)
from tokimori.apps.json_text import WORDS, clean, repr_of, text_of, value_of
from tokimori.apps.models import Results, adapters_of, check_same, models_of
from tokimori.apps.task import Task
from tokimori.errors import InvalidInput
from tokimori.service.definitions.arguments import Payload

_AT = re.compile(r"(.*) - at `(key in )?\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_ANY = "[...]"
"""How msgspec writes a key of a mapping, whichever it is."""
_KNOWN = "classes that its module knows by now: imported outside `if TYPE_CHECKING:`, defined above, not in a function"
MOST_SHOWN = 200
"""Characters of a value that a message shows."""


class Misfit(NamedTuple):
    """`why` names the path and the value; `value` is the latter, None if the payload as a whole does not fit."""

    why: str
    value: str | None


def misfit_of(fault: Exception, given: object) -> Misfit:
    """Return the misfit in the given JSON, from an error of msgspec, or of a model within."""
    match = _AT.fullmatch(str(fault))
    if match is None:
        return Misfit(str(fault), None)
    why, is_key, path = match.groups()
    # What was read by itself stands at a place, and says the place within it.
    while (within := _AT.fullmatch(why)) is not None:
        why, is_key, path = within[1], within[2], path + within[3]
    if (first := _first_of_model(fault)) is not None:
        why, inner = first
        path += "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in inner)
    shown = _shown(given, _STEP.findall(path.partition(_ANY)[0]))
    return Misfit(f"{why} - at `{is_key or ''}${path}`: {shown}", shown)


def _first_of_model(fault: Exception) -> tuple[str, Sequence[str | int]] | None:
    """Return pydantic's first error and its place in the model: `loc` ends with the name of a missing field."""
    errors = getattr(fault.__cause__, "errors", None)
    if errors is None:
        return None
    first = errors()[0]
    return str(first["msg"]), [*first["loc"]]


def _shown(given: Any, steps: Sequence[tuple[str, str]]) -> str:
    """Return the JSON at these steps, each a name or an index; for a missing place the JSON around it."""
    for name, index in steps:
        try:
            given = given[name or int(index)]
        except (LookupError, TypeError):
            break
    text = clean(json.dumps(given, ensure_ascii=False))
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


_KINDS = inspect.Parameter


class UnfitPayload(Exception):
    """A payload is none for the function, which its cause says: it would not be one at another try, either."""


class Arguments:
    """The arguments of one function. A first parameter annotated `tokimori.Task` gets the task in hand.

    A payload is a JSON object with a member for each other parameter. Any other JSON is the value of the only one, or
    of the only one without a default. A method without parameters takes any payload: its object has `self.task.data`.
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
        self._reads_task = bound and not parameters
        self._others = next((each.name for each in self._parameters if each.kind is _KINDS.VAR_KEYWORD), None)
        named = [each for each in self._parameters if each.kind is not _KINDS.VAR_KEYWORD]
        for each in named:
            self._check_kind(each)
        self._names = [each.name for each in named]
        needed = [each.name for each in named if each.default is _KINDS.empty]
        self._only = self._names if len(self._names) == 1 else needed if len(needed) == 1 else []
        self._kinds = {name: hints.get(name, Any) for name in self._names}
        self._adapters = adapters_of(self._kinds)
        self._kinds |= dict.fromkeys(self._adapters, Any)
        self._form = msgspec.defstruct(
            f"Arguments of {self.name}",
            [_field(each, self._kinds[each.name]) for each in named],
            kw_only=True,
            forbid_unknown_fields=self._others is None,
        )
        kind = hints.get(self._others or "", Any)
        self._kind_of_others = get_args(kind)[0] if get_origin(kind) is Unpack else GenericAlias(dict, (str, kind))
        self._results = Results(_result_type(hints.get("return", Any)))
        self._check_types()
        kinds = self._kinds if self._others is None else {**self._kinds, self._others: self._kind_of_others}
        self._bounds = {
            name: bounds for name, kind in kinds.items() if (bounds := self._bounds_of(name, kind)) is not None
        }
        self._is_closed = any(has_closed(each) for each in (*self._kinds.values(), self._kind_of_others))
        self._signature = inspect.Signature(self._parameters)

    def _check_kind(self, parameter: inspect.Parameter) -> None:
        if parameter.kind in (_KINDS.POSITIONAL_ONLY, _KINDS.VAR_POSITIONAL):
            raise InvalidInput(
                f"function: {self.name} can't be a handler, because its parameter {parameter.name!r} has no name that "
                "a payload could use",
                field="function",
                value=self.name,
                allowed="parameters that can be given by name; what a decorator of yours returns needs functools.wraps",
            )

    def _check_types(self) -> None:
        """Raise `InvalidInput` for types that no payload could ever fit: it would not be seen before a run failed."""
        for each in self._parameters:
            if each.default is _KINDS.empty and (unknown := unknown_in(self._kinds.get(each.name))) is not None:
                raise InvalidInput(
                    f"function: {self.name} can't be a handler: its parameter {each.name!r} is of the type "
                    f"{unknown}, which no JSON value fits",
                    field="function",
                    value=f"{self.name}{inspect.Signature(self._parameters)}"[:MOST_SHOWN],
                    allowed="types that JSON has, dataclasses, msgspec structs, pydantic models, or a default value",
                )
        for kind in (self._form, self._kind_of_others):
            try:
                msgspec.convert({}, kind, dec_hook=from_json)
            except msgspec.ValidationError:
                continue
            except TypeError as fault:
                raise InvalidInput(
                    f"function: {self.name} can't be a handler: {fault}",
                    field="function",
                    value=f"{self.name}{inspect.Signature(self._parameters)}"[:MOST_SHOWN],
                    allowed="types that JSON tells apart: one of Path and str, not both; models need pydantic",
                ) from None

    def _bounds_of(self, name: str, kind: Any) -> Bounds | None:
        try:
            return bounds_of(kind)
        except Exception as fault:
            message = (
                f"function: {self.name} can't be a handler: pydantic knows no bounds of its parameter {name!r}: {fault}"
            )
            allowed = "bounds that its type has, such as `Annotated[int, Field(gt=0)]`"
            raise InvalidInput(message, field="function", value=self.name, allowed=allowed) from None

    @property
    def names(self) -> Mapping[str, Any]:
        """Return the types of the arguments that have names of their own."""
        return self._kinds

    def of(self, task: Task) -> dict[str, Any]:
        """Return the arguments in the payload of a run. Raises `UnfitPayload`.

        A function without parameters ignores the result of a parent. A result that names none is the one needed.
        """
        payload = task.payload
        if not self._parameters and (payload is None or task.is_inherited):
            return {}
        try:
            return self.decode(payload, inherited=task.is_inherited)
        except InvalidInput as fault:
            raise UnfitPayload from fault

    def decode(self, payload: str | None, *, inherited: bool = False) -> dict[str, Any]:
        """Return the arguments that a payload says, by name. Raises `InvalidInput`."""
        if (payload is None and not self._names) or self._reads_task:
            return {}
        given = self._decoded(payload, inherited)
        try:
            if self._is_closed:
                check_closed(self._kinds, given)
            values = msgspec.convert(given, self._form, dec_hook=from_json, str_keys=True)
            arguments = {name: getattr(values, name) for name in self._names} | models_of(self._adapters, given)
            for name, bounds in self._bounds.items():
                if name in given and name in arguments:  # no default value is checked
                    arguments[name] = check_bounds(bounds, arguments[name], f"$.{name}")
            if self._others is not None:
                more = {name: value for name, value in given.items() if name not in arguments}
                if self._is_closed:
                    check_closed({"more": self._kind_of_others}, {"more": more}, "$")
                others = msgspec.convert(more, self._kind_of_others, dec_hook=from_json, str_keys=True)
                of_others = self._bounds.get(self._others)
                arguments |= others if of_others is None else check_bounds(of_others, others, "$")
        except (msgspec.ValidationError, ValueError, TypeError) as fault:
            why, value = misfit_of(fault, given)
            raise self._unfit(value or payload, why) from None
        return arguments

    def _decoded(self, payload: str | None, inherited: bool) -> dict[str, Any]:
        if payload is None:
            return {self._only[0]: None} if inherited and self._only and self._misses({}) else {}
        value = value_of(payload)
        if isinstance(value, dict) and not (inherited and self._only and self._misses(value)):
            return value
        if self._only:
            return {self._only[0]: value}
        raise self._unfit(payload, f"{len(self._names)} arguments need a JSON object with their names")

    def _misses(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object names another argument, or not the one that is needed."""
        needed = any(each.default is _KINDS.empty for each in self._parameters)
        is_other = self._others is None and not value.keys() <= self._kinds.keys()
        return is_other or (needed and self._only[0] not in value)

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Return a payload with these arguments; None without arguments. Raises `InvalidInput`."""
        what = f"arguments of {self.name}"
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as fault:
            allowed = f"{self.name}{self._signature}"
            raise InvalidInput(f"{what}: {fault}", field="arguments", allowed=allowed) from None
        by_name = dict(bound.arguments)
        more = {} if self._others is None else by_name.pop(self._others, {})
        if not by_name | more:
            return None
        self._check_kept(by_name, more, what, "arguments")
        payload = text_of(by_name | more, what)
        check_same(self._adapters, by_name, self.decode(payload), what)
        return payload

    def text_of(self, payload: Payload) -> str:
        """Return a payload as JSON. Raises `InvalidInput` for values that JSON would change or that do not fit."""
        if not isinstance(payload, str):
            by_name: dict[Any, Any] = dict.fromkeys(self._only or self._names[:1], payload)
            if isinstance(payload, Mapping):
                by_name = dict(payload)
            more = {name: by_name.pop(name) for name in by_name.keys() - self._kinds.keys()}
            if (key := next((each for each in more if not isinstance(each, str)), None)) is not None:
                raise self._unfit(str(key), f"JSON would change the key {key!r}")
            self._check_kept(by_name, more, "payload", "payload")
            payload = text_of(payload, "payload")
        self.decode(payload)
        return payload

    def result_of(self, result: str | None) -> Any:
        """Return the result of a run, of the type that the annotation says. Raises `InvalidInput`."""
        given = None if result is None else value_of(result)
        try:
            return self._results.read(given)
        except (msgspec.ValidationError, ValueError, TypeError) as fault:
            if result is not None and any(f'"{each}"' in result for each in WORDS):
                with suppress(msgspec.ValidationError):
                    return self._results.read(given, strict=False)
            raise InvalidInput(
                f"result: it does not fit what {self.name} is annotated to return: {fault}",
                field="result",
                value=None if result is None else result[:MOST_SHOWN],
                allowed="a value of the annotated type; `handle.run.result` is what the function returned, as JSON",
            ) from None

    def _check_kept(self, said: Mapping[str, Any], more: Mapping[str, Any], what: str, field: str) -> None:
        said = {name: value for name, value in said.items() if name not in self._adapters}
        for kinds, values in ((self._kinds, said), ({self._others: self._kind_of_others}, {self._others: more})):
            try:
                changed = changed_by_json(kinds, values)
            except RecursionError:
                message = f"{what}: a value holds itself, or lists within lists without end"
                raise InvalidInput(message, field=field, allowed="values that JSON can hold") from None
            if changed is not None:
                path, value = changed
                shown = repr_of(value)
                raise InvalidInput(
                    f"{what}: {path} is {shown}, which JSON would change",
                    field=field,
                    value=shown[:MOST_SHOWN],
                    allowed=f"a JSON value, or a type annotation of {path} that says its type",
                )

    def _unfit(self, value: str | None, why: str) -> InvalidInput:
        return InvalidInput(
            f"payload: it does not fit {self.name}{self._signature}: {why}",
            field="payload",
            value=None if value is None else value[:MOST_SHOWN],
            allowed=f"a JSON object with the arguments of {self.name}{self._signature}",
        )


def arguments_of(target: Callable[..., object]) -> Arguments:
    """Return the arguments of a function, or of the method which does the work of a class. Raises `InvalidInput`."""
    return method_of(target)[1] if inspect.isclass(target) else Arguments(target)


def method_of(target: type, name: str | None = None) -> tuple[str, Arguments]:
    """Return the name of the method which does the work of a class (`run`, else `perform`), and its arguments.

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
    """Return the function that does the work: itself, that of a partial, or the `__call__` of an object."""
    while isinstance(function, partial):
        function = function.func
    found: Any = function
    is_one = inspect.isroutine(found) or inspect.isclass(found) or hasattr(found, "__wrapped__") or not callable(found)
    called: Callable[..., Any] = found if is_one else found.__call__
    return called


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function or class. Raises `InvalidInput` if it has none, such as a lambda."""
    name: str = getattr(_called(function), "__name__", "<>")
    if "<" in name or name == "__call__":
        raise InvalidInput(f"id: {function!r} has no name", field="id", allowed='a name, as in app.job(id="…")')
    return name


def is_awaited(function: Callable[..., object]) -> bool:
    """Return whether the function, or the method that does the work, is a coroutine function."""
    return inspect.iscoroutinefunction(_called(function))


def _check_called(function: Callable[..., object], name: str, *, bound: bool) -> None:
    """Refuse callables that would not do the intended work. Raises `InvalidInput`."""
    owner = name.rpartition(".")[0]
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        why, allowed = "what a generator yields goes nowhere", "a function that returns when it is done"
    elif not bound and owner and not owner.endswith("<locals>") and _first_of(function) in ("self", "cls"):
        why, allowed = "a method has no object here", f"app.job()({owner}().method), or a class with a method run"
    else:
        return
    raise InvalidInput(f"function: {name} can't be a handler: {why}", field="function", value=name, allowed=allowed)


def _first_of(function: Callable[..., object]) -> str | None:
    """Return the name of the first parameter of a plain function."""
    return next(iter(inspect.signature(function).parameters), None) if inspect.isfunction(function) else None


def _signature(function: Callable[..., object], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as fault:
        message = f"function: {name} can't be a handler: {fault}"
        raise InvalidInput(message, field="function", value=name, allowed="a function") from None


def _hints(function: Callable[..., object], name: str) -> dict[str, Any]:
    try:
        return {each: unfolded(kind) for each, kind in get_type_hints(function, include_extras=True).items()}
    except (NameError, TypeError, AttributeError) as fault:
        message = f"function: the types of {name} can't be read: {fault}"
        raise InvalidInput(message, field="function", value=name, allowed=_KNOWN) from None


def _result_type(hint: Any) -> Any:
    """Return the type of a function's final result, awaited if need be."""
    return get_args(hint)[-1] if get_origin(hint) in (Coroutine, Awaitable) else hint


def _field(parameter: inspect.Parameter, kind: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is _KINDS.empty:
        return parameter.name, kind
    default = parameter.default
    return parameter.name, kind, msgspec.field(default_factory=lambda: default)
