"""Foresee: read and decide, a moment ahead, what will be due, so that at its moment it has only to be written."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import SECOND, Moment
from tokimori.engine.appetite import Appetite
from tokimori.engine.fire import (
    BATCH,
    Fired,
    FiringStore,
    Monotonic,
    Planned,
    apply,
    beside_promotion,
    decided_by,
    with_ids,
)
from tokimori.engine.promote import Promoter
from tokimori.model.decide import Due, Plan
from tokimori.model.ids import RandomBytes
from tokimori.model.job import Job
from tokimori.ports.planning import Share
from tokimori.schedules.schedule import Schedule

AHEAD = SECOND // 10
"""How long before its moment something is foreseen: a few times what reading and deciding take."""
NEAR = SECOND // 50
"""What is nearer than this is not foreseen: it would be written alone, a moment before others that are due by then."""
FRESH = SECOND // 2
"""How long after it that may be written: later, the policies for what is late have to be asked."""
MOST = 2 * BATCH
"""How many jobs are foreseen, at most."""


class Foreseen(Struct, frozen=True):
    """Plans to write at `moment`, each batch by itself; `rest`: there is more to decide than this."""

    moment: Moment
    batches: tuple[list[Planned], ...]
    rest: bool

    def serves(self, now: Moment) -> bool:
        """Return whether something may be written now."""
        return bool(self.batches) and self.moment <= now <= self.moment + FRESH

    @property
    def written(self) -> "Foreseen":
        """Return the rest after a batch was written."""
        return replace(self, batches=())


NOTHING = Foreseen(Moment(0), (), rest=True)


def ahead_of(moment: Moment, now: Moment) -> Moment:
    """Return when to foresee what is due at this moment; the moment itself if that is too near."""
    return Moment(moment - AHEAD) if now <= moment - NEAR else moment


async def foresee(
    store: FiringStore,
    moment: Moment,
    random: RandomBytes,
    schedule_for: Callable[[Job], Schedule],
    share_of_many: Share,
    *,
    appetite: Appetite | None = None,
    monotonic: Monotonic = lambda: 0,
) -> Foreseen:
    """Decide now what will be due at this moment, where only an edit of the job itself could change the answer.

    A plan is refused where its job was edited, paused or decided meanwhile. Of jobs with active runs, with missed
    occurrences, or that can't be decided nothing is foreseen: theirs is decided at the moment, as ever. `appetite`: as
    in `fire`.
    """
    found, most = await _read(store, moment, appetite)
    many = len(found) >= min(BATCH, most)
    plans: list[Plan] = []
    for first in range(0, len(found), BATCH):
        dues = [due for due in found[first : first + BATCH] if not many or share_of_many.has(due.job.incarnation)]
        decided = decided_by(dues, moment, schedule_for, monotonic)
        plans += [plan async for due, plan in decided if isinstance(plan, Plan) and _is_plain(due, plan)]
        await asyncio.sleep(0)
    rest = len(found) == most or len(plans) < len(found)
    planned = with_ids(plans, moment, random)
    batches = tuple(planned[first : first + BATCH] for first in range(0, len(planned), BATCH))
    return Foreseen(moment, batches if batches or rest else ([],), rest)


async def _read(store: FiringStore, moment: Moment, appetite: Appetite | None) -> tuple[Sequence[Due], int]:
    """Return what is due then, and how many were asked for: more again if the first ones are small."""
    most = MOST if appetite is None else appetite.limit
    found = await store.due(moment, most)
    if appetite is None:
        return found, most
    appetite.note(due.job for due in found)
    return (found, most) if appetite.limit <= most else await _read(store, moment, appetite)


def _is_plain(due: Due, plan: Plan) -> bool:
    return due.active == 0 and len(plan.runs) == 1 and not plan.skips


async def fire_foreseen(store: FiringStore, foreseen: Foreseen, now: Moment, promoter: Promoter) -> Fired:
    """Write what was foreseen, all batches at the same time, and make waiting runs ready, as `fire` does.

    Where it fails some of them may have been written. Asked again, they are known.
    """
    applying = (apply(store, batch, now) for batch in foreseen.batches)
    decided, _ = await beside_promotion(promoter, now, BATCH, *applying)
    return Fired(decided.lanes, full=foreseen.rest, contended=decided.refused > 0)
