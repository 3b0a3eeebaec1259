"""The paths under `/api/v2/secrets`: secrets of jobs. (The node's own is in `secret.py`.)"""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer
from tokimori.api.operation import Operation
from tokimori.api.requests import NoRequest
from tokimori.service.views.secrets import SecretView


class SecretValue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value to store. `jobs`: only jobs whose ids begin so may use it; null: unchanged, for a new one all."""

    is_told: ClassVar[bool] = False
    """A fault does not say what was sent."""
    value: str
    jobs: tuple[str, ...] | None = None


class SecretDeleted(Struct, frozen=True, kw_only=True):
    """The secret that is gone."""

    name: str
    deleted: bool


class SecretsRotated(Struct, frozen=True, kw_only=True):
    """Number of secrets that were encrypted anew."""

    rotated: int


class SecretRoutes:
    """The part of the API for secrets."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        every = "/api/v2/secrets"
        one, example = f"{every}/{{name}}", {"value": "correct horse", "jobs": ["mail-"]}
        return [
            Operation("secret_list", "GET", every, self.list, list[SecretView]),
            Operation("secret_rotate", "POST", f"{every}/rotate", self.rotate, SecretsRotated, example={}),
            Operation("secret_set", "PUT", one, self.set, SecretView, example=example),
            Operation("secret_delete", "DELETE", one, self.delete, SecretDeleted),
        ]

    async def list(self, request: Request) -> Response:
        """Return all secrets, by name, without their values."""
        return answer([SecretView.made(each) for each in await self._service(request).secrets.list()])

    async def set(self, request: Request, body: SecretValue) -> Response:
        """Keep a secret, or give it another value; no answer shows it again."""
        name: str = request.path_params["name"]
        return answer(SecretView.made(await self._service(request).secrets.set(name, body.value, jobs=body.jobs)))

    async def delete(self, request: Request) -> Response:
        """Delete a secret: runs of jobs that name it fail from now on."""
        name: str = request.path_params["name"]
        await self._service(request).secrets.delete(name)
        return answer(SecretDeleted(name=name, deleted=True))

    async def rotate(self, request: Request, body: NoRequest) -> Response:
        """Encrypt all secrets anew with the node's first key."""
        return answer(SecretsRotated(rotated=await self._service(request).secrets.rotate()))
