"""Parents of runs, as the store knows them."""

import asyncio
from collections.abc import Sequence

from tokimori.errors import NotFound
from tokimori.model.access_token import Role
from tokimori.model.ids import RunId, check_uuid
from tokimori.model.parents import ParentRun, parents_in
from tokimori.model.run import Run, parents_of
from tokimori.ports.store import Store
from tokimori.service.operation import M, Part, operation
from tokimori.service.sight import RUN, Sight
from tokimori.service.views.outside import list_of
from tokimori.service.views.runs import ParentRunView

_AT_ONCE = 50
"""So many of them are read at a time: each may have some hundred KiB of texts."""


async def parent_runs(store: Store, ids: Sequence[RunId]) -> list[ParentRun]:
    """Return the runs of these ids with their results (`MOST_RESULTS`). What is not kept any more is missing."""
    found: list[Run] = []
    for first in range(0, len(ids), _AT_ONCE):
        some = await asyncio.gather(*(_known(store, each) for each in ids[first : first + _AT_ONCE]))
        found += [run for run in some if run is not None]
    return parents_in(found)


async def _known(store: Store, run_id: RunId) -> Run | None:
    try:
        return await store.get_run(run_id)
    except NotFound:
        return None


class RunParents(Part[M]):
    """Results of the parents of runs."""

    _store: Store

    @operation(Role.READ, RUN, gives=list_of(ParentRunView.made))
    async def parents(self, run_id: str) -> list[ParentRun]:
        """Return the runs after whose ends this one was made, with their results: all of them for a join.

        A run that was requested has none. Of results beyond 1 MiB `left_out` says how to read them.
        """
        run = await self._store.get_run(RunId(check_uuid(run_id, field="run")))
        return await parent_runs(self._store, parents_of(run))

    @parents.within
    async def _parents_within(self, sight: Sight, run_id: str) -> list[ParentRun]:
        """Return those of them that are in scope."""
        return [each for each in await self.parents(run_id) if await sight.sees_run_id(each.id)]
