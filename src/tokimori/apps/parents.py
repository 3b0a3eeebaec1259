"""Results of the parents of a task in hand."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from tokimori.apps.json_text import value_of
from tokimori.client.asynchronous import Act, AsyncClient, Way
from tokimori.client.facade import done
from tokimori.errors import InvalidInput, Refused

_T = TypeVar("_T")


class Reads(Protocol):
    """Ways to the store by which a task reads of its parents (`tokimori.apps.clients`)."""

    def blocking(self, instead: str) -> Way:
        """Return the way that waits in the calling thread."""
        ...

    async def awaiting(self, act: Act[_T], /) -> _T:
        """Return what `act` does, awaited."""
        ...


class ParentResult(Struct, frozen=True):
    """A run after whose end another one was made. `result` is its value, None if `left_out` says how to read it."""

    job_id: str
    run_id: str
    state: str
    result: Any = None
    left_out: str | None = None


class OfParents:
    """Access of a task to the runs after whose ends its own was made."""

    _reads: Callable[[], Reads | None] | None = None
    _parents: Sequence[ParentResult] | None = None

    @property
    def run_id(self) -> str:
        """Return the run."""
        raise NotImplementedError

    def parents(self) -> Sequence[ParentResult]:
        """Return the runs after whose ends this one was made, with their results; all of them for a join.

        There are none for a run that was requested. Raises `StoreError`.
        """
        if self._parents is None:
            self._parents = done(self._read(self._ways().blocking("`await task.aparents()`")))
        return self._parents

    async def aparents(self) -> Sequence[ParentResult]:
        """Return the runs after whose ends this one was made, and hold up no event loop: see `parents`."""
        if self._parents is None:
            self._parents = await self._read(self._ways().awaiting)
        return self._parents

    def parent_result(self, job: str | None = None) -> Any:
        """Return the result of the parent, or in a join of the parent `job`; without one a dict of them, by job.

        Raises `InvalidInput` for a job after which this run was not made, and `Refused` for a result beyond 1 MiB.
        """
        return result_in(self.parents(), job)

    async def aparent_result(self, job: str | None = None) -> Any:
        """Return the result of the parent, and hold up no event loop: see `parent_result`."""
        return result_in(await self.aparents(), job)

    def _ways(self) -> Reads:
        reads = None if self._reads is None else self._reads()
        if reads is None:
            raise Refused("this task can't read of its parents: no app has begun it", allowed="a function of an app")
        return reads

    async def _read(self, way: Way) -> Sequence[ParentResult]:
        async def read(client: AsyncClient) -> Sequence[ParentResult]:
            found = await client.runs.parents(self.run_id)
            values = [None if each.result is None else value_of(each.result) for each in found]
            return tuple(
                ParentResult(each.job_id, each.id, each.state.value, value, each.left_out)
                for each, value in zip(found, values, strict=True)
            )

        return await way(read)


def result_in(parents: Sequence[ParentResult], job: str | None) -> Any:
    """Return the result of the only parent, or of the newest run of the parent `job`; else all, by job."""
    by_job = {each.job_id: each for each in parents}
    if job is not None and job not in by_job:
        allowed = f"one of {', '.join(by_job)}" if by_job else "nothing: this run has no parents"
        raise InvalidInput(f"job: {job!r} is no parent of this run", field="job", value=job, allowed=allowed)
    if job is None and len(parents) != 1:
        return {name: each.result for name, each in by_job.items()} or None
    found = parents[0] if job is None else by_job[job]
    if found.left_out is not None:
        raise Refused(f"the result of run {found.run_id} is not here", field="job", value=job, allowed=found.left_out)
    return found.result
