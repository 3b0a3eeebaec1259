"""Notices: names of changed things, without their new states. One reader of the store serves all clients.

No transition writes a row for it. While somebody listens the board compares what the store lists four times a second
at most: the live runs, the ends and changes that were written, and the nodes.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import SECOND, Moment
from tokimori.errors import InvalidInput, NotFound, TokimoriError
from tokimori.model.audit import OF_A_JOB, Changed
from tokimori.model.expectation import ALARM_KIND, KIND, decode_expectation
from tokimori.model.ids import RandomBytes
from tokimori.model.notifier import is_notifier
from tokimori.model.run import Run
from tokimori.model.transitions import STANDING_STILL, RunState
from tokimori.ports.documents import Documents
from tokimori.ports.ends import EndedRun, Endings, EndPlace
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import RunFilter
from tokimori.service.events.feed import Stops, wake_all
from tokimori.service.events.trail import Trail
from tokimori.service.store_calls import Now
from tokimori.service.validation import few

log = logging.getLogger(__name__)

EVERY, IDLE = 0.25, 0.5
"""Seconds between two looks, and if nothing happens in a store that can't say so without being asked."""
_COST = 50
"""Factor by which the pause is longer than the last look: looks take two percent of the loop at most."""
NODES_EVERY = 2.0
RUNNING, STILL, PAGE = 500, 200, 500
"""Numbers of running runs, of the newest runs that do not run, and of ends read in one look."""
ALARMS = 200
"""Number of alarms looked at."""
MOST_IDS = 100
"""Number of things that a notice names; a notice of more names none."""
KEPT = 20_000
"""Number of changed things remembered: a reader who was away for longer reads everything again."""
_OVERLAP = SECOND
"""Ends and changes may appear so late (microseconds) behind others that were written after them."""
_POSITION = re.compile(r"([0-9a-f]{8})\.(\d{1,15})\Z", re.ASCII)
_NOUNS = frozenset(
    "calendar channel expectation job node notifier queue run secret semaphore set task token".split()  # noqa: SIM905
)


class Notice(Struct, frozen=True, kw_only=True):
    """Things of one noun (`runs`, `jobs`, …) that have changed, by id; without ids any of them may have."""

    noun: str
    ids: tuple[str, ...] = ()


class FoundNotices(Struct, frozen=True, kw_only=True):
    """Notices, one for each noun, and the position after which to go on.

    `reload`: some notices are forgotten, so read everything again. `over`: the node stops.
    """

    notices: tuple[Notice, ...]
    after: str
    reload: bool = False
    over: bool = False


class Item(NamedTuple):
    """One changed thing. `of` is the job or queue whose scope it needs; None: every caller may know of it."""

    noun: str
    id: str
    of: Run | EndedRun | Changed | None = None


Sees = Callable[[Item], Awaitable[bool]]
Wanted = Mapping[str, frozenset[str]]
"""The things whose notices somebody wants, by noun; the id "" means any."""


class NoticeStore(Documents, Endings, Protocol):
    """Questions of the board to the store."""

    async def list_runs(self, wanted: RunFilter) -> list[Run]:
        """See `Runs`."""
        ...

    async def list_nodes(self, *, limit: int = 1000) -> list[NodeRecord]:
        """See `Nodes`."""
        ...

    def mark(self) -> object:
        """See `Store`."""
        ...


class NoticeBoard:
    """The one reader of a store's changes, with the newest of them."""

    def __init__(self, store: NoticeStore, random: RandomBytes, *, now: Now, stops: Stops) -> None:
        self._store, self._now, self._stops = store, now, stops
        self._random, self._id = random, ""
        self._trail = Trail(store)
        self._found: deque[Sequence[Item]] = deque()
        self._end = self._kept = 0
        self._pending: list[Item] = []
        self._mark: object = None
        self._live: dict[str, Run] | None = None
        self._nodes: dict[str, str] = {}
        self._alarms: dict[str, int] = {}
        self._nodes_at = self._alarms_at = self._looked = float("-inf")
        self._ends, self._changes = _Written(), _Written()
        self._waiting: set[asyncio.Future[None]] = set()
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def read(self, after: str | None, seconds: float, sees: Sees, of: Wanted | None = None) -> FoundNotices:
        """Return the changes after a position, by default from now on. Wait for the first one for `seconds`.

        Raises `InvalidInput`, and `StoreError` if the store can't be asked at the beginning.
        """
        feed, number = self._place_of(after)
        if self._live is None or (self._task is None and _time() >= self._looked + EVERY):
            await asyncio.shield(asyncio.ensure_future(self._compare()))
        if after is None:
            number = self._end
        elif feed != self._id or not self._end - len(self._found) <= number <= self._end:
            return FoundNotices(notices=(), after=self._position(self._end), reload=True, over=self._stops())
        ends = _time() + seconds
        while True:
            place, items = self._end, [item for found in self._behind(number) for item in found]
            seen = [item for item in items if (of is None or item.noun in of) and await sees(item)]
            notices = notices_of(seen) if of is None else notices_for(of, seen)
            left = ends - _time()
            if notices or left <= 0 or self._stops():
                return FoundNotices(notices=notices, after=self._position(place), over=self._stops())
            number = place
            await self._wait(left)

    def _behind(self, number: int) -> Iterable[Sequence[Item]]:
        first = self._end - len(self._found)
        return (each for at, each in enumerate(self._found, first) if at >= number)

    def _position(self, number: int) -> str:
        return f"{self._id}.{number}"

    def _place_of(self, after: object) -> tuple[str, int]:
        found = _POSITION.match(after) if isinstance(after, str) else None
        if after is not None and found is None:
            allowed = "the position of a notice, such as a7570e74.3"
            message = f"after: {after!r} is no position of a notice"
            raise InvalidInput(message, field="after", value=after, allowed=allowed)
        return ("", 0) if found is None else (found[1], int(found[2]))

    async def _wait(self, seconds: float) -> None:
        news = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_again(), name="tokimori-notices")
        try:
            await asyncio.wait({news}, timeout=seconds)
        finally:
            self._waiting.discard(news)
            if not self._waiting and not self._looking.locked():  # a look that is cut would lose what it found
                self._task.cancel()
                self._task = None

    async def _look_again(self) -> None:
        """Read the store while a caller waits."""
        pause = EVERY
        while self._waiting and not self._stops():
            await asyncio.sleep(max(0.0, self._looked + pause - _time()))
            began, before = _time(), self._end
            try:
                await self._compare()
            except TokimoriError as fault:
                log.debug("notices are delayed: %s", fault)
            except Exception:
                log.exception("notices are delayed")
            if self._end != before:
                await wake_all(self._waiting)
            is_quiet = self._end == before and self._mark is None
            pause = max(IDLE if is_quiet else EVERY, _COST * (_time() - began))
        await wake_all(self._waiting)

    async def _compare(self) -> None:
        """Compare the store with the last reading. The first reading has nothing to compare with."""
        asked = _time()
        async with self._looking:
            if self._looked > asked and self._live is not None:  # another one has looked meanwhile
                return
            self._looked = _time()
            mark = self._store.mark()
            if mark is not None and mark == self._mark:
                return
            now = await self._now()
            if self._live is None:
                self._id = self._random(4).hex()
                self._ends.place = self._changes.place = Moment(max(0, now - _OVERLAP))
            is_first = self._live is None
            for ask in (self._changed, self._ended, self._moved, self._of_nodes, self._of_alarms):
                self._pending += await ask()
            found, self._pending, self._mark = bounded(self._pending), [], mark
            if found and not is_first:
                self._append(found)

    def _append(self, found: Sequence[Item]) -> None:
        self._found.append(found)
        self._end, self._kept = self._end + 1, self._kept + len(found)
        while self._kept > KEPT and len(self._found) > 1:
            self._kept -= len(self._found.popleft())

    async def _moved(self) -> list[Item]:
        """Return the runs that began, or whose state has changed."""
        running = RunFilter(states=frozenset({RunState.RUNNING}), limit=RUNNING, longest=0)
        still = RunFilter(states=STANDING_STILL, limit=STILL, longest=0)
        found = [*await self._store.list_runs(running), *await self._store.list_runs(still)]
        live: dict[str, Run] = {run.id: run for run in found}
        before, self._live = self._live or {}, live
        moved = [run for run in live.values() if _shown_state(run) != _shown_state(before.get(run.id))]
        gone = [run for run_id, run in before.items() if run_id not in live]
        return [item for run in (*moved, *gone) for item in _of_run(run)]

    async def _ended(self) -> list[Item]:
        ends = await self._store.ended_since(EndPlace(self._ends.place), PAGE)
        fresh = self._ends.fresh([(each.written, f"{each.id}.{each.state}") for each in ends.found])
        if ends.rest is not None:  # more than anybody can follow
            self._ends.place = await self._now()
            return [Item("runs", ""), Item("jobs", "")]
        return [item for each, new in zip(ends.found, fresh, strict=True) if new for item in _of_run(each)]

    async def _changed(self) -> list[Item]:
        trail = await self._trail.ended_since(EndPlace(self._changes.place), PAGE)
        fresh = self._changes.fresh([(each.written, each.id) for each in trail.found])
        found = [each for each, new in zip(trail.found, fresh, strict=True) if new]
        return [item for each in found for item in _of_change(each)]

    async def _of_nodes(self) -> list[Item]:
        if self._looked < self._nodes_at + NODES_EVERY:
            return []
        self._nodes_at = self._looked
        nodes: dict[str, str] = {node.id: str(node.state) for node in await self._store.list_nodes()}
        before, self._nodes = self._nodes, nodes
        changed = [each for each in nodes.keys() | before.keys() if nodes.get(each) != before.get(each)]
        return [Item("nodes", each) for each in sorted(changed)]

    async def _of_alarms(self) -> list[Item]:
        """Return the expectations that are overdue since the last look, or no more: time alone raises an alarm."""
        if self._looked < self._alarms_at + NODES_EVERY:
            return []
        self._alarms_at = self._looked
        alarms = {each.name: each.version for each in await self._store.list_documents(ALARM_KIND, limit=ALARMS)}
        before, self._alarms = self._alarms, alarms
        changed = [each for each in alarms.keys() | before.keys() if alarms.get(each) != before.get(each)]
        return [item for name in sorted(changed) for item in _of_change(await self._alarm(name))[:-1]]

    async def _alarm(self, name: str) -> Changed:
        """Return the change of an expectation that came with time, with the queue of its job."""
        queue = None
        with suppress(NotFound, ValueError):
            queue = decode_expectation((await self._store.get_document(KIND, name)).text).queue
        now = await self._now()
        of = Changed(id="", written=now, at=now, event="", kind="expectation", name=name, by=None, entry="")
        return of if queue is None else replace(of, queues=(queue,))


class _Written:
    """Place in an order of moments, with the items known from the second before it."""

    def __init__(self) -> None:
        self.place = Moment(0)
        self._known: dict[str, Moment] = {}

    def fresh(self, found: Sequence[tuple[Moment, str]]) -> list[bool]:
        """Return for each item whether it is new, and move the place after them."""
        new = [name not in self._known for _, name in found]
        newest = max((written for written, _ in found), default=self.place)
        self.place = max(self.place, Moment(newest - _OVERLAP))
        known = {**self._known, **{name: written for written, name in found}}
        self._known = {name: written for name, written in known.items() if written >= self.place}
        return new


def _time() -> float:
    return asyncio.get_running_loop().time()


def _shown_state(run: Run | None) -> object:
    if run is None:
        return None
    far = (run.details.progress, run.details.progress_text)
    return (run.state, run.attempt, run.due, run.cancel, run.lane, run.blocked_on, far)


def _of_run(run: Run | EndedRun) -> list[Item]:
    return [Item("runs", run.id, run), Item("jobs", run.job_id, run)]


def _of_change(change: Changed) -> list[Item]:
    named = [Item(f"{change.kind}s", change.name, change)] if change.kind in _NOUNS else []
    if change.kind in OF_A_JOB and change.kind != "job":
        named.append(Item("jobs", change.name, change))
    if is_notifier(change.name):
        named.append(Item("notifiers", change.name, change))
    return [*named, Item("audit", "", change)]


def bounded(items: Iterable[Item]) -> Sequence[Item]:
    """Return each changed thing once. A noun with too many changes gets one item without an id."""
    once: dict[str, dict[str, Item]] = {}
    for item in items:
        once.setdefault(item.noun, {})[item.id] = item
    return [
        each for noun, found in once.items() for each in ([Item(noun, "")] if len(found) > PAGE else found.values())
    ]


def notices_of(items: Iterable[Item]) -> tuple[Notice, ...]:
    """Return a notice for each noun."""
    ids: dict[str, dict[str, None]] = {}
    for item in items:
        ids.setdefault(item.noun, {})[item.id] = None
    return tuple(
        Notice(noun=noun, ids=() if "" in found or len(found) > MOST_IDS else tuple(found))
        for noun, found in ids.items()
    )


MOST_WANTED = 1_000
"""Things that one who listens may name."""


def wanted_of(things: object) -> Wanted | None:
    """Return the things by noun, of texts such as `runs` and `jobs/nightly`; of none all. Raises `InvalidInput`."""
    found: dict[str, set[str]] = {}
    for each in few("of", things, MOST_WANTED):
        noun, _, name = str(each).partition("/")
        if noun != "audit" and not (noun.endswith("s") and noun[:-1] in _NOUNS):
            nouns = ", ".join(f"{noun}s" for noun in sorted(_NOUNS))
            allowed = f"a noun, or a thing as NOUN/ID; nouns are audit, {nouns}"
            raise InvalidInput(f"of: there are no notices of {each!r}", field="of", value=each, allowed=allowed)
        found.setdefault(noun, set()).add(name)
    return {noun: frozenset(ids) for noun, ids in found.items()} or None


def notices_for(of: Wanted, items: Iterable[Item]) -> tuple[Notice, ...]:
    """Return a notice for each noun that is wanted, with those ids alone that are named there."""
    ids: dict[str, set[str]] = {}
    for item in items:
        named = {each for each in of[item.noun] if each and item.id in (each, "")}
        if named or "" in of[item.noun]:
            ids.setdefault(item.noun, set()).update(named)
    return tuple(Notice(noun=noun, ids=tuple(sorted(found))) for noun, found in ids.items())
