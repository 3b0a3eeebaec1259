"""The list of runs, and what can be done with runs."""

from typing import Final

from tokimori.model.transitions import RunState
from tokimori.service.service import Service
from tokimori.web.addresses import path
from tokimori.web.filters import chips, typed
from tokimori.web.run_rows import LONGEST_SAID, run_rows
from tokimori.web.screen import Act, Field, Given, Receipt, Screen, Shown
from tokimori.web.visit import Visit
from tokimori.web.words import short

SHOWN: Final = 50
NAMES: Final = ("job", "state", "cause", "queue", "owner", "label", "node", "since", "until", "over", "text")


async def show(visit: Visit) -> Shown:
    """Return the list of runs, newest first."""
    if (moved := typed(visit, NAMES)) is not None:
        return moved
    before = visit.one("before")
    found = await visit.service.in_zone(visit.zone_of(visit.service.time_zone)).runs.list(
        job_prefix=visit.one("q"),
        job_id=visit.one("job"),
        state=visit.all("state"),
        queue=visit.one("queue"),
        owner=visit.one("owner"),
        label=visit.all("label"),
        since=visit.one("since"),
        until=visit.one("until"),
        cause=visit.one("cause"),
        text=visit.one("text"),
        node=visit.one("node"),
        duration_over=visit.one("over"),
        before=before,
        limit=SHOWN,
        longest=LONGEST_SAID,
    )
    return {
        "runs": await run_rows(visit, found.runs),
        "more": None if found.next is None else visit.link(before=found.next),
        "first": visit.link(before=None) if before else None,
        "chips": chips(visit, NAMES),
        "states": list(map(str, RunState)),
        "bulk": ("runs.cancel", "runs.retry", "runs.hold"),
    }


async def _cancel(service: Service, run_id: str, given: Given) -> Receipt:
    run = await service.runs.cancel(run_id, **({"reason": given["reason"]} if "reason" in given else {}))
    said = "cancelled" if run.state is RunState.CANCELLED else f"is {run.state}, and to be cancelled"
    if run.state in (RunState.SUCCEEDED, RunState.FAILED, RunState.SKIPPED):
        said = f"had ended already: {run.state}"
    return Receipt(f"Run {short(run.id)} {said}", path("runs", run.id))


async def _retry(service: Service, run_id: str, given: Given) -> Receipt:
    run = (await service.runs.retry(run_id)).run
    return Receipt(f"Run {short(run.id)} started, again what {short(run_id)} was", path("runs", run.id))


async def _hold(service: Service, run_id: str, given: Given) -> Receipt:
    run = await service.runs.hold(run_id, **({"reason": given["reason"]} if "reason" in given else {}))
    return Receipt(f"Run {short(run.id)} held", path("runs", run.id))


async def _resume(service: Service, run_id: str, given: Given) -> Receipt:
    run = await service.runs.resume(run_id)
    return Receipt(f"Run {short(run.id)} resumed: it is {run.state}", path("runs", run.id))


REASON = Field("reason", "Reason", "recorded with the run")
ACTS: Final = (
    Act("runs.cancel", "Cancel", "cancelled", _cancel, fields=(REASON,)),
    Act("runs.retry", "Retry", "retried", _retry, style="go"),
    Act("runs.hold", "Hold", "held", _hold, fields=(REASON,), undo="runs.resume"),
    Act("runs.resume", "Resume", "resumed", _resume),
)
SCREENS: Final = (Screen("/runs", "runs", "runs.html", show, leads=True),)
