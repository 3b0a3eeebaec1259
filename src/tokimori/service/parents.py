"""Parents of runs, as the store knows them."""

from tokimori.model.access_token import Role
from tokimori.model.ids import RunId, check_uuid
from tokimori.model.parents import ParentRun
from tokimori.model.run import parents_of
from tokimori.ports.store import Store
from tokimori.service.finding_runs import parent_runs
from tokimori.service.operation import M, Part, operation
from tokimori.service.sight import RUN, Sight
from tokimori.service.views.outside import list_of
from tokimori.service.views.runs import ParentRunView


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
