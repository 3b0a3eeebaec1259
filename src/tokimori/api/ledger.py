"""The paths under `/api/v2/jobs` that tell what became of each occurrence, and whether all of it fits."""

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
from tokimori.service.asking import MOST_LISTED
from tokimori.service.views.ledger import LedgerView, VerifiedView


class RangeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The occurrences from `from` (by default the oldest that may be known) to `to` (now), both included."""

    first: str | None = field(default=None, name="from")
    last: str | None = field(default=None, name="to")


class LedgerQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A range, and how many occurrences of it at most."""

    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class Ledgers:
    """The part of the API for the ledgers of jobs."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        job = "/api/v2/jobs/{job_id}"
        return [
            Operation("job_ledger", "GET", f"{job}/ledger", self.ledger, LedgerView, large=True),
            Operation("job_verify", "GET", f"{job}/verify", self.verify, VerifiedView, large=True),
        ]

    async def ledger(self, request: Request, query: LedgerQuery) -> Response:
        """Return the fate of each occurrence of the job's schedule, oldest first; go on with `next` as `from`."""
        found = await self._service(request).jobs.ledger(job_id_of(request), *_range(query), query.limit)
        return answer(LedgerView.made(found))

    async def verify(self, request: Request, query: RangeQuery) -> Response:
        """Check that each occurrence is a run, a skip or pruned: at most 10,000 of them; go on with `next`."""
        return answer(VerifiedView.made(await self._service(request).jobs.verify(job_id_of(request), *_range(query))))


def _range(query: RangeQuery) -> tuple[Moment | None, Moment | None]:
    return _moment("from", query.first), _moment("to", query.last)


def _moment(field: str, text: str | None) -> Moment | None:
    return None if text is None else parse_moment(text, field=field)
