"""Trim streams: entries that are too old, or too many in their topic, are deleted, oldest first, some at a time."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from tokimori.clock import DAY, Moment
from tokimori.engine.streams import Streams
from tokimori.errors import Conflict
from tokimori.model import message, order, subscriber
from tokimori.model.document import Document
from tokimori.model.ids import NodeId, RandomBytes
from tokimori.model.stream import OPENING, behind_topic, decode_entry, entry_name, prefix_of, split_name
from tokimori.model.subscriber import decode_subscriber
from tokimori.ports.documents import Documents
from tokimori.ports.nodes import Pulse

EVERY = 900.0
"""Seconds from one round to the next, give or take a half by chance: nodes do not trim at the same time."""
PAUSE = 0.05
"""Seconds to the next step of a round."""
BATCH = 20
"""So many documents one step reads, and deletes at most, each in a transaction of its own."""
ORDERS_KEPT, MOST_ORDERS = 7, 10_000
"""Days for which orders are kept, and how many at most: nodes hear them within seconds."""
FORGOTTEN = 90
"""Days after which a subscriber that acknowledged nothing is forgotten."""


class Kept(Struct, frozen=True, kw_only=True):
    """For how many days entries of a kind are kept, and how many of one topic."""

    kind: str
    days: int
    most: int


class Trimmer:
    """Goes through all topics, round by round, and through subscribers. `messages`: days and most; others are fixed."""

    def __init__(
        self,
        store: Documents,
        at: float,
        chance: Callable[[], float],
        random: RandomBytes,
        *,
        days: int,
        most: int,
    ) -> None:
        self._store = store
        self._chance = chance
        self._random = random
        self._kinds = (
            Kept(kind=message.KIND, days=days, most=most),
            Kept(kind=order.KIND, days=ORDERS_KEPT, most=MOST_ORDERS),
        )
        self._place: tuple[int, str] = (0, "")
        """Which kind comes next, and from which name on."""
        self.next_at = at + EVERY

    def hear(self, pulse: Pulse) -> None:
        """See `Duty`. Nothing concerns it."""

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. One topic, or a page of subscribers."""
        if at < self.next_at:
            return False
        self.next_at = at + EVERY  # where the store fails, it begins later where it was
        which, after = self._place
        if which < len(self._kinds):
            behind = await self._trim_one(self._kinds[which], after, now)
        else:
            behind = await self._forget_some(after, now)
        self._place = (which + 1, "") if behind is None else (which, behind)
        if self._place[0] > len(self._kinds):
            self._place = (0, "")
            self.next_at = at + EVERY * (0.5 + self._chance())
        else:
            self.next_at = at + PAUSE
        return False

    async def _trim_one(self, kept: Kept, after: str, now: Moment) -> str | None:
        """Trim the first topic behind that name a little; where to go on. None: there is none."""
        first = await self._store.list_documents(kept.kind, after=after, limit=1)
        if not first:
            return None
        topic, number = split_name(first[0].name)
        page = await self._store.list_documents(kept.kind, prefix=prefix_of(topic), limit=BATCH)
        newest = await self._newest(kept, topic, number)
        before = Moment(now - kept.days * DAY)
        old = _too_old(page, before) if kept.days else []
        many = [each for each in page if split_name(each.name)[1] <= newest - kept.most]
        gone = max(old, many, key=len)
        is_all = await self._delete(gone)
        return after if len(gone) == BATCH and is_all else behind_topic(topic)

    async def _newest(self, kept: Kept, topic: str, number: int) -> int:
        """The newest of a topic that may have too many entries; of others it does not matter."""
        far = entry_name(topic, number + kept.most - 1)
        if number != OPENING and not await self._store.list_documents(
            kept.kind, prefix=prefix_of(topic), after=far, limit=1
        ):
            return OPENING
        return await Streams(self._store, kept.kind, self._random).newest(topic, number)

    async def _forget_some(self, after: str, now: Moment) -> str | None:
        page = await self._store.list_documents(subscriber.KIND, after=after, limit=BATCH)
        before = Moment(now - FORGOTTEN * DAY)
        await self._delete([each for each in page if decode_subscriber(each.text).at < before])
        return page[-1].name if len(page) == BATCH else None

    async def _delete(self, gone: Sequence[Document]) -> bool:
        """Delete them in order, up to one that is another by now; whether that were all."""
        with suppress(Conflict):
            for each in gone:
                await self._store.delete_document(each.kind, each.name, each.version)
            return True
        return False


def _too_old(page: Sequence[Document], before: Moment) -> Sequence[Document]:
    """The first ones that were appended before that moment; what opens a topic goes with the entry behind it."""
    count = 0
    for place, each in enumerate(page):
        if split_name(each.name)[1] == OPENING:
            continue
        if decode_entry(each.text).at >= before:
            break
        count = place + 1
    return page[:count]
