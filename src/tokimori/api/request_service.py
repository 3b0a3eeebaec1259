"""Service of a request, in the name of its author and within his rights."""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import Scope

from tokimori.api.answers import first_said
from tokimori.errors import Unauthorized
from tokimori.service.access import Access, owner
from tokimori.service.claims.claims import Claims
from tokimori.service.doors.authorization import authorized
from tokimori.service.doors.job_restrictions import UNRESTRICTED, JobRestrictions
from tokimori.service.operation import Inside
from tokimori.service.service import Service
from tokimori.service.validation import check_author

AuthorOf = Callable[[Request], str | None]
"""Function that returns the sender of a request with the node's secret."""
ServiceFor = Callable[[Request], Service]
"""A function that gives the service as the author of the request may use it."""
ClaimsFor = Callable[[Request], Claims[Inside]]
"""The same for what workers ask."""
MOST_AUTHORS = 256
"""Number of authors whose service is cached."""
_WHOLE: Final = 36
_ACCESS: Final = "tokimori.access"
_AGAIN: Final = "tokimori.access.again"
Again = Callable[[], Awaitable[Access | None]]


AUTHOR: Final = "tokimori-author"
"""Header in which a sender with the node's secret names the author of an order."""
_AUTHOR: Final = AUTHOR.encode()


def author_said(unsaid: str = "http") -> AuthorOf:
    """Return a function that names the author of a request with the node's secret: the name in the header or of the
    login, else `unsaid`.

    It raises `InvalidInput` for a name that can't be recorded.
    """

    def author_of(request: Request) -> str:
        access: Access = request.scope[_ACCESS]
        sent = (first_said(request.scope, _AUTHOR) or "").strip()
        author = unquote(sent) or access.author
        if author is None:
            return unsaid
        check_author(author)
        return author

    return author_of


def let_in(scope: Scope, access: Access, again: Again) -> None:
    """Note in the request what its sender may do: the guard at the entrance knows, and can be asked again."""
    scope[_ACCESS], scope[_AGAIN] = access, again


def principal_of(request: Request) -> str:
    """Return the name of the request's token; empty for the node's secret."""
    access: Access = request.scope[_ACCESS]
    return "" if access.is_owner else str(access.author)


async def is_still_let_in(request: Request) -> bool:
    """Return whether the sender still may do the same: his token may have expired. Raises `StoreError`."""
    try:
        return bool(await request.scope[_AGAIN]() == request.scope[_ACCESS])
    except Unauthorized:
        return False


_AUTHOR_SAID: Final = author_said()


async def run_id_of(service: Service, request: Request) -> str:
    """Return the id of the run in a path, which may say a part of it. Raises `InvalidInput` and `NotFound`."""
    text: str = request.path_params["run_id"]
    return text if len(text) == _WHOLE else await service.runs.whole_id(text)


class Acting:
    """Gives each request the service and the claims as its sender may use them; a refused sender gets neither.

    `allowed`: what jobs may do that come so.
    """

    def __init__(
        self,
        service: Service,
        author_of: AuthorOf = _AUTHOR_SAID,
        allowed: JobRestrictions = UNRESTRICTED,
    ) -> None:
        self._service = service
        self._author_of = author_of
        self._authorized = lru_cache(maxsize=MOST_AUTHORS)(lambda access: authorized(service, access, allowed))
        self._of_owner = lru_cache(maxsize=MOST_AUTHORS)(lambda author: authorized(service, owner(author), allowed))

    def service(self, request: Request) -> Service:
        """Return the service for the sender."""
        access: Access = request.scope[_ACCESS]
        service: Service = self._of_owner(self._author_of(request)) if access.is_owner else self._authorized(access)
        return service

    def access(self, request: Request) -> Access:
        """Return the access of the sender."""
        access: Access = request.scope[_ACCESS]
        return owner(self._author_of(request)) if access.is_owner else access

    def claims(self, request: Request) -> Claims[Inside]:
        """Return the claims for the sender."""
        return self.service(request).claims
