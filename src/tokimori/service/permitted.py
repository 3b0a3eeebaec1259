"""The service as somebody at a door may use it: the one place where roles and scopes hold, whatever the door is.

Each method has a rule (`access_rules`). A method without one is for admins.
"""

import inspect
from types import MethodType
from typing import Any, cast

from tokimori.model.access_token import Role
from tokimori.service.access import Access, AskedOperation, Sight, needs_role
from tokimori.service.access_rules import BY_ROLE, RULES, whole
from tokimori.service.allowed import NOTHING_SAID, Allowed
from tokimori.service.audited import PARTS, audited
from tokimori.service.claims import Claims, with_access_token
from tokimori.service.judging import judge_of
from tokimori.service.service import Service
from tokimori.service.variants import in_zone, judged_by


def permitted(service: Service, access: Access, allowed: Allowed = NOTHING_SAID) -> Service:
    """Return the service for who has this access: orders are his, and what he may not do raises `Forbidden`.

    `allowed`: what jobs may do that he makes or changes.
    """
    judged = judged_by(service.acting_as(access.author), judge_of(service, access, allowed))
    return cast(Service, _PermittedService(judged, access))


def permitted_claims(claims: Claims, service: Service, access: Access) -> Claims:
    """Return the claims for who has this access."""
    named = claims if access.is_owner or access.author is None else with_access_token(claims, access.author)
    return cast(Claims, _Permitted(named, "claims.", service, access))


def permitted_in_zone(service: Service, time_zone: str) -> Service:
    """Return the same service of `permitted`, where jobs that name no time zone are in this one. Raises
    `InvalidInput`.
    """
    return cast(_PermittedService, service)._in_zone(time_zone)


class _Permitted:
    """One part of the service; its methods are called `part` and their name."""

    def __init__(self, inner: object, part: str, service: Service, access: Access) -> None:
        self._inner = inner
        self._part = part
        self._service = service
        self._access = access

    def __getattr__(self, name: str) -> Any:
        """Return the method, with its rule; whatever else it is as it is."""
        method: Any = getattr(self._inner, name)
        if inspect.isasyncgenfunction(method):  # what it calls of the part has its rule
            return MethodType(method.__func__, self)
        if name.startswith("_") or not inspect.iscoroutinefunction(method):
            return method
        full, access, service = self._part + name, self._access, self._service

        async def asked(*args: object, **kwargs: object) -> Any:
            role, rule = RULES.get(full, (Role.ADMIN, whole))
            if full == "apply" and kwargs.get("dry_run") is True:
                role = Role.READ
            if not access.role.includes(role):
                raise needs_role(role, full, access)
            if access.scope.is_everything and full != BY_ROLE:
                return await method(*args, **kwargs)
            sight = Sight(service, access.scope)
            return await rule(AskedOperation(sight, service, method, full, args, kwargs, access.role, self._inner))

        self.__dict__[name] = asked  # made once: each request asks for it
        return asked


class _PermittedService(_Permitted):
    """The service itself. Its parts are under the same rules; a copy of it for others is for the same person."""

    def __init__(self, service: Service, access: Access) -> None:
        recorded = audited(service)
        super().__init__(recorded, "", service, access)
        for part in ("audit", "channels", "events", *PARTS):
            setattr(self, part, _Permitted(getattr(recorded, part), f"{part}.", service, access))

    def acting_as(self, author: str | None) -> Service:
        """In the name of another one; a token stays in its own."""
        service = self._service.acting_as(author) if self._access.is_owner else self._service
        return cast(Service, _PermittedService(service, self._access))

    def _in_zone(self, time_zone: str) -> Service:
        return cast(Service, _PermittedService(in_zone(self._service, time_zone), self._access))
