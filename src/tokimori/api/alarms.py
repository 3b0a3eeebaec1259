"""The paths under `/api/v2/alarms`, `/api/v2/expectations` and `/api/v2/pings`: a dead man's switch."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, page_of
from tokimori.api.operation import Operation, Routes
from tokimori.api.requests import NamedDeleted
from tokimori.service.validation import MOST_LISTED
from tokimori.service.views.alarms import Alarm, Expectation


class NamesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page by name, from the first name behind `after`."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expectation of something elsewhere: a good end at least every `within` seconds."""

    within: float
    description: str | None = None


class ReportBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Report: `ok`, `start` or `fail`; `log` is its output, of which the last 2,000 characters stay."""

    report: str = "ok"
    log: str | None = None


class Alarms(Routes):
    """The part of the API for a dead man's switch."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        every, one = "/api/v2/expectations", "/api/v2/expectations/{name}"
        example = {"within": 90000, "description": "the nightly backup of the office"}
        return [
            Operation("expectation_alarms", "GET", "/api/v2/alarms", self.alarms, list[Alarm]),
            Operation("expectation_list", "GET", every, self.list, list[Expectation]),
            Operation("expectation_show", "GET", one, self.show, Expectation),
            Operation("expectation_set", "PUT", one, self.set, Expectation, example=example),
            Operation("expectation_delete", "DELETE", one, self.delete, NamedDeleted),
            Operation(
                "expectation_ping", "POST", "/api/v2/pings/{name}", self.ping, Expectation, example={"report": "ok"}
            ),
        ]

    async def alarms(self, request: Request, query: NamesQuery) -> Response:
        """Return the alarms of expectations that are not met, by name."""
        found = await self._service(request).expectations.alarms(query.after, query.limit)
        last = found[-1].name if found else None
        return page_of(request, [Alarm.made(each) for each in found], more=len(found) == query.limit, after=last)

    async def list(self, request: Request, query: NamesQuery) -> Response:
        """Return the expectations of jobs and of things elsewhere, by name."""
        found = await self._service(request).expectations.list(query.after, query.limit)
        last = found[-1].name if found else None
        return page_of(request, [Expectation.made(each) for each in found], more=len(found) == query.limit, after=last)

    async def show(self, request: Request, name: str) -> Response:
        """Return the expectation of this name."""
        return answer(Expectation.made(await self._service(request).expectations.get(name)))

    async def set(self, request: Request, name: str, body: Expected) -> Response:
        """Expect something elsewhere to report a good end at least every `within` seconds.

        Its description stays unless one is given; "" is none.
        """
        service = self._service(request)
        found = await service.expectations.set(name, body.within, description=body.description)
        return answer(Expectation.made(found))

    async def delete(self, request: Request, name: str) -> Response:
        """Expect nothing of it any more; its alarm goes too."""
        await self._service(request).expectations.delete(name)
        return answer(NamedDeleted(name=name, deleted=True))

    async def ping(self, request: Request, name: str, body: ReportBody) -> Response:
        """Report that something elsewhere has ended well (no body is needed), starts or failed.

        A good end takes back its alarm; a failure raises one within seconds.
        """
        return answer(Expectation.made(await self._service(request).expectations.ping(name, body.report, body.log)))
