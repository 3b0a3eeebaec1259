"""The paths under `/api/v2/calls`: the methods of the Python client, as they are, for programs without the store."""

from collections.abc import Sequence
from contextlib import nullcontext

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tokimori.api.answers import answer, read_body
from tokimori.api.claims import while_it_waits
from tokimori.api.request_service import ServiceFor
from tokimori.api.turns import line_of
from tokimori.service.claims.claims import Claims
from tokimori.service.doors.calls import Call, arguments, is_list, offered
from tokimori.service.service import Service

PATH = "/api/v2/calls"


class Calls:
    """The part of the API for the Python client."""

    def __init__(self, service: ServiceFor, *, has_claims: bool) -> None:
        self._service = service
        self._has_claims = has_claims

    def routes(self) -> Sequence[Route]:
        """Return the paths of this part."""
        return [Route(PATH + "/{method}", self.call, methods=["POST"])]

    async def call(self, request: Request) -> Response:
        """Call a method by name and return its result. An argument that is wrong is named, as ever."""
        name = request.path_params["method"]
        method = offered().get(name)
        noun, _, word = name.partition(".")
        if method is None or (noun == Claims.noun and not self._has_claims):
            raise HTTPException(404)
        call = await read_body(request, Call)
        args, kwargs = arguments(method, call)
        part = getattr(self._of(request, call), noun)
        doing = getattr(part, word)(*args, **kwargs)
        if name == "claims.claim" and kwargs.get("wait"):
            return answer(await while_it_waits(request, part, doing))
        async with line_of(request) if is_list(method) else nullcontext():
            return answer(await doing)

    def _of(self, request: Request, call: Call) -> Service:
        """Return the service for this caller."""
        service = self._service(request)
        if call.author is not None:
            service = service.acting_as(call.author)
        if call.time_zone is not None:
            service = service.in_zone(call.time_zone)
        return service
