"""The paths under `/api/v2/tokens`."""

from collections.abc import Sequence
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.operation import Operation, Routes
from tokimori.service.views.access import AccessToken, NewToken


class NewTokenRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new token. It expires after `expires` seconds, if that is given."""

    name: str
    role: str
    jobs: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    expires: float | None = None


class TokenRevoked(Struct, frozen=True, kw_only=True):
    """The token that was revoked."""

    name: str
    revoked: bool


class TokenRoutes(Routes):
    """The part of the API for tokens."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        every = "/api/v2/tokens"
        example = {"name": "ci", "role": "operate", "jobs": ["ci-"], "expires": 3600}
        return [
            Operation("token_list", "GET", every, self.list, list[AccessToken]),
            Operation("token_create", "POST", every, self.create, NewToken, status=201, example=example),
            Operation("token_revoke", "DELETE", f"{every}/{{name}}", self.revoke, TokenRevoked),
        ]

    async def list(self, request: Request) -> Response:
        """Return all tokens, by name, without what their holders send."""
        return answer([AccessToken.made(each) for each in await self._service(request).tokens.list()])

    async def create(self, request: Request, body: NewTokenRequest) -> Response:
        """Make a token. Its secret text is in this answer alone."""
        made = await self._service(request).tokens.create(
            body.name, body.role, jobs=body.jobs, queues=body.queues, expires=body.expires
        )
        return answer(NewToken.made(made), 201, location=f"/api/v2/tokens/{quote(body.name, safe='')}")

    async def revoke(self, request: Request, name: str) -> Response:
        """Revoke a token. Every node refuses it within two seconds."""
        await self._service(request).tokens.revoke(name)
        return answer(TokenRevoked(name=name, revoked=True))
