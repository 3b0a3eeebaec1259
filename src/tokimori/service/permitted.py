"""The service as somebody at a door may use it: the one place where roles and scopes hold, whatever the door is.

Each method has a rule (`access_rules`). A method without one is for admins.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MethodType
from typing import Any, cast

from tokimori.model.access_token import Role
from tokimori.service.access import AskedOperation, needs_role, whole
from tokimori.service.access_rules import RULES
from tokimori.service.allowed import NOTHING_SAID, Allowed
from tokimori.service.audited import audited
from tokimori.service.claims import Claims, with_access_token
from tokimori.service.judging import judge_of, sight_of
from tokimori.service.operation import Async, Member, Operation, Part, through
from tokimori.service.service import PARTS, Service
from tokimori.service.sight import Access, Sight
from tokimori.service.variants import in_zone, judged_by


def permitted(service: Service, access: Access, allowed: Allowed = NOTHING_SAID) -> Service:
    """Return the service for who has this access: orders are his, and what he may not do raises `Forbidden`.

    `allowed`: what jobs may do that he makes or changes.
    """
    judged = judged_by(service.acting_as(access.author), judge_of(service, access, allowed))
    return cast(Service, _PermittedService(judged, access))


def permitted_claims(claims: Claims[Async], service: Service, access: Access) -> Claims[Async]:
    """Return the claims for who has this access."""
    named = claims if access.is_owner or access.author is None else with_access_token(claims, access.author)
    return through(Claims, PermittedVia(named, named, sight_of(service, access), access))


def permitted_in_zone(service: Service, time_zone: str) -> Service:
    """Return the same service of `permitted`, where jobs that name no time zone are in this one. Raises
    `InvalidInput`.
    """
    return cast(_PermittedService, service)._in_zone(time_zone)


class PermittedVia:
    """The way to a part for who has this access. `recorded` is the same part as `plain`, with the audit log."""

    whole = False

    def __init__(self, recorded: Part[Async], plain: Part[Async], sight: Sight, access: Access) -> None:
        self._recorded = recorded
        self._plain = plain
        self._sight = sight
        self._access = access

    def __call__(self, member: Member[Any, Any], name: str) -> Callable[..., Any]:
        """Return the method with its rule."""
        assert isinstance(member, Operation)  # noqa: S101 all others run where they are called
        access, sight = self._access, self._sight
        if not access.role.includes(member.role):
            return _refused(member, name, access, self._plain.word)
        part = self._plain if member.audit is None else self._recorded
        call = getattr(part, member.name)
        if access.scope.is_everything and not member.by_role:
            return cast(Callable[..., Any], call)
        doing = call if member.twin is None else MethodType(MethodType(member.twin, part), sight)
        reads = member.role is Role.READ

        async def checked(*args: object, **kwargs: object) -> Any:
            given = _given(member.method, args, kwargs)
            await member.reach.check(sight, self._plain, given, reads=reads, name=name)
            return await doing(*args, **kwargs)

        return checked


def _refused(member: Operation[Any, Any], name: str, access: Access, word: str) -> Callable[..., Any]:
    async def refuse(*_: object, **__: object) -> Any:
        raise needs_role(member.role, name, access, member.of or word, member.doing)

    return refuse


def _given(method: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]) -> Mapping[str, Any]:
    """Return the arguments by name, or their defaults. Raises `TypeError` for a wrong call."""
    bound = _signature(method).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


@lru_cache(maxsize=256)
def _signature(method: Callable[..., Any]) -> inspect.Signature:
    whole = inspect.signature(method)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


class _PermittedService:
    """The service itself. Its parts are under the same rules; a copy of it for others is for the same person."""

    def __init__(self, service: Service, access: Access) -> None:
        self._inner = recorded = audited(service)
        self._service, self._access = service, access
        sight = sight_of(service, access)
        for noun, kind in PARTS.items():
            setattr(
                self, noun, through(kind, PermittedVia(getattr(recorded, noun), getattr(service, noun), sight, access))
            )

    def __getattr__(self, name: str) -> Any:
        """Return the method, with its rule; whatever else it is as it is."""
        method: Any = getattr(self._inner, name)
        if name.startswith("_") or not inspect.iscoroutinefunction(method):
            return method
        access, service = self._access, self._service

        async def asked(*args: object, **kwargs: object) -> Any:
            role, rule = RULES.get(name, (Role.ADMIN, whole))
            if name == "apply" and kwargs.get("dry_run") is True:
                role = Role.READ
            if not access.role.includes(role):
                raise needs_role(role, name, access)
            if access.scope.is_everything:
                return await method(*args, **kwargs)
            sight = sight_of(service, access)
            return await rule(AskedOperation(sight, service, method, name, args, kwargs, access.role))

        self.__dict__[name] = asked  # made once: each request asks for it
        return asked

    def acting_as(self, author: str | None) -> Service:
        """In the name of another one; a token stays in its own."""
        service = self._service.acting_as(author) if self._access.is_owner else self._service
        return cast(Service, _PermittedService(service, self._access))

    def _in_zone(self, time_zone: str) -> Service:
        return cast(Service, _PermittedService(in_zone(self._service, time_zone), self._access))
