"""The paths under `/api/v2/runs`."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, page_of
from tokimori.api.operation import Operation, Routes
from tokimori.api.queries import filters_of, members_of
from tokimori.api.request_service import run_id_of
from tokimori.api.requests import NoRequest, RunRequest, ask, key_of, requested
from tokimori.api.turns import in_steps
from tokimori.errors import NotFound
from tokimori.model.transitions import STANDING_STILL, RunState
from tokimori.service.definitions.arguments import FailureFilters, RunFilters
from tokimori.service.reasons import Why
from tokimori.service.runs.failures import MOST_BUCKETS
from tokimori.service.runs.family_reading import MOST_ORDERED, MOST_RUNS
from tokimori.service.runs.mutes import USUAL
from tokimori.service.runs.runs import MOST_ATTEMPTS
from tokimori.service.validation import MOST_LISTED
from tokimori.service.views.runs import (
    AttemptDetails,
    FamilyMember,
    FoundFailures,
    Mute,
    OutputText,
    ParentRun,
    Run,
    RunDetails,
)
from tokimori.service.waits import LONGEST_WAIT

AttemptNumber = Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)]


_LOOKED, _ASKED = "Tokimori-Runs-Looked-At", {"state": ["failed"], "limit": 20}


class RunQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of runs: of one job or of those whose ids begin with `job_prefix`, in some states, older than `before`.

    `label` (`KEY=VALUE`, or `KEY`), `owner` and `queue` are those of their job as it is now. They were made at `since`
    or later, and before `until` (a moment without offset is in the time zone of the service). `cause` is that of
    failures, or its id; `text` is in the payload, the error, the result or the kept output of the newest attempt, which
    is at a `node` (id or host) and has lasted for longer than `duration_over` (seconds, or such as 10m). `fields`: the
    members of the answer that are wanted; all by default.
    """

    job_id: str | None = None
    job_prefix: str | None = None
    state: tuple[RunState, ...] = ()
    label: tuple[str, ...] = ()
    owner: str | None = None
    queue: str | None = None
    since: str | None = None
    until: str | None = None
    cause: str | None = None
    text: str | None = None
    node: str | None = None
    duration_over: str | None = None
    fields: tuple[str, ...] = ()
    before: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class FailureQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of failures: of runs that failed at `since` or later (a day ago by default), and before `until` (now).

    They are of one job, or of those whose ids begin with `job_prefix`; `label`, `owner` and `queue` are those of their
    job as it is now. `buckets`: into how many equal parts the period is counted. `before`: made before this run.
    """

    since: str | None = None
    until: str | None = None
    job_id: str | None = None
    job_prefix: str | None = None
    label: tuple[str, ...] = ()
    owner: str | None = None
    queue: str | None = None
    buckets: Annotated[int, Meta(ge=1, le=MOST_BUCKETS)] = 24
    before: str | None = None


class FamilyQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of a family, with the number of its runs, about."""

    limit: Annotated[int, Meta(ge=1, le=MOST_ORDERED)] = MOST_RUNS


class AttemptsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of attempts: the newest before this number; by default the newest of all."""

    before: AttemptNumber | None = None


class ShowQuery(AttemptsQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of a run, with that of its attempts. `wait`: seconds for which the answer waits for the end of the run."""

    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0


class OutputQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attempt whose output is wanted, by default the newest."""

    attempt: Annotated[int, Meta(ge=0, le=MOST_ATTEMPTS)] | None = None


class HoldRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason of a hold."""

    reason: str = "held by hand"


class AnswerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason of an approval or a refusal."""

    reason: str | None = None


class SignalRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signal to a run: a word, and any JSON with it, at most 64 KiB."""

    name: str
    data: Any = None


class CancelRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason of a cancellation."""

    reason: str = "cancelled by hand"


class RetryRunRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run is asked for once more: with the same `key` the same run answers. `force`: even if its job is stopped."""

    key: str | None = None
    force: bool = False


class MuteRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long a cause is muted, at most 90 days, and why."""

    lasts: float | str = USUAL
    reason: str | None = None


class RetryFamilyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A family is asked for once more. `force`: even if a job with which it begins is stopped."""

    force: bool = False


class RunRoutes(Routes):
    """The part of the API for runs."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        every, run, cause = "/api/v2/runs", "/api/v2/runs/{run_id}", "/api/v2/failures/{cause:path}"
        whole = f"{run}/family"
        cancel, again = f"{whole}/cancel", f"{whole}/retry"
        return [
            Operation("run_list", "GET", every, self.list, list[Run], answered=(_LOOKED,), asked=_ASKED),
            Operation(
                "run_add",
                "POST",
                every,
                self.add,
                Run,
                status=201,
                others={200: "a run that was there already answers"},
                headers=("Idempotency-Key",),
                answered=("Location",),
                example={"job_id": "nightly-report", "key": "order-17"},
            ),
            Operation("run_failures", "GET", "/api/v2/failures", self.failures, FoundFailures, large=True),
            Operation("run_mutes", "GET", "/api/v2/failures/mutes", self.mutes, list[Mute]),
            Operation("run_mute", "POST", f"{cause}/mute", self.mute, Mute, example={"lasts": "7d", "reason": "known"}),
            Operation("run_unmute", "POST", f"{cause}/unmute", self.unmute, Mute | None, example={}),
            Operation("run_show", "GET", run, self.show, Run),
            Operation("run_why", "GET", f"{run}/why", self.why, Why),
            Operation("run_parents", "GET", f"{run}/parents", self.parents, list[ParentRun]),
            Operation("run_family", "GET", whole, self.family, list[FamilyMember]),
            Operation("run_cancel_family", "POST", cancel, self.cancel_family, list[Run], example={}, large=True),
            Operation("run_retry_family", "POST", again, self.retry_family, list[Run], example={}, large=True),
            Operation("run_attempts", "GET", f"{run}/attempts", self.attempts, list[AttemptDetails]),
            Operation("run_attempt", "GET", f"{run}/attempts/{{attempt:int}}", self.attempt, AttemptDetails),
            Operation("run_output", "GET", f"{run}/output", self.output, OutputText | None),
            Operation("run_cancel", "POST", f"{run}/cancel", self.cancel, Run, example={"reason": "not needed"}),
            Operation("run_restart", "POST", f"{run}/restart", self.restart, Run, example={}),
            Operation(
                "run_signal",
                "POST",
                f"{run}/signal",
                self.signal,
                Run,
                example={"name": "reload", "data": {"level": "debug"}},
            ),
            Operation("run_hold", "POST", f"{run}/hold", self.hold, Run, example={"reason": "to be looked at"}),
            Operation("run_approve", "POST", f"{run}/approve", self.approve, Run, example={"reason": "checked"}),
            Operation("run_refuse", "POST", f"{run}/refuse", self.refuse, Run, example={"reason": "not today"}),
            Operation("run_resume", "POST", f"{run}/resume", self.resume, Run, example={}),
            Operation(
                "run_retry",
                "POST",
                f"{run}/retry",
                self.retry,
                Run,
                status=201,
                others={200: "a run that was there already answers"},
                headers=("Idempotency-Key",),
                answered=("Location",),
                example={"key": "again-1"},
            ),
        ]

    async def list(self, request: Request, query: RunQuery) -> Response:
        """Return runs, newest first, a page at a time. A page looks at 5,000 runs or 8 MB at most, so it may be short
        and still have a `next`. For a `text` it looks at 10,000; the header `Tokimori-Runs-Looked-At` has the number.
        """
        service = self._service(request)
        found = await service.runs.list(**filters_of(query, RunFilters))
        views = members_of(await in_steps(Run.made, found.runs), RunDetails, query.fields)
        response = page_of(request, views, more=found.next is not None, before=found.next)
        response.headers[_LOOKED] = str(found.looked)
        return response

    async def failures(self, request: Request, query: FailureQuery) -> Response:
        """Return the failures of a period by cause: their number, jobs, times, and a sample run.

        At most 3,000 failed runs are looked at, the newest first: go on with `next` as `before`.
        """
        found = await self._service(request).runs.failures(**filters_of(query, FailureFilters))
        return answer(FoundFailures.made(found))

    async def mutes(self, request: Request) -> Response:
        """Return the causes of failures that are muted."""
        return answer([Mute.made(each) for each in await self._service(request).runs.mutes()])

    async def mute(self, request: Request, cause: str, body: MuteRequest) -> Response:
        """Mute a cause of failures, by its id, for everybody and for a while."""
        runs = self._service(request).runs
        return answer(Mute.made(await runs.mute(cause, body.lasts, body.reason)))

    async def unmute(self, request: Request, cause: str, body: NoRequest) -> Response:
        """Mute a cause no longer; what was muted, or null."""
        found = await self._service(request).runs.unmute(cause)
        return answer(None if found is None else Mute.made(found))

    async def add(self, request: Request, body: RunRequest) -> Response:
        """Ask for a run of a job, now or at a moment."""
        return await ask(request, self._service(request), body.job_id, body)

    async def show(self, request: Request, query: ShowQuery) -> Response:
        """Return a run and its newest attempts, and what keeps it from starting."""
        service, run_id = self._service(request), await self._id(request)
        if query.wait:
            await service.runs.await_end(run_id, query.wait)
        details = await service.runs.get(run_id, query.before)
        why = await service.runs.why(run_id) if details.run.state in STANDING_STILL else None
        return answer(RunDetails.made(details, why=() if why is None else why.reasons))

    async def why(self, request: Request) -> Response:
        """Return the reasons that keep a run from starting or retrying, with the commands that mend them."""
        return answer(await self._service(request).runs.why(await self._id(request)))

    async def parents(self, request: Request) -> Response:
        """Return the runs after whose ends a run was made, with their results: at most 1 MiB of them."""
        found = await self._service(request).runs.parents(await self._id(request))
        return answer([ParentRun.made(each) for each in found])

    async def family(self, request: Request, query: FamilyQuery) -> Response:
        """Return all runs before and after a run, and those to come, parents first."""
        found = await self._service(request).runs.family(await self._id(request), query.limit)
        return answer(await in_steps(FamilyMember.made, found))

    async def cancel_family(self, request: Request, body: CancelRequest) -> Response:
        """Cancel the runs of a family that have not ended, and return them."""
        runs = self._service(request).runs
        ended = await runs.cancel_family(await self._id(request), body.reason)
        return answer(await in_steps(Run.made, ended))

    async def retry_family(self, request: Request, body: RetryFamilyRequest) -> Response:
        """Ask for a family once more, when all its runs have ended; return the runs with which it begins."""
        runs = self._service(request).runs
        made = await runs.retry_family(await self._id(request), force=body.force)
        return answer(await in_steps(lambda asked: Run.made(asked.run), made))

    async def attempts(self, request: Request, query: AttemptsQuery) -> Response:
        """Return the attempts of a run by number, the newest hundred at most; a `Link` names the earlier page."""
        view = RunDetails.made(await self._service(request).runs.get(await self._id(request), query.before))
        attempts = view.attempts
        earlier = bool(view.attempts_left_out)
        return page_of(request, attempts, more=earlier, before=str(attempts[0].number) if earlier else None)

    async def attempt(self, request: Request, attempt: int) -> Response:
        """Return one attempt of a run."""
        view = RunDetails.made(await self._service(request).runs.get(await self._id(request), attempt + 1))
        for each in view.attempts:
            if each.number == attempt:
                return answer(each)
        raise NotFound(f"the run {view.id} has no attempt {attempt}", field="attempt", value=attempt)

    async def output(self, request: Request, query: OutputQuery) -> Response:
        """Return the output of an attempt, as far as it is known; null if nothing is."""
        output = await self._service(request).runs.output(await self._id(request), query.attempt)
        return answer(None if output is None else OutputText.made(output))

    async def cancel(self, request: Request, body: CancelRequest) -> Response:
        """Cancel a run; if it runs, its node ends it."""
        return answer(Run.made(await self._service(request).runs.cancel(await self._id(request), body.reason)))

    async def restart(self, request: Request, body: NoRequest) -> Response:
        """End the running attempt of a run, so that it begins anew. Its node receives the order within a second."""
        return answer(Run.made(await self._service(request).runs.restart(await self._id(request))))

    async def signal(self, request: Request, body: SignalRequest) -> Response:
        """Send a signal to the function of a running run. Its node receives it within a second."""
        run = await self._service(request).runs.signal(await self._id(request), body.name, body.data)
        return answer(Run.made(run))

    async def hold(self, request: Request, body: HoldRequest) -> Response:
        """Hold a run that has not started."""
        return answer(Run.made(await self._service(request).runs.hold(await self._id(request), body.reason)))

    async def approve(self, request: Request, body: AnswerRequest) -> Response:
        """Let a run begin that waits for an approval."""
        return answer(Run.made(await self._service(request).runs.approve(await self._id(request), body.reason)))

    async def refuse(self, request: Request, body: AnswerRequest) -> Response:
        """Refuse a run that waits for an approval: it ends as failed."""
        return answer(Run.made(await self._service(request).runs.refuse(await self._id(request), body.reason)))

    async def resume(self, request: Request, body: NoRequest) -> Response:
        """Resume a held run."""
        return answer(Run.made(await self._service(request).runs.resume(await self._id(request))))

    async def retry(self, request: Request, body: RetryRunRequest) -> Response:
        """Ask for a run with what one that has ended was given; it names that as `retry_of`."""
        key = await key_of(request, self._service(request), body, body.key)
        return requested(await self._service(request).runs.retry(await self._id(request), key, force=body.force))

    async def _id(self, request: Request) -> str:
        return await run_id_of(self._service(request), request)
