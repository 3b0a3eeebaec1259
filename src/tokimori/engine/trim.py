"""Trim streams: entries that are too old, or too many in their topic, are deleted, oldest first, some at a time.

Uploads of builds that nobody has finished in time go, too.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile

from msgspec import Struct

from tokimori.clock import DAY, Moment
from tokimori.engine.streams import Streams
from tokimori.errors import Conflict
from tokimori.model import message, order, request
from tokimori.model.build import UPLOAD, UPLOAD_KEPT, UPLOADED
from tokimori.model.document import Document, new_version
from tokimori.model.ids import NodeId, RandomBytes
from tokimori.model.stream import OPENING, behind_topic, entry_name, moment_in, prefix_of, split_name
from tokimori.ports.documents import Documents

EVERY = 900.0
"""Seconds from one round to the next, give or take a half by chance: nodes do not trim at the same time."""
PAUSE = 0.05
"""Seconds to the next step of a round."""
BATCH = 20
"""Documents that one step reads of a topic, and deletes at most, each in a transaction of its own."""
TOPICS = 10
"""Topics that one step looks at: most need no trim, and there may be 100,000."""
ORDERS_KEPT, MOST_ORDERS = 7, 10_000
"""Days for which orders are kept, and how many at most: nodes read them within seconds."""
FORGOTTEN = 90
"""Days without an acknowledgement after which a subscriber is forgotten."""


class StreamRetention(Struct, frozen=True, kw_only=True):
    """For how many days entries of a kind are kept, and how many of one topic; by default those of messages."""

    kind: str = message.KIND
    days: int = 7
    most: int = 10_000


class Trimmer:
    """Duty to trim all topics, subscribers, uploads and keys of requests, round by round.

    `messages`: for how long, and how many, messages of channels are kept.
    """

    def __init__(
        self,
        store: Documents,
        at: float,
        chance: Callable[[], float],
        random: RandomBytes,
        messages: StreamRetention,
    ) -> None:
        self._store = store
        self._chance = chance
        self._random = random
        self._kinds = (
            messages,
            StreamRetention(kind=order.KIND, days=ORDERS_KEPT, most=MOST_ORDERS),
        )
        self._place: tuple[int, str] = (0, "")
        """The next kind, and the name behind which it continues."""
        self.next_at = at + EVERY

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. Trim the next few topics until one had something to trim, or look at a page of the rest."""
        if at < self.next_at:
            return False
        self.next_at = at + EVERY  # if the store fails, the next step goes on from the same place
        which, after = self._place
        if which < len(self._kinds):
            behind = await self._trim_some(self._kinds[which], after, now)
        else:
            rest = (self._forget_some, self._drop_some, self._drop_keys)
            behind = await rest[which - len(self._kinds)](after, now)
        self._place = (which + 1, "") if behind is None else (which, behind)
        if self._place[0] > len(self._kinds) + 2:
            self._place = (0, "")
            self.next_at = at + EVERY * (0.5 + self._chance())
        else:
            self.next_at = at + PAUSE
        return False

    async def _trim_some(self, kept: StreamRetention, after: str, now: Moment) -> str | None:
        """Trim one of the next topics. Return the name after which to go on, or None after the last topic."""
        for _ in range(TOPICS):
            first = await self._store.list_documents(kept.kind, after=after, limit=1)
            if not first:
                return None
            topic, _ = split_name(first[0].name)
            if await self._trim(kept, topic, now):
                return after
            after = behind_topic(topic)
        return after

    async def _trim(self, kept: StreamRetention, topic: str, now: Moment) -> bool:
        """Trim the topic a little; return if there may be more to trim."""
        page = await self._store.list_documents(kept.kind, prefix=prefix_of(topic), limit=BATCH)
        opening = next((each for each in page if each.name == entry_name(topic, OPENING)), None)
        entries = [each for each in page if each is not opening]
        if not entries:
            return opening is not None and not await self._is_followed(topic) and await self._delete([opening])
        gone = await self._expired(kept, topic, entries, now)
        if not gone or not await self._open_behind(kept, topic, opening, _number(gone[-1])):
            return False
        return await self._delete(gone)

    async def _expired(
        self, kept: StreamRetention, topic: str, entries: Sequence[Document], now: Moment
    ) -> Sequence[Document]:
        """Return the first entries of a topic: those that are too old or unreadable, or beyond the number to keep."""
        before = Moment(now - kept.days * DAY)
        old = list(takewhile(lambda each: (moment_in(each.text) or 0) < before, entries)) if kept.days else []
        newest = await self._newest(kept, topic, _number(entries[0]))
        many = [each for each in entries if _number(each) <= newest - kept.most]
        return max(old, many, key=len)

    async def _newest(self, kept: StreamRetention, topic: str, number: int) -> int:
        """Return the newest number of a topic with more entries than are kept, else that of the opening."""
        far = entry_name(topic, number + kept.most - 1)
        if not await self._store.list_documents(kept.kind, prefix=prefix_of(topic), after=far, limit=1):
            return OPENING
        return await Streams(self._store, kept.kind, self._random).newest(topic, number)

    async def _is_followed(self, topic: str) -> bool:
        """Return if a subscriber has a position in the topic. If numbers began anew he would miss entries."""
        return bool(await self._store.list_documents(message.SUBSCRIBER_KIND, prefix=prefix_of(topic), limit=1))

    async def _forget_some(self, after: str, now: Moment) -> str | None:
        page = await self._store.list_documents(message.SUBSCRIBER_KIND, after=after, limit=BATCH)
        before = Moment(now - FORGOTTEN * DAY)
        await self._delete([each for each in page if (moment_in(each.text) or now) < before])
        return page[-1].name if len(page) == BATCH else None

    async def _drop_some(self, after: str, now: Moment) -> str | None:
        """Delete the next upload that is too old, its pieces first. Return the name after which to go on."""
        for each in await self._store.list_documents(UPLOAD, after=after, limit=1):
            if (moment_in(each.text) or 0) >= now - UPLOAD_KEPT:
                return each.name
            pieces = await self._store.list_documents(UPLOADED, prefix=f"{each.name}.", limit=BATCH)
            await self._delete(pieces or [each])
            return after
        return None

    async def _drop_keys(self, after: str, now: Moment) -> str | None:
        """Delete old requests with a key, a page of them. Return the name after which to go on."""
        page = await self._store.list_documents(request.KIND, after=after, limit=BATCH)
        await self._delete([each for each in page if (moment_in(each.text) or 0) < now - request.KEPT])
        return page[-1].name if len(page) == BATCH else None

    async def _open_behind(self, kept: StreamRetention, topic: str, opening: Document | None, number: int) -> bool:
        """Store that the topic continues after that number, before older entries are deleted; return if it is stored.

        So a reader that is up to date misses no number, and a frozen writer puts no entry before it.
        """
        name, version, replaces = entry_name(topic, OPENING), new_version(self._random), None
        if opening is not None:
            number, version, replaces = max(number, int(opening.text)), opening.version + 1, opening.version
        with suppress(Conflict):
            document = Document(kind=kept.kind, name=name, text=str(number), version=version)
            await self._store.put_document(document, replaces)
            return True
        return False

    async def _delete(self, gone: Sequence[Document]) -> bool:
        """Delete them in order, up to one that has changed; return if all were deleted."""
        with suppress(Conflict):
            for each in gone:
                await self._store.delete_document(each.kind, each.name, each.version)
            return True
        return False


def _number(entry: Document) -> int:
    return split_name(entry.name)[1]
