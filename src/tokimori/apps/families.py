"""Families of single runs: requests that follow each other, made at once, and a handle for each."""

import logging
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

from tokimori.apps.clients import Ways, named_elsewhere
from tokimori.apps.family_handles import Handles, StepHandle
from tokimori.apps.handle import Handle
from tokimori.apps.task import End, Finished, task_in_hand
from tokimori.client.asynchronous import Act, Way
from tokimori.client.facade import done
from tokimori.clock import Moment, from_datetime
from tokimori.errors import InvalidInput, NotFound, Refused, StoreError, TokimoriError
from tokimori.model.ids import JobId, RunId, uuid7
from tokimori.model.outcome import Failed, Spawns, spawns_of
from tokimori.model.run import Step
from tokimori.service.validation import payload_of
from tokimori.service.views.runs import Run

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_U = TypeVar("_U")
MOST_RUNS = 500
"""Runs of a family: those that begin at once are made in one transaction."""


class Requested(Protocol):
    """A function that is requested, as its family knows it."""

    job_id: JobId

    @property
    def _ways(self) -> Ways:
        """Return the ways to the client of its app."""
        ...

    def result_of(self, run: Run) -> Any:
        """Return the result of a run."""
        ...

    def _check_request(self, number: int, request: object) -> None:
        """Refuse a request with arguments that the function would not take."""
        ...

    def _transaction(self) -> object:
        """Return a connection in whose transaction it is to be requested; None: in none."""
        ...

    async def _meet(self, way: Way) -> None:
        """Check that its job is not another app's. Raises `Refused`."""
        ...

    async def _known(self, way: Way, job_id: str) -> None:
        """Declare the job, if no node has done so yet."""
        ...


class FamilyEdge(NamedTuple):
    """A request that follows another one, by their places."""

    before: int
    after: int
    on_failure: bool
    joins: int


class Member(ABC, Generic[_T]):
    """A request, or some that follow each other."""

    @abstractmethod
    def family(self) -> "RunFamily[_T]":
        """Return it as a family."""


def _most_steps(edges: Sequence[FamilyEdge]) -> int:
    """Return the largest number of steps that one run carries, as `_steps` writes them."""
    steps = Counter[int]()
    for edge in sorted(edges, key=lambda edge: edge.before, reverse=True):
        steps[edge.before] += 1 + steps[edge.after]
    return max(steps.values(), default=0)


class RunFamily(Member[_T]):
    """Requests that follow each other: the run of each is made when those before it have succeeded.

    T is the result of the last one; of `tokimori.all` it is the list of all results.
    """

    def __init__(
        self,
        requests: Sequence["FunctionRequest[Any]"],
        edges: Sequence[FamilyEdge] = (),
        last: Sequence[int] = (0,),
        failing: frozenset[int] = frozenset(),
    ) -> None:
        if len(requests) > MOST_RUNS:
            message, allowed = f"requests: a family of {len(requests)} runs", f"at most {MOST_RUNS}"
            raise InvalidInput(message, field="requests", value=len(requests), allowed=allowed)
        if (steps := _most_steps(edges)) > MOST_RUNS:
            message = f"requests: {steps} steps follow one run: a run counts once for each way that leads to it"
            raise InvalidInput(message, field="requests", value=steps, allowed=f"at most {MOST_RUNS}")
        self._requests, self._edges, self._last, self._failing = requests, edges, last, failing

    def family(self) -> "RunFamily[_T]":
        """Return this family."""
        return self

    def then(self, following: Member[_U]) -> "RunFamily[_U]":
        """Return the family with these runs behind its last one: `a.request(1).then(b.request())`.

        A request without arguments gets the result of the run before it; behind `tokimori.all` the list of results.
        """
        other = _family_of(following)
        joins = len(self._last) if len(self._last) > 1 else 0
        edges = [FamilyEdge(last, self._size + first, False, joins) for last in self._last for first in other._first()]
        return self._with(other, edges, [self._size + each for each in other._last], frozenset())

    def on_failure(self, following: Member[Any]) -> "RunFamily[_T]":
        """Return the family with these runs for the case that one of its own fails: they are made once."""
        other = _family_of(following)
        own = [each for each in range(self._size) if each not in self._failing]
        edges = [FamilyEdge(each, self._size + first, True, 0) for each in own for first in other._first()]
        return self._with(other, edges, self._last, frozenset(range(self._size, self._size + other._size)))

    def enqueue(self) -> "Handles[_T]":
        """Request the whole family, and return a handle for each run, in the order of the requests."""
        return done(self._enqueue(self._ways.blocking("`await family.aenqueue()`")))

    async def aenqueue(self) -> "Handles[_T]":
        """Request the whole family, and hold up no event loop: see `enqueue`."""
        return await self._enqueue(self._ways.awaiting)

    @property
    def _size(self) -> int:
        return len(self._requests)

    @property
    def _ways(self) -> Ways:
        return self._requests[0].function._ways

    def _first(self) -> list[int]:
        after = {edge.after for edge in self._edges}
        return [each for each in range(self._size) if each not in after]

    def _with(
        self, other: "RunFamily[Any]", edges: Sequence[FamilyEdge], last: Sequence[int], failing: frozenset[int]
    ) -> "RunFamily[Any]":
        size = self._size
        moved = [FamilyEdge(size + edge.before, size + edge.after, *edge[2:]) for edge in other._edges]
        failing |= self._failing | {size + each for each in other._failing}
        return RunFamily([*self._requests, *other._requests], [*self._edges, *moved, *edges], last, failing)

    def _steps(self, ids: Mapping[int, RunId], before: int) -> tuple[Step, ...]:
        steps = []
        for edge in (edge for edge in self._edges if edge.before == before):
            request = self._requests[edge.after]
            steps.append(
                Step(
                    id=ids[edge.after],
                    job=request.function.job_id,
                    payload=request.payload,
                    on_failure=edge.on_failure,
                    joins=edge.joins,
                    then=self._steps(ids, edge.after),
                )
            )
        return tuple(steps)

    async def _enqueue(self, way: Way) -> "Handles[_T]":
        if self._requests[0].function._transaction() is not None:
            message = "a family can't be requested in a transaction of your own"
            raise Refused(message, allowed="a request behind its end, such as `transaction.on_commit(family.enqueue)`")
        first = self._first()
        later = [each for each in range(self._size) if each not in first]
        for number in first:
            self._requests[number].function._check_request(number, self._requests[number])
        for number in later:
            self._requests[number].check_alone()
        ids = dict[int, RunId]()
        if later:  # by the store's time: this machine's clock may be wrong
            now = from_datetime(await way(lambda client: client.db.now()))
            ids = {each: RunId(uuid7(Moment(now + place), os.urandom)) for place, each in enumerate(later)}
        roots = await self._request(way, first, ids)
        handles: dict[int, Handle[Any]] = {
            each: Handle(self._ways, run, self._requests[each].function.result_of) for each, run in roots.items()
        }
        for each in later:
            before = [(handles[edge.before], edge.on_failure) for edge in self._edges if edge.after == each]
            handles[each] = StepHandle(self._ways, ids[each], self._requests[each].function.result_of, before)
        return Handles([handles[each] for each in range(self._size)], [handles[each] for each in self._last])

    async def _request(self, way: Way, first: Sequence[int], ids: Mapping[int, RunId]) -> dict[int, Run]:
        """Request the runs that begin the family; those of one job together. If some are refused there are none."""
        made: dict[int, Run] = {}
        for job_id, group in groupby(first, key=lambda each: self._requests[each].function.job_id):
            numbers = list(group)
            wanted = [{**self._requests[each], "then": self._steps(ids, each)} for each in numbers]
            try:
                made |= zip(numbers, await self._trigger(way, job_id, wanted), strict=True)
            except TokimoriError:
                for run in made.values():
                    await way(_cancel(run))
                raise
        return made

    async def _trigger(self, way: Way, job_id: JobId, wanted: Sequence[Any]) -> Sequence[Run]:
        task = task_in_hand()
        parent = None if task is None else task.run_id
        jobs = {str(request.function.job_id): request.function for request in self._requests}
        for function in jobs.values():
            await function._meet(way)
        for _ in range(len(jobs) + 1):
            try:
                return await way(lambda client: client.jobs.trigger_many(job_id, wanted, parent=parent))
            except NotFound as missing:
                if (named := jobs.pop(str(missing.value), None)) is None:
                    raise
                await named._known(way, named.job_id)
        raise NotFound(f"there is no job {job_id!r}", field="id", value=job_id)


def _cancel(run: Run) -> Act[Run]:
    return lambda client: client.runs.cancel(run.id, "not all of its family could be requested")


class FunctionRequest(dict[str, Any], Member[_T]):
    """A request for a run of a function: one of many for `enqueue_many`, or a member of a family."""

    def __init__(
        self, function: Requested, said: Mapping[str, Any], how: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        super().__init__(said)
        self.function, self._how = function, how

    if not TYPE_CHECKING:  # or every name would be one
        __getattr__ = named_elsewhere(
            dict.fromkeys(("enqueue", "aenqueue", "delay", "apply_async"), "fn.enqueue(…) or fn.enqueue_many([…])")
        )

    @property
    def payload(self) -> str | None:
        """Return its payload as JSON."""
        return payload_of(self.get("payload"))

    def family(self) -> RunFamily[_T]:
        """Return a family of this request alone."""
        return RunFamily([self])

    def then(self, following: Member[_U]) -> RunFamily[_U]:
        """Return a family of two: the second run gets the result of this one. See `RunFamily.then`."""
        return self.family().then(following)

    def on_failure(self, following: Member[Any]) -> RunFamily[_T]:
        """Return a family of two: the second run is made if this one fails."""
        return self.family().on_failure(following)

    def check_alone(self) -> None:
        """Refuse terms that are not allowed for a run that follows others. Raises `InvalidInput`."""
        for name, value in self._how.items():
            message = f"{name}: a run that follows others begins when these have ended, with the terms of its job"
            raise InvalidInput(message, field=name, value=value, allowed="the arguments alone")


def _family_of(given: Any) -> RunFamily[Any]:
    """Return the family of a request. Raises `InvalidInput` for what is none, such as a handle."""
    if isinstance(given, Member):
        return given.family()
    message, allowed = f"requests: {given!r} is no request", "requests, such as `fn.request(1)`, which are not enqueued"
    raise InvalidInput(message, field="requests", value=given, allowed=allowed)


def _listed(requests: object) -> Iterable[object]:
    """Return the requests; a single one is a dictionary. Raises `InvalidInput` for what is no iterable of them."""
    if isinstance(requests, Iterable) and not isinstance(requests, str | Mapping):
        return requests
    message, allowed = f"requests: {requests!r} is no list of requests", "a list, such as `[fn.request(1)]`"
    raise InvalidInput(message, field="requests", value=requests, allowed=allowed)


def all_of(requests: Iterable[Member[_T]]) -> RunFamily[list[_T]]:
    """Return a family of requests that run beside each other: requests that follow it wait for all of them.

        tokimori.all([count.request(name) for name in names]).then(total.request()).enqueue()

    A request behind it without arguments gets the list of their results, in this order. Raises `InvalidInput`.
    """
    whole: RunFamily[Any] | None = None
    for family in map(_family_of, _listed(requests)):
        whole = (
            family
            if whole is None
            else whole._with(family, [], [*whole._last, *(whole._size + each for each in family._last)], frozenset())
        )
    if whole is None:
        raise InvalidInput("requests: there are none", field="requests", allowed="one request or more")
    return cast("RunFamily[list[_T]]", whole)


def spawn(requests: Iterable[FunctionRequest[_T]]) -> list[_T]:
    """Return a value for a function to return: its run waits for these runs, and has the list of their results.

        @app.job
        def pages(books: list[str]) -> list[int]:
            return tokimori.spawn([count.request(book) for book in books])

    They are made when the function ends, all or none; until they have ended its run is `waiting`. It has succeeded when
    all have, and failed if one has not. It fails, and none is made, if a job is that of another app. At most 10,000;
    without requests the list is empty. Raises `InvalidInput`.
    """
    given: list[tuple[str, str | None]] = []
    functions: dict[JobId, Requested] = {}
    for number, each in enumerate(_listed(requests)):
        if not isinstance(each, FunctionRequest):
            message, allowed = f"requests: {each!r} can't be spawned", "single requests, such as `fn.request(1)`"
            raise InvalidInput(message, field="requests", value=each, allowed=allowed)
        each.function._check_request(number, each)
        each.check_alone()
        given.append((each.function.job_id, each.payload))
        functions[each.function.job_id] = each.function
    return cast("list[_T]", SpawnsOfFunctions(spawns_of(given).children, functions.values()) if given else [])


class SpawnsOfFunctions(Spawns):
    """Runs that a function spawns, and the functions that are to carry them out."""

    __slots__ = ("functions",)

    def __init__(self, children: tuple[tuple[JobId, str | None], ...], functions: Iterable[Requested]) -> None:
        super().__init__(children)
        self.functions = functions


async def own_spawns(end: End, *, blocks: bool) -> End:
    """Return this end of a function, or a failure if it spawns a run of a job that another app declares.

    If the store does not answer nothing is checked: the work of the function is done. `blocks`: on no event loop.
    """
    if type(end) is Finished and isinstance(end.result, SpawnsOfFunctions):
        try:
            for function in end.result.functions:
                await function._meet(function._ways.blocking("") if blocks else function._ways.awaiting)
        except Refused as fault:
            return Failed(f"spawn: {fault.message}; allowed: {fault.allowed}", final=True)
        except StoreError as fault:
            log.warning(
                "the store did not answer, so nothing checked that this app declares the jobs of the spawned runs: %s",
                fault,
            )
    return end
