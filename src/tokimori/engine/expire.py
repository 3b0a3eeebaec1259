"""Expire: requested runs that have not begun in time end as skipped, and those not approved in time as refused.

A document stands for each run with `expires`, under that moment, and for each question if a run may begin that has to
be answered in time: so the first ones are found without a walk over runs. It is written with the run, or before the run
is held; one without a run is deleted when its moment has come. If a clock ahead has made it, another one stands under
the right moment; its text is the moment of the first one.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from tokimori.clock import SECOND, Moment
from tokimori.errors import Conflict, NotFound
from tokimori.model.approval import unanswered
from tokimori.model.ids import NodeId, RunId
from tokimori.model.request import EXPIRY, EXPIRY_VERSION, expiry_at
from tokimori.model.rewind import MARGIN, at_once, by_the_right_time, lasting_from
from tokimori.model.run import Run, expired
from tokimori.model.transitions import RunState
from tokimori.ports.documents import Documents
from tokimori.ports.planning import Planning
from tokimori.ports.store import Runs

EVERY, SOONEST = 10.0, 0.2
"""Seconds from one look to the next, at most and at least. Which claimed run has expired its node sees by itself."""
BATCH = 50
"""Runs that one step ends at most, each in a transaction of its own."""
PAGE, MOST = 200, 10_000
"""Documents of moments to come that are looked at together, and at most."""


class ResumingStore(Runs, Planning, Protocol):
    """Questions of resuming to the store."""


class ExpiringStore(Documents, ResumingStore, Protocol):
    """Questions of expiring to the store."""


class Expirer:
    """Duty to end runs that have not begun when their requests expire, or that nobody has approved in time.

    `ahead`: by how many microseconds the store's clock may be ahead. What would not have expired without is left.
    """

    def __init__(self, store: ExpiringStore, at: float, ahead: Callable[[], int] = lambda: 0) -> None:
        self._store = store
        self._ahead = ahead
        self.next_at = at

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. The first runs whose moment has come, and the time of the next one."""
        if at < self.next_at:
            return False
        self.next_at, sure = at + EVERY, Moment(now - self._ahead())
        for each in await self._store.list_documents(EXPIRY, limit=BATCH):
            moment, _, run_id = each.name.partition(" ")
            if (left := int(moment) - sure) > 0:
                self.next_at = at + min(EVERY, max(SOONEST, left / SECOND))
                return False
            self.next_at = at + SOONEST
            await self._expire(RunId(run_id), (int(each.text or 0), int(moment)), sure, now)
            await self._store.delete_document(EXPIRY, each.name, EXPIRY_VERSION)
        return False

    async def _expire(self, run_id: RunId, mended: tuple[int, int], sure: Moment, now: Moment) -> None:
        with suppress(NotFound):
            known = await self._store.get_run(run_id)
            run = by_the_right_time(known, *mended)
            if (why := expired(run, sure)) is not None:
                await self._store.cancel_run(run_id, why, now, run.attempt)
            elif (refused := unanswered(run, sure)) is not None:
                await begun_at_once(self._store, await self._store.resume_run(run_id, (known.details, refused)), now)


async def begun_at_once(store: ResumingStore, run: Run, now: Moment) -> Run:
    """Make a run due that was resumed, and that a clock ahead was asked for at once; return it as it is then."""
    if run.state is not RunState.WAITING or (moments := at_once(run, now)) is None:
        return run
    await store.hasten_run(run, *moments)
    return await store.get_run(run.id)


async def put_expiries_right(store: ExpiringStore, now: Moment) -> None:
    """Have runs that a clock ahead has given a time to begin, or to be approved, end after that time from now on."""
    after = f"{now + MARGIN:020d}"
    for _ in range(MOST // PAGE):
        page = await store.list_documents(EXPIRY, after=after, limit=PAGE)
        for each in page:
            moment, _, run_id = each.name.partition(" ")
            with suppress(NotFound, Conflict):
                right = lasting_from(await store.get_run(RunId(run_id)), int(moment), now)
                if right is not None:
                    await store.put_document(replace(expiry_at(right, RunId(run_id)), text=moment), None)
        if len(page) < PAGE:
            break
        after = page[-1].name
