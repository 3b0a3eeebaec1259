"""Notices of changes between nodes: the common part of all stores with a channel for them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial, wraps
from itertools import islice
from time import monotonic
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, Self, TypeVar

from tokimori.errors import StoreError
from tokimori.model.document import Document
from tokimori.model.ids import RunId
from tokimori.stores.rules.errors import overtaken

INTERVAL = 0.01
"""Seconds between notices, at least."""
EXPECTED, ENDED = "?", "!"
"""Begin the words of a notice about runs: their ends are waited for, or they have ended. Others have no words."""
MOST_IDS = 200
"""Runs that one notice names: PostgreSQL takes 8,000 bytes."""
REMEMBERED, MOST_EXPECTED = 30.0, 100_000
"""Seconds for which the end of a run is expected, unless it is asked again, and how many such runs are remembered."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before a lost connection is opened again."""

P = ParamSpec("P")
T = TypeVar("T")
Send = Callable[[str], Awaitable[object]]
"""Sends a notice with these words."""
Wake = Callable[[], None]
OnNotice = Callable[[str], None]
OnEnds = Callable[[Sequence[RunId]], None]


class Watched(Protocol):
    """Store that notifies its watchers of changes."""

    def send_notice(self) -> None:
        """Send a notice that something has changed."""
        ...


S = TypeVar("S", bound=Watched)


def with_notice(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the same method of a store, which sends a notice after the change."""

    @wraps(method)
    async def call(store: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = await method(store, *args, **kwargs)
        store.send_notice()
        return result

    return call


class Sender:
    """Sender of notices, several of them as one. A notice that can't be sent is dropped.

    Notices about runs are sent at once, and those of changes at most so often.
    """

    def __init__(self, send: Send) -> None:
        self._send_now = send
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unsent: dict[str, dict[RunId, None]] = {}

    def send(self, kind: str = "", ids: Iterable[RunId] = ()) -> None:
        """Notify the others soon."""
        self._unsent.setdefault(kind, {}).update(dict.fromkeys(ids))
        if (task := self._tasks.get(kind)) is None or task.done():
            self._tasks[kind] = asyncio.get_running_loop().create_task(self._send(kind), name="tokimori-store-notices")

    async def _send(self, kind: str) -> None:
        while (ids := self._unsent.pop(kind, None)) is not None:
            try:
                for words in _words(kind, list(ids)):
                    await self._send_now(words)
            except StoreError:
                return
            await asyncio.sleep(0 if kind else INTERVAL)

    async def close(self) -> None:
        """Send the pending notices."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())


def _words(kind: str, ids: Sequence[RunId]) -> Iterable[str]:
    """Return the texts of notices that name these runs, at most `MOST_IDS` in each."""
    return [kind + ",".join(ids[first : first + MOST_IDS]) for first in range(0, max(1, len(ids)), MOST_IDS)]


class NoticeListener:
    """Listener for notices of others. If the connection is lost, or can't be opened, it tries again.

    `listen` opens a connection, which may raise `StoreError`, and returns when it is lost.
    """

    def __init__(self, listen: Callable[[], Awaitable[None]]) -> None:
        self._listen_to = listen
        self._task = asyncio.get_running_loop().create_task(self._run(), name="tokimori-store-listener")

    async def close(self) -> None:
        """Stop listening."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with suppress(StoreError):
                await self._listen_to()
                pause = FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class Notices:
    """Notices of changes to watchers of a store: to those of this program at once, to other nodes soon.

    `send` sends a notice to other nodes, if the server can; `listen`, if it can, calls its argument for each notice of
    theirs, as for a `NoticeListener`. A run costs a notice at its end only if somebody expects it.
    """

    def __init__(self, send: Send | None = None, listen: Callable[[OnNotice], Awaitable[None]] | None = None) -> None:
        self._sender = None if send is None else Sender(send)
        self._listen_to = listen
        self._listener: NoticeListener | None = None
        self._watchers: list[Wake] = []
        self._listeners: dict[OnEnds, None] = {}
        self._expected: dict[RunId, float] = {}

    def watch(self, wake: Wake) -> None:
        """Call `wake` for each change from now on."""
        self._watchers.append(wake)
        self._listen()

    def _listen(self) -> None:
        if self._listener is None and self._listen_to is not None:
            self._listener = NoticeListener(partial(self._listen_to, self._receive_words))

    def _receive_words(self, words: str) -> None:
        ids = [RunId(each) for each in words[1:].split(",")]
        if words.startswith(EXPECTED):
            self._expect(ids)
        elif words.startswith(ENDED):
            self._call_listeners(ids)
        else:
            self.wake()

    def expect(self, run_ids: Sequence[RunId], on_ends: OnEnds) -> bool:
        """Have `on_ends` called with those of these runs that end; return if notices come from other nodes.

        It is only a hint, and holds for `REMEMBERED` seconds.
        """
        if self._listen_to is None or self._sender is None:
            return False
        self._listen()
        self._listeners[on_ends] = None
        self._expect(run_ids)
        self._sender.send(EXPECTED, run_ids)
        return True

    def _expect(self, run_ids: Iterable[RunId]) -> None:
        now = monotonic()
        for run_id in run_ids:
            self._expected.pop(run_id, None)
            self._expected[run_id] = now + REMEMBERED
        too_many = len(self._expected) - MOST_EXPECTED
        for place, (run_id, until) in enumerate(list(islice(self._expected.items(), max(MOST_IDS, too_many)))):
            if until < now or place < too_many:
                del self._expected[run_id]

    def ended(self, run_ids: Iterable[RunId]) -> None:
        """Notify those who wait for the end of one of these runs."""
        if self._expected and (found := [each for each in run_ids if self._expected.pop(each, None) is not None]):
            self.send_ends(found)

    def send_ends(self, run_ids: Sequence[RunId]) -> None:
        """Notify all who may wait for the end of one of these runs, which have perhaps ended."""
        self._call_listeners(run_ids)
        if self._sender is not None:
            self._sender.send(ENDED, run_ids)

    def _call_listeners(self, run_ids: Sequence[RunId]) -> None:
        for on_ends in tuple(self._listeners):
            on_ends(run_ids)

    def wake(self) -> None:
        """Wake the watchers of this program."""
        for wake in self._watchers:
            wake()

    def send_to_others(self) -> None:
        """Notify the other nodes."""
        if self._sender is not None:
            self._sender.send()

    def send_notice(self) -> None:
        """Notify all watchers, this program's included: requests of people are news here, too."""
        self.wake()
        self.send_to_others()

    async def close(self) -> None:
        """Stop listening, and send the pending notice."""
        if self._listener is not None:
            await self._listener.close()
        self._listener = None
        if self._sender is not None:
            await self._sender.close()


class Shut(NamedTuple):
    """Document that forbids changes while it exists, and the error for a caller that tries."""

    document: Document
    error: Callable[[], StoreError]


class Guarded:
    """Store, or connections with a server, that check `guard` and `shut`, if set, in each transaction.

    If a check costs a round trip, one for `shut` holds for `looks_every` seconds.
    """

    looks_every = 0.0
    guard: Document | None = None
    shut: Shut | None = None

    def under(self, guard: Document) -> Self:
        """See `Store.under`."""
        other = copy(self)
        other.guard = guard
        return other

    def shut_while(self, document: Document, error: Callable[[], StoreError]) -> None:
        """See `Store.shut_while`."""
        self.shut = Shut(document, error)

    def check(self, holds: Callable[[Document], object]) -> None:
        """Check if the documents allow a change. Raises `Overtaken` and `StoreError`."""
        if self.guard is not None and not holds(self.guard):
            raise overtaken(self.guard)
        if self.shut is not None and holds(self.shut.document):
            raise self.shut.error()
