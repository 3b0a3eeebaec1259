"""The paths under `/api/v2/schedules`."""

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer, read_query
from tokimori.clock import parse_moment
from tokimori.schedules.schedule import Fold, Gap
from tokimori.service.views.schedules import explanation_view


class ExplainQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of a schedule, its time zone (by default that of the node), and the moment after which to look (now).

    `calendars` may be repeated.
    """

    text: str
    time_zone: str | None = None
    n: int = 5
    after: str | None = None
    gap: str = Gap.SHIFT
    fold: str = Fold.FIRST
    calendars: tuple[str, ...] = ()
    shift: str | None = None


class Schedules:
    """The part of the API for schedules that no job has yet."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def routes(self) -> Sequence[Route]:
        """The paths of this part."""
        return [Route("/api/v2/schedules/explain", self.explain, methods=["GET"])]

    async def explain(self, request: Request) -> Response:
        """Explain a schedule."""
        query = read_query(request, ExplainQuery, lists=frozenset({"calendars"}))
        after = None if query.after is None else parse_moment(query.after, field="after")
        explanation = await self._service(request).explain(
            query.text,
            query.time_zone,
            query.n,
            after,
            gap=query.gap,
            fold=query.fold,
            calendars=query.calendars,
            shift=query.shift,
        )
        return answer(explanation_view(explanation))
