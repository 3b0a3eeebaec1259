"""The list of runs, and what can be done with runs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tokimori.model.approval import awaits_approval
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.service.runs.family import BY_HAND, all_cancelled
from tokimori.service.search.runs import FoundRuns
from tokimori.service.service import Service
from tokimori.service.validation import MOST_LISTED
from tokimori.spelling import amount
from tokimori.web.addresses import path
from tokimori.web.filters import chips, typed
from tokimori.web.run_rows import LONGEST_SAID, run_rows
from tokimori.web.screen import Act, Field, Given, Receipt, Screen, Shown
from tokimori.web.screens.jobs import MOST_ASKED
from tokimori.web.visit import Visit
from tokimori.web.words import short

SHOWN: Final = 50
NAMES: Final = ("job", "state", "cause", "queue", "owner", "label", "node", "since", "until", "over", "text")
COLUMNS: Final = MappingProxyType(
    {
        **{"occurrence": "Occurrence", "ended": "Ended", "attempts": "Attempts", "cause": "Cause, or what it says"},
        **{"by": "Asked by", "node": "Node", "id": "Whole id"},
    }
)
"""Columns that can be chosen."""
APPROVAL: Final = "approval"
_STORED: Final = MappingProxyType({APPROVAL: "held"})
USUAL: Final = ("attempts", "cause", "by", "node")


async def show(visit: Visit) -> Shown:
    """Return the list of runs, newest first."""
    if (moved := typed(visit, NAMES)) is not None:
        return moved
    before, found = visit.one("before"), await _found(visit, SHOWN)
    return {
        "runs": await run_rows(visit, found.runs),
        "more": None if found.next is None else visit.link(before=found.next),
        "first": visit.link(before=None) if before else None,
        "chips": chips(visit, NAMES),
        "columns": [name for name in visit.all("column") if name in COLUMNS] or USUAL,
        "all_columns": COLUMNS,
        "looked": found.looked if found.next and (visit.one("text") or len(found.runs) < SHOWN) else 0,
        "states": [*map(str, RunState), APPROVAL],
        "bulk": BULK,
        "match": visit.match("q", *NAMES),
    }


def _filters(visit: Visit) -> dict[str, Any]:
    same = ("queue", "owner", "since", "until", "cause", "text", "node")
    several = {"state": [_STORED.get(each, each) for each in visit.all("state")], "label": visit.all("label")}
    others = {"job_prefix": visit.one("q"), "job_id": visit.one("job"), "duration_over": visit.one("over")}
    return {**{name: visit.one(name) for name in same}, **several, **others}


async def _found(visit: Visit, limit: int) -> FoundRuns:
    """Return the newest runs that the filters find. Stores tell no held run from one to approve, so more are read."""
    service, asked = visit.service.in_zone(visit.zone_of(visit.service.time_zone)), visit.all("state")
    filters: dict[str, Any] = {**_filters(visit), "before": visit.one("before"), "longest": LONGEST_SAID}
    if asked not in ([APPROVAL], ["held"]):
        return await service.runs.list(**filters, limit=limit)
    runs, looked = list[Run](), 0
    for _ in range(MOST_ASKED):
        page = await service.runs.list(**filters, limit=MOST_LISTED)
        runs += [run for run in page.runs if awaits_approval(run) == (asked == [APPROVAL])]
        filters["before"], looked = page.next, looked + page.looked
        if page.next is None or len(runs) >= limit:
            break
    return FoundRuns(runs=runs[:limit], next=runs[limit - 1].id if len(runs) > limit else page.next, looked=looked)


async def meant(visit: Visit) -> Mapping[str, Any]:
    """Return the runs that the filters of the list find, as the bulk order takes them: of held ones at most 1,000."""
    given = _filters(visit)
    if given["state"] == ["held"]:
        return {"ids": [run.id for run in (await _found(visit, MOST_LISTED)).runs]}
    return given if any(given.values()) else {"everything": True}


async def _cancel(service: Service, run_id: str, given: Given) -> Receipt:
    run = await service.runs.cancel(run_id, **({"reason": given["reason"]} if "reason" in given else {}))
    outcome = "cancelled" if run.state is RunState.CANCELLED else f"is {run.state}, and to be cancelled"
    if run.state in (RunState.SUCCEEDED, RunState.FAILED, RunState.SKIPPED):
        outcome = f"had ended already: {run.state}"
    return Receipt(f"Run {short(run.id)} {outcome}", path("runs", run.id))


async def _retry(service: Service, run_id: str, given: Given) -> Receipt:
    run = (await service.runs.retry(run_id)).run
    return Receipt(f"Run {short(run.id)} started, again what {short(run_id)} was", path("runs", run.id))


async def _hold(service: Service, run_id: str, given: Given) -> Receipt:
    run = await service.runs.hold(run_id, **({"reason": given["reason"]} if "reason" in given else {}))
    return Receipt(f"Run {short(run.id)} held", path("runs", run.id))


async def _resume(service: Service, run_id: str, given: Given) -> Receipt:
    run = await service.runs.resume(run_id)
    return Receipt(f"Run {short(run.id)} resumed: it is {run.state}", path("runs", run.id))


async def _cancel_family(service: Service, run_id: str, given: Given) -> Receipt:
    runs = await all_cancelled(service.runs.cancel_family, run_id, given.get("reason") or BY_HAND)
    return Receipt(f"{amount(len(runs), 'run')} of the family cancelled", path("runs", run_id))


async def _retry_family(service: Service, run_id: str, given: Given) -> Receipt:
    first, *more = await service.runs.retry_family(run_id)
    others = f" and {len(more)} more" if more else ""
    return Receipt(
        f"Family of {short(run_id)} requested again: run {short(first.run.id)}{others}", path("runs", first.run.id)
    )


async def _approve(service: Service, run_id: str, given: Given) -> Receipt:
    run = await service.runs.approve(run_id, given.get("reason"))
    return Receipt(f"Run {short(run.id)} approved", path("runs", run.id))


async def _refuse(service: Service, run_id: str, given: Given) -> Receipt:
    run = await service.runs.refuse(run_id, given.get("reason"))
    return Receipt(f"Run {short(run.id)} refused", path("runs", run.id))


REASON = Field("reason", "Reason", "recorded with the run")
BULK: Final = ("runs.cancel", "runs.retry", "runs.hold")
_ACTS: Final = (
    Act("runs.cancel", "Cancel", "cancelled", _cancel, fields=(REASON,)),
    Act("runs.retry", "Retry", "retried", _retry, style="go"),
    Act("runs.cancel_family", "Cancel family", "cancelled", _cancel_family, fields=(REASON,)),
    Act(
        "runs.retry_family",
        "Retry family",
        "retried",
        _retry_family,
        sure="The runs with which its family began are requested again, and all that follow are made anew.",
    ),
    Act("runs.hold", "Hold", "held", _hold, fields=(REASON,), undo="runs.resume"),
    Act("runs.resume", "Resume", "resumed", _resume),
    Act("runs.approve", "Approve", "approved", _approve, fields=(REASON,), style="go"),
    Act("runs.refuse", "Refuse", "refused", _refuse, fields=(REASON,)),
)
ACTS: Final = tuple(act._replace(meant=meant) if act.name in BULK else act for act in _ACTS)
SCREENS: Final = (Screen("/runs", "runs", "runs.html", show, leads=True),)
