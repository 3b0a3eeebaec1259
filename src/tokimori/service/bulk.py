"""One order for all jobs, or all runs, that a filter finds: some at a time, each in a transaction of its own."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Unpack

from msgspec import Struct

from tokimori.errors import Forbidden, InvalidInput, NotFound, StoreError, TokimoriError
from tokimori.model.ids import check_job_id, check_uuid
from tokimori.model.job import Job, JobState
from tokimori.model.run import Run
from tokimori.model.sizes import check_reason
from tokimori.model.transitions import BEFORE_START, ENDS, RunState
from tokimori.service.definitions.arguments import JobFilters, Payload, RunFilters
from tokimori.service.definitions.requests import Became, RequestedRun
from tokimori.service.operation import M, Part, composed
from tokimori.service.validation import MOST_LISTED, checked, chosen, flag_of, many

MOST_AT_ONCE = 100
"""Number of things changed by one call, unless it says otherwise; at most `MOST_LISTED`."""
SHOWN = 20
"""Number of ids in a preview."""
MOST_PREVIEWED = 20_000
_PASSES = 3
"""Number of tries after a refusal, when others were done: a job may have to go after those below it."""


class JobVerb(StrEnum):
    """Orders for many jobs."""

    PAUSE = "pause"
    RESUME = "resume"
    TRIGGER = "trigger"
    DELETE = "delete"


class RunVerb(StrEnum):
    """Orders for many runs."""

    CANCEL = "cancel"
    HOLD = "hold"
    RESUME = "resume"
    RETRY = "retry"


UNDO: Final[Mapping[str, str]] = MappingProxyType({"pause": "resume", "resume": "pause"})
"""Orders for jobs that take another one back."""
OF_STATES: Final[Mapping[RunVerb, frozenset[RunState]]] = MappingProxyType(
    {
        RunVerb.CANCEL: frozenset(RunState) - ENDS,
        RunVerb.HOLD: frozenset(BEFORE_START),
        RunVerb.RESUME: frozenset({RunState.HELD}),
        RunVerb.RETRY: frozenset({RunState.FAILED}),
    }
)
"""States of the runs that are meant if no state is said."""


class Bulk(Struct, frozen=True, kw_only=True):
    """Result of an order for many things.

    `ids` are those that were changed, and of a preview the first ones, of `count` in all (`more`: at least). Others
    stay as they are: `unchanged` of them were so already, and `kept` says why by id. `runs` are the runs that were
    made. `next`: go on there (`after` of jobs, `before` of runs). `undo`: the order that takes this one back for `ids`.
    """

    verb: str
    count: int
    ids: tuple[str, ...]
    unchanged: int = 0
    kept: dict[str, str] = {}
    runs: tuple[str, ...] = ()
    next: str | None = None
    more: bool = False
    undo: str | None = None


class JobBulk(Part[M]):
    """Orders for many jobs."""

    @composed()
    async def bulk(
        self,
        verb: str,
        *,
        ids: Sequence[str] | None = None,
        everything: bool = False,
        reason: str | None = None,
        key: str | None = None,
        payload: Payload | None = None,
        dry_run: bool = False,
        **filters: Unpack[JobFilters],
    ) -> Bulk:
        """Pause, resume, trigger or delete the jobs that these filters find, the first 100 by default (`limit`).

        `verb` is one of `JobVerb`. Instead of filters there may be `ids`, at most 1,000, or `everything`. The `reason`
        is that of a pause, the `payload` that of the runs of a trigger. With a `key` a repeated call triggers no job
        twice. `dry_run` changes nothing: it counts the jobs, up to 20,000. Each job is changed, and recorded, as by
        its own operation; what is refused is left as it is. Raises `InvalidInput`.
        """
        order, jobs, dry = chosen(JobVerb, "verb", verb), _any(self), flag_of("dry_run", dry_run)
        _check_texts(reason=reason, key=key)
        if payload is not None and order is not JobVerb.TRIGGER:
            message = f"payload: {order} takes none"
            raise InvalidInput(message, field="payload", value=payload, allowed="the order trigger")
        given = _checked_filters(filters, ids, everything=everything)
        if dry:
            return await _preview(order, jobs.list, given, ids, "after")
        page, rest = await _page(jobs.list, jobs.get, given, ids, check_job_id)

        async def act(job: Job) -> object:
            match order:
                case JobVerb.PAUSE:
                    is_so = job.state in (JobState.PAUSED, JobState.PARKED)
                    return None if is_so else await jobs.pause(job.id, reason)
                case JobVerb.RESUME:
                    is_so = job.state not in (JobState.PAUSED, JobState.PARKED)
                    return None if is_so else await jobs.resume(job.id)
                case JobVerb.TRIGGER:
                    return _made(await jobs.request(job.id, key, payload))
                case JobVerb.DELETE:
                    return True if await jobs.delete(job.id) is None else None

        return await _carried_out(order, page, act, rest)


class RunBulk(Part[M]):
    """Orders for many runs."""

    @composed()
    async def bulk(
        self,
        verb: str,
        *,
        ids: Sequence[str] | None = None,
        everything: bool = False,
        reason: str | None = None,
        dry_run: bool = False,
        **filters: Unpack[RunFilters],
    ) -> Bulk:
        """Cancel, hold, resume or retry the runs that these filters find, the newest 100 by default (`limit`).

        `verb` is one of `RunVerb`. If no state is said, those runs are meant that it concerns: of `retry` the failed
        ones. A run is retried in bulk once: its retry answers then. Else as `jobs.bulk`.
        """
        order, runs, dry = chosen(RunVerb, "verb", verb), _any(self), flag_of("dry_run", dry_run)
        _check_texts(reason=reason)
        given = {"longest": 0, **_checked_filters(filters, ids, everything=everything)}
        if ids is None and not given.get("state"):
            given["state"] = OF_STATES[order]
        if dry:
            return await _preview(order, runs.list, given, ids, "before")

        async def known(run_id: str) -> Run:
            found: Run = (await runs.get(run_id)).run
            return found

        page, rest = await _page(runs.list, known, given, ids, lambda each, field: check_uuid(each, field=field))
        fields = {} if reason is None else {"reason": reason}

        async def act(run: Run) -> object:
            match order:
                case RunVerb.CANCEL:
                    return None if run.state in ENDS or run.cancel else await runs.cancel(run.id, **fields)
                case RunVerb.HOLD:
                    return None if run.state is RunState.HELD else await runs.hold(run.id, **fields)
                case RunVerb.RESUME:
                    return None if run.state is not RunState.HELD else await runs.resume(run.id)
                case RunVerb.RETRY:
                    return _made(await runs.retry(run.id, f"retry of {run.id}"))

        return await _carried_out(order, page, act, rest)


def _any(part: object) -> Any:
    """Return the part with the operations of the class that is made of it."""
    return part


def _made(asked: RequestedRun) -> object:
    return asked.run if asked.became is Became.MADE else None


def _check_texts(**texts: object) -> None:
    for name, text in texts.items():
        if text is not None:
            check_reason(name, text)


def _checked_filters(filters: Mapping[str, Any], ids: object, *, everything: object) -> dict[str, Any]:
    """Return the filters. Raises `InvalidInput` if nothing says which things are meant, or two do."""
    given = {name: value for name, value in filters.items() if value is not None and value not in ((), [], frozenset())}
    which = given.keys() - {"limit", "after", "before", "longest"}
    if bool(which) + flag_of("everything", everything) + (ids is not None) != 1:
        message = "filters: say which are meant"
        raise InvalidInput(message, field="filters", value=sorted(which), allowed="filters, ids, or everything")
    checked("limit", given.setdefault("limit", MOST_AT_ONCE), MOST_LISTED)
    return given


async def _page(
    listed: Callable[..., Awaitable[Any]],
    known: Callable[[str], Awaitable[Any]],
    given: Mapping[str, Any],
    ids: Sequence[str] | None,
    check: Callable[..., str],
) -> tuple[Sequence[Any], str | None]:
    """Return one page of the selected things, and the position of the next page. Unknown ids are left out."""
    if ids is None:
        found = await listed(**given)
        return list(found), found.next
    named = [check(each, field="ids") for each in many("ids", ids, "ids")]
    checked("ids", max(1, len(named)), MOST_LISTED)
    there: list[Any] = []
    for each in dict.fromkeys(named):
        try:
            there.append(await known(each))
        except NotFound:
            continue
    return there, None


async def _preview(
    verb: StrEnum, listed: Callable[..., Awaitable[Any]], given: dict[str, Any], ids: Sequence[str] | None, place: str
) -> Bulk:
    """Return how many things are meant, and the first ones."""
    if ids is not None:
        named = tuple(dict.fromkeys(map(str, many("ids", ids, "ids"))))
        return Bulk(verb=verb, count=len(named), ids=named[:SHOWN], undo=UNDO.get(verb))
    first: list[str] = []
    count, rest = 0, given.get(place)
    while True:
        found = await listed(**{**given, "limit": MOST_LISTED, place: rest})
        first += [each.id for each in found][: SHOWN - len(first)]
        count, rest = count + len(found), found.next
        if rest is None or count >= MOST_PREVIEWED:
            more = rest is not None
            return Bulk(verb=verb, count=count, ids=tuple(first), more=more, undo=UNDO.get(verb))


async def _carried_out(
    verb: StrEnum, page: Sequence[Any], act: Callable[[Any], Awaitable[object]], rest: str | None
) -> Bulk:
    """Carry out the order for each thing. Stop if the store does not answer; finished changes stay."""
    done: dict[str, object] = {}
    kept: dict[str, str] = {}
    left, unchanged = list(page), 0
    for _ in range(_PASSES):
        again = []
        for each in left:
            try:
                result = await act(each)
            except NotFound:
                unchanged += 1  # it is gone meanwhile
            except StoreError:
                raise
            except TokimoriError as fault:
                if isinstance(fault, Forbidden) and fault.field != "scope" and not done and not kept:
                    raise  # so are all others
                kept[each.id] = fault.message
                again.append(each)
            else:
                kept.pop(each.id, None)
                unchanged += result is None
                done |= {} if result is None else {each.id: result}
        if len(again) in (0, len(left)):
            break
        left = again
    made = [each.id for each in done.values() if isinstance(each, Run) and verb in (JobVerb.TRIGGER, RunVerb.RETRY)]
    undo = UNDO.get(verb) if done and isinstance(verb, JobVerb) else None
    ids = tuple(done)
    return Bulk(
        verb=verb, count=len(ids), ids=ids, unchanged=unchanged, kept=kept, runs=tuple(made), next=rest, undo=undo
    )
