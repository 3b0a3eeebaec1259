"""The paths under `/api/v2/secrets`: secrets of jobs. (The node's own is in `secret.py`.)"""

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import Concealed, answer
from tokimori.api.operation import Operation, Routes
from tokimori.api.requests import NamedDeleted, NoRequest
from tokimori.service.views.access import Secret


class SecretValue(Concealed, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value to store. `jobs`: beginnings of the ids of jobs that may use it; null: as before, or all if it is new."""

    value: str
    jobs: tuple[str, ...] | None = None


class SecretsRotated(Struct, frozen=True, kw_only=True):
    """Number of secrets that were encrypted anew."""

    rotated: int


class SecretRoutes(Routes):
    """The part of the API for secrets."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        every = "/api/v2/secrets"
        one, example = f"{every}/{{name}}", {"value": "correct horse", "jobs": ["mail-"]}
        return [
            Operation("secret_list", "GET", every, self.list, list[Secret]),
            Operation("secret_rotate", "POST", f"{every}/rotate", self.rotate, SecretsRotated, example={}),
            Operation("secret_set", "PUT", one, self.set, Secret, example=example),
            Operation("secret_delete", "DELETE", one, self.delete, NamedDeleted),
        ]

    async def list(self, request: Request) -> Response:
        """Return all secrets, by name, without their values."""
        return answer([Secret.made(each) for each in await self._service(request).secrets.list()])

    async def set(self, request: Request, name: str, body: SecretValue) -> Response:
        """Keep a secret, or give it another value; no answer shows it again."""
        return answer(Secret.made(await self._service(request).secrets.set(name, body.value, jobs=body.jobs)))

    async def delete(self, request: Request, name: str) -> Response:
        """Delete a secret: runs of jobs that name it fail from now on."""
        await self._service(request).secrets.delete(name)
        return answer(NamedDeleted(name=name, deleted=True))

    async def rotate(self, request: Request, body: NoRequest) -> Response:
        """Encrypt all secrets anew with the node's first key."""
        return answer(SecretsRotated(rotated=await self._service(request).secrets.rotate()))
