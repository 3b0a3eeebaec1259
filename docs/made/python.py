"""The names of `tokimori` and of its clients, from the code."""

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, is_typeddict

from msgspec import Struct
from msgspec.structs import fields

import tokimori
from docs.made.markdown import REFERENCE, code, table, text
from tokimori import testing
from tokimori.apps import names
from tokimori.client.facade import signature_of
from tokimori.errors import TokimoriError
from tokimori.service.definitions import arguments
from tokimori.service.operation import Member, Operation, members_in
from tokimori.service.service import PARTS

PAGE = REFERENCE / "python.md"
LONG_PATH = re.compile(r"\b(?:tokimori|collections|datetime|typing|pathlib|msgspec|contextlib|enum|types)\.(?:\w+\.)*")
APPS = ("App", "JobFunction", "Handle", "Task", "Worker")
CLIENTS = ("Client", "AsyncClient", "Held")


def page() -> str:
    """Return the page."""
    return text(_lines())


def _lines() -> Iterator[str]:
    yield from (
        "# Python",
        "",
        "Written by `make docs` from the code. All names are in `tokimori`, but for those of [tests](#for-tests).",
        "`help(tokimori.App)` says the same.",
    )
    found = {name: getattr(tokimori, name) for name in names.__all__}
    yield from ("", "## Functions")
    for name, each in found.items():
        if inspect.isfunction(each):
            yield from ("", f"### {name}", "", *_function(name, each))
    yield from ("", "## Apps")
    for name in APPS:
        yield from _class(name, found[name])
    yield from ("", "## Clients", "")
    yield from (
        "`tokimori.open()` returns a `Client`, `tokimori.open_async()` an `AsyncClient`, whose operations are awaited.",
        "Both have the same parts: `client.jobs`, `client.runs` and so on.",
    )
    for name in CLIENTS:
        yield from _class(name, found[name])
    for part in PARTS:
        yield from ("", f"### client.{part.noun}", "")
        yield from (f"{_prose(part)}", "")
        rows = [_member(part.noun, name, each) for name, each in members_in(part).items()]
        yield from table(("operation", "role", "what it does"), rows)
    yield from ("", "## Values", "", "What operations take and return. Values are frozen.")
    told = {*APPS, *CLIENTS}
    for name, each in found.items():
        if name not in told and not inspect.isfunction(each) and not _is_error(each):
            yield from ("", f"### {name}", "", *_value(each))
    yield from ("", "## Tables within arguments", "", "They are written as plain dictionaries.")
    for name, each in vars(arguments).items():
        if is_typeddict(each) and name not in found and not name.startswith("_"):
            yield from ("", f"### {name}", "", *_value(each))
    yield from ("", "## Errors", "", "[Errors](errors.md) says what to do about each.", "")
    yield from table(
        ("error", "raised if"), [(code(name), _prose(each)) for name, each in found.items() if _is_error(each)]
    )
    yield from ("", "## For tests", "", "These names are in `tokimori.testing`.", "", "### fixture", "")
    yield from _function("fixture", testing.fixture)
    yield from _class("Rehearsal", testing.Rehearsal)


def _is_error(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, TokimoriError)


def _function(name: str, function: Any) -> Iterator[str]:
    """Yield the signature and the docstring of a function."""
    yield from ("```text", f"{name}{_signature(function)}", "```", "", _prose(function))


def _class(name: str, kind: type) -> Iterator[str]:
    """Yield a class, and a table of its public methods."""
    yield from ("", f"### {name}", "", _prose(kind), "")
    methods = {each: inspect.getattr_static(kind, each) for each in dir(kind) if not each.startswith("_")}
    rows = [
        (code(f"{method}{_call(each)}"), _prose(_bare(each)))
        for method, each in methods.items()
        if not isinstance(each, Member) and callable(_bare(each))
    ]
    if rows:
        yield from table(("method", "what it does"), rows)


def _call(each: Any) -> str:
    """Return the signature of a method; a property has a type alone."""
    signature = _signature(_bare(each))
    return signature.replace("() ->", ":", 1) if isinstance(each, property) else signature


def _bare(each: Any) -> Any:
    """Return the function behind a property or a class method."""
    if isinstance(each, property):
        return each.fget
    return getattr(each, "__func__", each)


def _member(noun: str, name: str, member: Member[Any, Any, Any]) -> tuple[str, str, str]:
    """Return the row of an operation."""
    role = str(member.role) if isinstance(member, Operation) else ""
    return code(f"{noun}.{name}{_signature(member.method, signature_of(member))}"), role, _prose(member.method)


def _value(kind: Any) -> Iterator[str]:
    """Yield the docstring of a value, and its fields or members."""
    yield from (_prose(kind), "")
    if inspect.isclass(kind) and issubclass(kind, Enum):
        yield ", ".join(code(each.value) for each in kind)
    elif inspect.isclass(kind) and issubclass(kind, Struct):
        yield from ("```text", *(_line(f"{each.name}: {_type(each.type)}") for each in fields(kind)), "```")
    elif is_typeddict(kind):
        yield from (
            "```text",
            *(_line(f"{each}: {_type(type_)}") for each, type_ in kind.__annotations__.items()),
            "```",
        )


def _line(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"


def _type(kind: Any) -> str:
    shown = kind.__name__ if inspect.isclass(kind) and not hasattr(kind, "__args__") else str(kind)
    return LONG_PATH.sub("", re.sub(r"ForwardRef\('(.*?)'.*?\)", r"\1", shown)).strip("'")


def _signature(function: Any, signature: inspect.Signature | None = None) -> str:
    """Return a signature with short names of types."""
    try:
        shown = str(signature or inspect.signature(function))
    except (TypeError, ValueError):
        return "()"
    shown = re.sub(r"<class '([\w.]+)'>", r"\1", LONG_PATH.sub("", shown))
    shown = re.sub(r"<(?:object|function) .*?>", "…", LONG_PATH.sub("", shown))
    shown = re.sub(r"(?<!= )'([^']*)'", r"\1", shown)  # a name that was written as a text; a default keeps its marks
    shown = re.sub(r"(\*\*\w+: )(?:\*|Unpack\[(\w+)\])", r"\1\2", shown.replace("~_", ""))  # Python 3.12 names it
    return re.sub(r"\((?:self|cls)(?:, /)?(?:, )?", "(", shown, count=1)


def _prose(what: Any) -> str:
    """Return the first paragraph of a docstring."""
    return " ".join((inspect.getdoc(what) or "").partition("\n\n")[0].split())
