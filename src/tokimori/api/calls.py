"""The paths under `/api/v2/calls`: the methods of the Python client, as they are, for programs without the store."""

from collections.abc import Sequence
from contextlib import nullcontext

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tokimori.api.acting import ClaimsFor, ServiceFor
from tokimori.api.answers import answer, read_body
from tokimori.api.claims import while_it_waits
from tokimori.api.turns import line_of
from tokimori.service.calls import Call, arguments, is_list, offered
from tokimori.service.permitted import permitted_in_zone
from tokimori.service.service import Service

PATH = "/api/v2/calls"


class Calls:
    """The part of the API for the Python client."""

    def __init__(self, service: ServiceFor, claims: ClaimsFor | None) -> None:
        self._service = service
        self._claims = claims

    def routes(self) -> Sequence[Route]:
        """Return the paths of this part."""
        return [Route(PATH + "/{method}", self.call, methods=["POST"])]

    async def call(self, request: Request) -> Response:
        """Call a method by name and return its result. An argument that is wrong is named, as ever."""
        name = request.path_params["method"]
        method = offered().get(name)
        part, _, word = name.rpartition(".")
        if method is None or (part == "claims" and self._claims is None):
            raise HTTPException(404)
        call = await read_body(request, Call)
        args, kwargs = arguments(method, call)
        service = self._of(request, call)
        if part == "claims" and self._claims is not None:
            claims = self._claims(request)
            doing = getattr(claims, word)(*args, **kwargs)
            if word == "claim" and kwargs.get("wait"):
                return answer(await while_it_waits(request, claims, doing))
            return answer(await doing)
        doing = getattr(getattr(service, part) if part else service, word)
        async with line_of(request) if is_list(method) else nullcontext():
            return answer(await doing(*args, **kwargs))

    def _of(self, request: Request, call: Call) -> Service:
        """Return the service for who calls."""
        service = self._service(request)
        if call.author is not None:
            service = service.acting_as(call.author)
        if call.time_zone is not None:
            service = permitted_in_zone(service, call.time_zone)
        return service
