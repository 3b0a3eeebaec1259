"""The paths under `/api/v2/jobs` on a job's occurrences: their moments, fates and backfills, and after which jobs."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, field
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.operation import Operation, Routes
from tokimori.clock import Moment, parse_moment, to_datetime
from tokimori.service.reasons import Why
from tokimori.service.validation import MOST_LISTED
from tokimori.service.view_cache import Durations
from tokimori.service.views.jobs import DailyCount, Edge, LedgerPage, Skip, Statistics, Verified
from tokimori.service.views.runs import Backfill
from tokimori.service.views.schedules import Explanation, Next

_SPAN = {"from": "2030-01-01T00:00:00Z", "to": "2030-01-03T00:00:00Z"}


class NextQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The next `n` moments after `after`, by default after now."""

    n: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 10
    after: str | None = None


class SkipQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Number of the newest skips to show."""

    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class DurationsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs whose durations are wanted, at most 100; `job_id` may be repeated."""

    job_id: tuple[str, ...] = ()


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


class RangeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The occurrences from `from` (by default the oldest that may be known) to `to` (now), both included."""

    first: str | None = field(default=None, name="from")
    last: str | None = field(default=None, name="to")


class LedgerQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A range, and how many occurrences of it at most."""

    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class Occurrences(Routes):
    """The part of the API for a job's occurrences, their fates and their backfills."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        job, graph = "/api/v2/jobs/{job_id}", "/api/v2/graph"
        kinds = (
            ("job_next", f"{job}/next", self.next_times, list[Next]),
            ("job_explain", f"{job}/explain", self.explain, Explanation),
            ("job_why", f"{job}/why", self.why, Why),
            ("job_skips", f"{job}/skips", self.skips, list[Skip]),
            ("job_counts", f"{job}/counts", self.counts, list[DailyCount]),
            ("job_stats", f"{job}/stats", self.stats, Statistics),
            ("job_graph", f"{job}/graph", self.graph, list[Edge]),
            ("job_durations", "/api/v2/durations", self.durations, dict[str, Durations]),
            ("graph", graph, self.graph, list[Edge]),
        )
        backfill, dry = f"{job}/backfill", {**_SPAN, "dry_run": True}
        return [
            *(Operation(name, "GET", path, handler, answers) for name, path, handler, answers in kinds),
            Operation("job_ledger", "GET", f"{job}/ledger", self.ledger, LedgerPage, large=True),
            Operation("job_verify", "GET", f"{job}/verify", self.verify, Verified, large=True),
            Operation("job_backfill", "POST", backfill, self.backfill, Backfill, example=dry),
            Operation("job_cancel_backfill", "POST", f"{backfill}/cancel", self.cancel, Backfill, example=_SPAN),
        ]

    async def next_times(self, request: Request, job_id: str, query: NextQuery) -> Response:
        """Return the next moments of the job's schedule."""
        after = _moment("after", query.after)
        moments = await self._service(request).jobs.next(job_id, query.n, after)
        return answer([Next(job_id=job_id, time=to_datetime(moment)) for moment in moments])

    async def explain(self, request: Request, job_id: str, query: NextQuery) -> Response:
        """Explain the schedule of the job."""
        after = _moment("after", query.after)
        return answer(Explanation.made(await self._service(request).jobs.explain(job_id, query.n, after)))

    async def why(self, request: Request, job_id: str) -> Response:
        """Return the reasons that keep the runs of a job from starting, their end if it is known, and the commands that
        mend them.
        """
        return answer(await self._service(request).jobs.why(job_id))

    async def skips(self, request: Request, job_id: str, query: SkipQuery) -> Response:
        """Return the skips of the job, newest first."""
        return answer([Skip.made(skip) for skip in await self._service(request).jobs.skips(job_id, query.limit)])

    async def counts(self, request: Request, job_id: str) -> Response:
        """Return the number of ended runs and skipped occurrences, by day and outcome, pruned ones too."""
        return answer([DailyCount.made(count) for count in await self._service(request).jobs.counts(job_id)])

    async def stats(self, request: Request, job_id: str) -> Response:
        """Return the job's statistics: its success rate, how long its runs take and how late they start."""
        return answer(Statistics.made(await self._service(request).jobs.stats(job_id)))

    async def durations(self, request: Request, query: DurationsQuery) -> Response:
        """Return how long runs of these jobs take, by job: half of the newest good ones took `p50` seconds at most."""
        return answer(await self._service(request).jobs.durations(query.job_id))

    async def graph(self, request: Request, job_id: str | None) -> Response:
        """Return the edges between jobs: all, or those above and below one job."""
        edges = await self._service(request).jobs.graph(job_id)
        return answer([Edge.made(edge) for edge in edges])

    async def ledger(self, request: Request, job_id: str, query: LedgerQuery) -> Response:
        """Return the fate of each occurrence of the job's schedule, oldest first; go on with `next` as `from`."""
        found = await self._service(request).jobs.ledger(job_id, *_range(query), query.limit)
        return answer(LedgerPage.made(found))

    async def verify(self, request: Request, job_id: str, query: RangeQuery) -> Response:
        """Check that each occurrence is a run, a skip or pruned: at most 10,000 of them; go on with `next`."""
        return answer(Verified.made(await self._service(request).jobs.verify(job_id, *_range(query))))

    async def backfill(self, request: Request, job_id: str, body: BackfillRequest) -> Response:
        """Make runs for occurrences that have none; with `max_running`, ask again until none is missing."""
        first, last = body.moments()
        done = await self._service(request).jobs.backfill(
            job_id, first, last, max_running=body.max_running, dry_run=body.dry_run
        )
        return answer(Backfill.made(done))

    async def cancel(self, request: Request, job_id: str, body: Range) -> Response:
        """Cancel a backfill: its runs that have not ended, and the making of more."""
        first, last = body.moments()
        return answer(Backfill.made(await self._service(request).jobs.cancel_backfill(job_id, first, last)))


def _range(query: RangeQuery) -> tuple[Moment | None, Moment | None]:
    return _moment("from", query.first), _moment("to", query.last)


def _moment(name: str, text: str | None) -> Moment | None:
    return None if text is None else parse_moment(text, field=name)
