"""The paths under `/api/v2/schedules`."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.operation import Operation, Routes
from tokimori.clock import parse_moment
from tokimori.schedules.business_days import Shift
from tokimori.schedules.schedule import Fold, Gap
from tokimori.service.validation import MOST_LISTED
from tokimori.service.views.schedules import Explanation, Next


class TextQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of a schedule, its time zone (by default that of the node), and the moment after which to look (now).

    `calendars` may be repeated.
    """

    text: str
    time_zone: str | None = None
    n: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 5
    after: str | None = None
    gap: Gap = Gap.SHIFT
    fold: Fold = Fold.FIRST
    calendars: tuple[str, ...] = ()
    shift: Shift | None = None


class UpcomingQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The next `n` moments after `after`, by default after now."""

    n: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 20
    after: str | None = None


class ScheduleRoutes(Routes):
    """The part of the API for schedules that no job has yet, and for those of all jobs together."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        return [
            Operation(
                "schedule_explain",
                "GET",
                "/api/v2/schedules/explain",
                self.explain,
                Explanation,
                asked={"text": "0 9 * * mon-fri", "time_zone": "Europe/Paris"},
            ),
            Operation(
                "schedule_upcoming",
                "GET",
                "/api/v2/schedules/upcoming",
                self.upcoming,
                list[Next],
                asked={"n": 3},
            ),
        ]

    async def explain(self, request: Request, query: TextQuery) -> Response:
        """Explain a schedule: in English, with its next moments and warnings."""
        explanation = await self._service(request).schedules.explain(
            query.text,
            query.time_zone,
            query.n,
            None if query.after is None else parse_moment(query.after, field="after"),
            gap=query.gap,
            fold=query.fold,
            calendars=query.calendars,
            shift=query.shift,
        )
        return answer(Explanation.made(explanation))

    async def upcoming(self, request: Request, query: UpcomingQuery) -> Response:
        """Return the next moments of all enabled jobs together, soonest first."""
        after = None if query.after is None else parse_moment(query.after, field="after")
        found = await self._service(request).schedules.upcoming(query.n, after)
        return answer([Next.made(each) for each in found])
