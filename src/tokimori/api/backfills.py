"""The paths under `/api/v2/jobs/{job_id}/backfill`."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, field
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer
from tokimori.api.jobs import job_id_of
from tokimori.api.operation import Operation
from tokimori.clock import Moment, parse_moment
from tokimori.service.views.runs import BackfillView

_SPAN = {"from": "2030-01-01T00:00:00Z", "to": "2030-01-03T00:00:00Z"}


class Range(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The range of a backfill; `from` and `to` are included."""

    first: str = field(name="from")
    last: str = field(name="to")

    def moments(self) -> tuple[Moment, Moment]:
        """Return both ends of the range. Raises `InvalidInput`."""
        return parse_moment(self.first, field="from"), parse_moment(self.last, field="to")


class BackfillRequest(Range, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of a backfill: all that are missing, at most `max_running` active at a time, or (`dry_run`) none."""

    max_running: Annotated[int, Meta(ge=0)] = 0
    dry_run: bool = False


class Backfills:
    """The part of the API for backfills."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        backfill = "/api/v2/jobs/{job_id}/backfill"
        return [
            Operation(
                "job_backfill", "POST", backfill, self.backfill, BackfillView, example={**_SPAN, "dry_run": True}
            ),
            Operation("job_cancel_backfill", "POST", f"{backfill}/cancel", self.cancel, BackfillView, example=_SPAN),
        ]

    async def backfill(self, request: Request, body: BackfillRequest) -> Response:
        """Make runs for occurrences that have none; with `max_running`, ask again until none is missing."""
        first, last = body.moments()
        done = await self._service(request).jobs.backfill(
            job_id_of(request), first, last, max_running=body.max_running, dry_run=body.dry_run
        )
        return answer(BackfillView.made(done))

    async def cancel(self, request: Request, body: Range) -> Response:
        """Cancel a backfill: its runs that have not ended, and the making of more."""
        first, last = body.moments()
        return answer(
            BackfillView.made(await self._service(request).jobs.cancel_backfill(job_id_of(request), first, last))
        )
