"""Identity and scope of a caller."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from tokimori.errors import Forbidden, NotFound
from tokimori.model.access_token import Role
from tokimori.service.service import Service
from tokimori.service.sight import Access, Sight, out_of_scope

_DOING: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("ask", "trigger"), "Running a job"),
        "trigger_many": "Running jobs",
        "retry_run": "Running a run again",
        "resume_run": "Resuming a run",
        "cancel": "Cancelling a run",
        "hold": "Holding a run",
        **dict.fromkeys(("add_since", "import_all"), "Adding jobs"),
        "edit": "Changing a job",
        "update": "Changing a job",
        "copy_job": "Copying a job",
        "rename_job": "Renaming a job",
        "backfill": "Backfilling a job",
        "cancel_backfill": "Cancelling a backfill",
        **dict.fromkeys(("delete_all", "delete_some"), "Deleting all jobs"),
        "apply": "Applying a set",
        **dict.fromkeys(("check_schema", "migrate", "schema_script"), "Migrating the store"),
        "doctor": "Checking the store",
    }
)
"""Methods in words, where `_doing` makes no good ones of their names."""


def needs_role(role: Role, what: str, access: Access, word: str = "job", doing: str | None = None) -> Forbidden:
    """Return the refusal of what the role of a token does not include."""
    reading = "Reading" if role is Role.READ else None
    doing = reading or doing or _DOING.get(what) or _doing(what.rpartition(".")[2], word)
    return Forbidden(
        f"Your token may only {access.role}. {doing} needs the role {role}.",
        field="role",
        value=access.role,
        allowed=f"a token of the role {role}, or of one that includes it: `tokimori token create NAME --role {role}`",
    )


def _doing(verb: str, word: str) -> str:
    """Return a method in words, as the subject of a sentence: `drain` is draining a node."""
    stem = verb.removesuffix("e") + verb[-1:] * (verb in ("cancel", "set", "stop"))
    return f"{stem.capitalize()}ing {'an' if word[0] in 'aeiou' else 'a'} {word}"


class AskedOperation(NamedTuple):
    """A call of a method of a `part` of the service, for which leave is asked."""

    sight: Sight
    service: Service
    method: Callable[..., Awaitable[Any]]
    name: str
    args: tuple[object, ...]
    kwargs: dict[str, object]
    role: Role = Role.READ
    part: object = None

    async def go(self) -> Any:
        """Call the method."""
        return await self.method(*self.args, **self.kwargs)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments by name, or their defaults. Raises `TypeError` for a wrong call."""
        bound = _signature(self.method).bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        return bound.arguments

    def argument(self, name: str) -> Any:
        """Return the argument of that name, or its default. Raises `TypeError` for a wrong call."""
        return self.arguments[name]

    @property
    def subject(self) -> str:
        """Return the name of the first argument."""
        return next(iter(_signature(self.method).parameters))

    @property
    def first(self) -> Any:
        """Return the first argument: what the call is about."""
        return self.argument(self.subject)


Rule = Callable[[AskedOperation], Awaitable[Any]]
Sees = Callable[[Sight, Any], Awaitable[bool]]


async def whole(asked: AskedOperation) -> Any:
    """Refuse a change of what is everybody's."""
    raise out_of_scope(asked.name)


def reads(sees: Sees, missing: Callable[[object], NotFound]) -> Rule:
    """Return the rule of what is read of its first argument: what is not within the scope is not there."""

    async def rule(asked: AskedOperation) -> Any:
        if not await sees(asked.sight, asked.first):
            raise missing(asked.first)
        return await asked.go()

    return rule


def changes(sees: Sees, field: str) -> Rule:
    """Return the rule of what is done to its first argument, which has to be within the scope."""

    async def rule(asked: AskedOperation) -> Any:
        if not await sees(asked.sight, asked.first):
            raise out_of_scope(f"{field}: {asked.first!r}", asked.first)
        return await asked.go()

    return rule


def _signature(method: Callable[..., object]) -> inspect.Signature:
    return _signature_of(getattr(method, "__func__", method)) if inspect.ismethod(method) else inspect.signature(method)


@lru_cache(maxsize=256)
def _signature_of(function: Callable[..., object]) -> inspect.Signature:
    whole = inspect.signature(function)
    return whole.replace(parameters=list(whole.parameters.values())[1:])
