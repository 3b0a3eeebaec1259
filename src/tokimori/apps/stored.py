"""Stored functions: what a job names by itself, `package.module:Class.method`, and no app has declared.

Whoever may change jobs could so have a node run whatever it can import. A node therefore imports only what its setting
`app.stored` allows, and of an allowed module only what that defines itself: not what it imports from others.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from tokimori.apps.function import JobFunction
from tokimori.apps.routes import Act, act_of, act_of_method
from tokimori.errors import InvalidInput, Refused
from tokimori.model.handlers import how_to_allow, pattern_of_stored


class StoredFunctions:
    """Stored functions that these patterns allow, such as `reports.tasks:*`. Each is imported when a run first needs
    it.
    """

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self.patterns = [pattern_of_stored(text) for text in allowed]
        self._acts: dict[str, Act] = {}

    def find(self, name: str) -> Act:
        """Return the code. Raises `Refused` for what is not allowed, `InvalidInput` for what can't be run."""
        if not any(re.fullmatch(pattern, name) for pattern in self.patterns):
            raise Refused(f"function: {name!r} is not imported: {how_to_allow(name)}", field="function", value=name)
        if name not in self._acts:
            self._acts[name] = _act_of(name)
        return self._acts[name]


def _act_of(name: str) -> Act:
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
    is_one = inspect.isclass(found) or inspect.isfunction(found) or isinstance(found, JobFunction)
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
