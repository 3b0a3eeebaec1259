"""Routes from names of handlers to functions or classes of an app, declared or stored."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal

from tokimori.apps.arguments import Arguments, is_awaited, method_of
from tokimori.apps.failures import FailureRule
from tokimori.apps.function import Requestable
from tokimori.apps.hooks import Act, Hooks
from tokimori.apps.parents import Reads
from tokimori.apps.task import Task
from tokimori.errors import InvalidInput, Refused
from tokimori.executors.functions.wire import Declared, Hello, language
from tokimori.model.target import (
    Handler,
    check_handler_name,
    handles,
    how_to_allow,
    pattern_of_stored,
    text_of_pattern,
)
from tokimori.model.words import check_word

Vanished = Literal["report", "pause", "delete"]
"""What becomes of jobs that an app has declared once, and does not any more."""


class Route:
    """A handler of one name, or of all names that a pattern matches.

    `target` is a function, a class, or a text `package.module:Name` to import when it is first needed.
    """

    def __init__(self, handler: Handler, target: Callable[..., object] | str) -> None:
        self.handler = checked(handler)
        self._target = target
        self._act = None if isinstance(target, str) else act_of(target)

    @property
    def act(self) -> Act:
        """Return the code of the route. Raises `InvalidInput` if it can't be imported."""
        if self._act is None:
            self._act = act_of(imported(self._target) if isinstance(self._target, str) else self._target)
        return self._act


def checked(handler: object) -> Handler:
    """Return a name, or a pattern of names. Raises `InvalidInput`."""
    if isinstance(handler, str):
        return check_handler_name(handler, field="handler")
    if isinstance(handler, re.Pattern) and isinstance(handler.pattern, str):
        return handler
    raise InvalidInput(
        f"handler: {handler!r} is neither a name nor a pattern of names",
        field="handler",
        value=repr(handler),
        allowed='a text, re.compile("…"), or a function',
    )


class Routes:
    """The routes of an app, in the order in which they were declared: the first that fits is taken."""

    def __init__(self) -> None:
        self._routes: list[Route] = []
        self._first = lru_cache(maxsize=1024)(self._first_for)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def add(self, handler: Handler, target: Callable[..., object] | str) -> None:
        """Add a route. Raises `InvalidInput`, also if the name has a route already."""
        route = Route(handler, target)
        if isinstance(handler, str) and any(each.handler == handler for each in self._routes):
            raise InvalidInput(
                f"handler: {handler!r} has a handler already", field="handler", value=handler, allowed="another name"
            )
        self._routes.append(route)
        self._first.cache_clear()

    def names(self) -> list[str]:
        """Return the names."""
        return [route.handler for route in self._routes if isinstance(route.handler, str)]

    def patterns(self) -> list[str]:
        """Return the regular expressions."""
        return [text_of_pattern(each.handler) for each in self._routes if isinstance(each.handler, re.Pattern)]

    def has(self, name: str) -> bool:
        """Return whether one of them is for this name."""
        return self._first(name) is not None

    def find(self, name: str) -> Act:
        """Return the code for runs of this name. Raises `InvalidInput` if there is none."""
        route = self._first(name)
        if route is not None:
            return route.act
        raise InvalidInput(
            f"function: {name!r} has no handler in this app",
            field="function",
            value=name,
            allowed=f"one of {', '.join([*self.names(), *(f'/{each}/' for each in self.patterns())])}",
        )

    def _first_for(self, name: str) -> Route | None:
        return next((route for route in self._routes if handles([route.handler], name)), None)


def act_of(target: Callable[..., object]) -> Act:
    """Return a function that calls the target for a task. The signature types its arguments. Raises `InvalidInput`."""
    if inspect.isclass(target):
        return _act_of_class(target)
    arguments = Arguments(target)

    def act(task: Task) -> Any:
        given = arguments.of(task)
        if arguments.wants_task:
            return target(task, **given)
        return target(**given) if given else target()

    return _like(act, target)


def act_of_method(target: type, name: str) -> Act:
    """Return the code of a class's method. The object gets the task as its `task`. Raises `InvalidInput`."""
    _, arguments = method_of(target, name)

    def act(task: Task) -> Any:
        made: Any = target()
        made.task = task
        return getattr(made, name)(**arguments.of(task))

    return _like(act, getattr(target, name))


def _act_of_class(target: type) -> Act:
    """Return the code of a class with `run`, or `perform` and maybe `before_perform` (False: skip), `after_perform`."""
    name, arguments = method_of(target)

    def act(task: Task) -> Any:
        made: Any = target()
        made.task = task
        given = arguments.of(task)
        return made.run(**given) if name == "run" else _performed(made, given)

    async def act_async(task: Task) -> Any:
        made: Any = target()
        made.task = task
        given = arguments.of(task)
        return await (made.run(**given) if name == "run" else _performed_async(made, given))

    return act_async if is_awaited(getattr(target, name)) else act


def _performed(made: Any, given: dict[str, Any]) -> Any:
    try:
        return made.perform(**given) if _begins(made) else None
    finally:
        _after(made)


async def _performed_async(made: Any, given: dict[str, Any]) -> Any:
    try:
        return await made.perform(**given) if _begins(made) else None
    finally:
        _after(made)


def _begins(made: Any) -> bool:
    before = getattr(made, "before_perform", None)
    return before is None or before() is not False


def _after(made: Any) -> None:
    after = getattr(made, "after_perform", None)
    if after is not None:
        after()


def _like(act: Act, target: Callable[..., object]) -> Act:
    """Return the same code, as a coroutine function if the target is one: these share the loop, others get a thread."""
    if not is_awaited(target):
        return act

    async def act_async(task: Task) -> Any:
        return await act(task)

    return act_async


def imported(path: str) -> Callable[..., object]:
    """Import and return the object `package.module:Name`. Raises `InvalidInput`."""
    module, _, name = path.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as fault:
        raise InvalidInput(
            f"handler: {path!r} can't be imported: {fault}", field="handler", value=path, allowed="package.module:Name"
        ) from None
    if not callable(found):
        raise InvalidInput(
            f"handler: {path!r} can't be called", field="handler", value=path, allowed="a function or a class"
        )
    result: Callable[..., object] = found
    return result


class StoredFunctions:
    """Stored functions that these patterns allow, such as `reports.tasks:*`. No app has declared them.

    A job names one by itself, `package.module:Class.method`, and it is imported when a run first needs it. Whoever may
    change jobs could so have a node run whatever it can import. A node therefore imports only what its setting
    `app.stored` allows, and of an allowed module only what that defines itself: not what it imports from others.
    """

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self.patterns = [pattern_of_stored(text) for text in allowed]
        self._acts: dict[str, Act] = {}

    def find(self, name: str) -> Act:
        """Return the code. Raises `Refused` if it is not allowed, and `InvalidInput` if it can't be run."""
        if not any(re.fullmatch(pattern, name) for pattern in self.patterns):
            raise Refused(f"function: {name!r} is not imported: {how_to_allow(name)}", field="function", value=name)
        if name not in self._acts:
            self._acts[name] = _act_of_stored(name)
        return self._acts[name]


def _act_of_stored(name: str) -> Act:
    module, _, path = name.partition(":")
    owner, _, method = path.partition(".")
    target = _defined_in(module, owner, name)
    if not method:
        return act_of(target)
    if not inspect.isclass(target):
        raise _unfit(name, f"{owner} is no class")
    static = inspect.getattr_static(target, method, None)
    if method.startswith("_") or not (inspect.isfunction(static) or isinstance(static, staticmethod | classmethod)):
        raise _unfit(name, f"{owner} has no method {method!r}")
    return act_of_method(target, method) if inspect.isfunction(static) else act_of(getattr(target, method))


def _defined_in(module: str, owner: str, name: str) -> Callable[..., Any]:
    """Return the function or class of this module. Raises `InvalidInput`."""
    try:
        found: Any = getattr(import_module(module), owner)
    except (ImportError, AttributeError, ValueError) as fault:
        raise _unfit(name, str(fault)) from None
    is_one = inspect.isclass(found) or inspect.isfunction(found) or isinstance(found, Requestable)
    if owner.startswith("_") or not is_one or found.__module__ != module:
        raise _unfit(name, f"{module} does not define a function or class {owner!r}")
    result: Callable[..., Any] = found
    return result


def _unfit(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"function: {name!r} can't be run: {why}",
        field="function",
        value=name,
        allowed="MODULE:FUNCTION, MODULE:CLASS or MODULE:CLASS.METHOD, defined in that module",
    )


class AppFunctions:
    """Functions of an app, by the names under which runs request them: all that its worker processes need to know."""

    def __init__(self, name: str, vanished: Vanished = "report", version: str = "") -> None:
        check_word("app", name)
        self.name = name
        self.routes = Routes()
        self.hooks = Hooks()
        self.rules: dict[str, FailureRule] = {}
        """By the names of handlers; those of declared jobs alone."""
        self._stored = StoredFunctions()
        self._vanished, self._version = vanished, version
        self._jobs: dict[str, Declared] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def _reads(self) -> Reads | None:
        """Return the way by which functions read of the parents of their runs; None: they can't."""
        return None

    def _take_places(self, number: int) -> None:
        """Set the number of functions that this process runs at a time."""

    def _allow_stored(self, patterns: Sequence[str]) -> None:
        """Let jobs name undeclared functions, if one of these patterns fits (`app.stored`).

        Raises `InvalidInput`.
        """
        self._stored = StoredFunctions(patterns)

    def _act_of(self, name: str) -> Act:
        """Return the code for jobs whose `function` is this name: a handler, or else a stored function.

        Raises `InvalidInput`, and `Refused` for a stored function that is not allowed.
        """
        routes = self.routes if self.routes.has(name) or not how_to_allow(name) else self._stored
        return self.hooks.around(routes.find(name))

    def _hello(self, number: int, pid: int) -> Hello:
        """Return the hello of a worker process about the app."""
        return Hello(
            number=number,
            pid=pid,
            app=self.name,
            handlers=self.routes.names(),
            patterns=[*self.routes.patterns(), *self._stored.patterns],
            jobs=list(self._jobs.values()),
            vanished=self._vanished,
            version=self._version,
            stops=bool(self.hooks.stops),
            language=language(),
        )
