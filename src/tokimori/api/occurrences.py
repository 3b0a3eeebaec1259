"""The paths under `/api/v2/jobs` that tell of a job's time: when it runs, what became of that, and after which jobs."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer
from tokimori.api.jobs import job_id_of
from tokimori.api.operation import Operation
from tokimori.clock import parse_moment, to_datetime
from tokimori.service.asking import MOST_LISTED
from tokimori.service.reasons import Why
from tokimori.service.shown import Durations
from tokimori.service.views.jobs import CountView, EdgeView, SkipView
from tokimori.service.views.schedules import ExplanationView, NextView
from tokimori.service.views.statistics import StatisticsView


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


class Occurrences:
    """The part of the API for a job's occurrences and their fates."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        job, graph = "/api/v2/jobs/{job_id}", "/api/v2/graph"
        kinds = (
            ("job_next", f"{job}/next", self.next_times, list[NextView]),
            ("job_explain", f"{job}/explain", self.explain, ExplanationView),
            ("job_why", f"{job}/why", self.why, Why),
            ("job_skips", f"{job}/skips", self.skips, list[SkipView]),
            ("job_counts", f"{job}/counts", self.counts, list[CountView]),
            ("job_stats", f"{job}/stats", self.stats, StatisticsView),
            ("job_graph", f"{job}/graph", self.graph, list[EdgeView]),
            ("job_durations", "/api/v2/durations", self.durations, dict[str, Durations]),
            ("graph", graph, self.graph, list[EdgeView]),
        )
        return [Operation(name, "GET", path, handler, answers) for name, path, handler, answers in kinds]

    async def next_times(self, request: Request, query: NextQuery) -> Response:
        """Return the next moments of the job's schedule."""
        job_id = job_id_of(request)
        after = None if query.after is None else parse_moment(query.after, field="after")
        moments = await self._service(request).jobs.next(job_id, query.n, after)
        return answer([NextView(job_id=job_id, time=to_datetime(moment)) for moment in moments])

    async def explain(self, request: Request, query: NextQuery) -> Response:
        """Explain the schedule of the job."""
        after = None if query.after is None else parse_moment(query.after, field="after")
        return answer(
            ExplanationView.made(await self._service(request).jobs.explain(job_id_of(request), query.n, after))
        )

    async def why(self, request: Request) -> Response:
        """Return the reasons that keep the runs of a job from starting, their end if it is known, and the commands that
        mend them.
        """
        return answer(await self._service(request).jobs.why(job_id_of(request)))

    async def skips(self, request: Request, query: SkipQuery) -> Response:
        """Return the skips of the job, newest first."""
        return answer(
            [SkipView.made(skip) for skip in await self._service(request).jobs.skips(job_id_of(request), query.limit)]
        )

    async def counts(self, request: Request) -> Response:
        """Return the number of ended runs and skipped occurrences, by day and outcome, pruned ones too."""
        return answer([CountView.made(count) for count in await self._service(request).jobs.counts(job_id_of(request))])

    async def stats(self, request: Request) -> Response:
        """Return the job's statistics: its success rate, how long its runs take and how late they start."""
        return answer(StatisticsView.made(await self._service(request).jobs.stats(job_id_of(request))))

    async def durations(self, request: Request, query: DurationsQuery) -> Response:
        """Return how long runs of these jobs take, by job: half of the newest good ones took `p50` seconds at most."""
        return answer(await self._service(request).jobs.durations(query.job_id))

    async def graph(self, request: Request) -> Response:
        """Return the edges between jobs: all, or those above and below one job."""
        edges = await self._service(request).jobs.graph(request.path_params.get("job_id"))
        return answer([EdgeView.made(edge) for edge in edges])
