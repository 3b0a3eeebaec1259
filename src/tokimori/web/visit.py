"""Visit: a request for a screen, with its reader, its query and its time."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.service.service import Service
from tokimori.web.addresses import address
from tokimori.web.cache import SHARE, AnswerCache
from tokimori.web.reader import Reader
from tokimori.web.words import Time, reread, time_of

MOST_CHARACTERS = 500
"""Characters of a filter in an address."""
_T = TypeVar("_T")
EACH_JOB = "job"
"""The choice of zone by which times are shown in the zone of each job."""


class Doubts(NamedTuple):
    """Faults that this node knows of. `causes`: a word, a text, and what only readers of all jobs may see.

    `promises` are those that the store can't keep.
    """

    causes: Sequence[tuple[str, str, str | None]] = ()
    promises: Sequence[str] = ()


class Visit(NamedTuple):
    """A request for a screen. `service` acts for the reader, and `parts` are the parameters of the path."""

    service: Service
    reader: Reader
    now: Moment
    path: str
    parts: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    host: str = ""
    kept: AnswerCache | None = None
    zone: str = ""
    """The chosen zone: empty for that of the service, `job` for that of each job."""
    part: str = ""
    """Set if the script asks for what may change, since all else stands there: the last line of a log that it has."""
    doubts: Doubts = Doubts()

    def one(self, name: str) -> str | None:
        """Return the last value of a parameter; None if it has none. Raises `InvalidInput` for one that is too long."""
        found = self.all(name)
        return found[-1] if found else None

    def all(self, name: str) -> list[str]:
        """Return all values of a parameter. Raises `InvalidInput` for one that is too long."""
        found = [text for each in self.query.get(name, ()) if (text := each.strip())]
        if long := next((each for each in found if len(each) > MOST_CHARACTERS), None):
            allowed = f"at most {MOST_CHARACTERS} characters"
            raise InvalidInput(f"{name}: it is too long", field=name, value=long[:100], allowed=allowed)
        return found

    @property
    def is_part(self) -> bool:
        """Return whether the browser asks only for the changing part."""
        return self.part != ""

    @property
    def here(self) -> str:
        """Return the address of this screen, with its filters."""
        return self.link()

    def link(self, **changes: str | int | Sequence[str] | None) -> str:
        """Return the address of this screen with other filters; None takes one away."""
        values: dict[str, object] = {**self.query, **changes}
        pairs = [
            (name, value)
            for name, given in values.items()
            for value in (given if isinstance(given, (list, tuple)) else [given])
        ]
        return address(quote(self.path), pairs)

    def match(self, *names: str) -> str:
        """Return the filters with these names as a query; only `?` for none."""
        return "?" + urlencode([(name, value) for name in names for value in self.all(name)])

    def zone_of(self, zone: str) -> str:
        """Return the zone in which the times of a job with this zone are shown."""
        return zone if self.zone == EACH_JOB else self.zone or self.service.time_zone

    async def lately(
        self, question: str, find: Callable[[], Awaitable[_T]], least: float = 0, share: int = SHARE
    ) -> _T:
        """Return the result of `find`, or a recent one of a reader who sees the same jobs: see `AnswerCache`."""
        key = (question, self.reader.access.scope)
        return await (find() if self.kept is None else self.kept.get(key, find, least, share))

    def time(self, moment: Moment, zone: str = "") -> Time:
        """Return the moment as it is shown; `zone` is that of its job."""
        return time_of(moment, self.zone_of(zone or self.service.time_zone), self.now)

    def reread(self, text: str) -> str:
        """Return a text of the service with its moments as they are shown."""
        return text if self.zone == EACH_JOB else reread(text, self.zone_of(""), self.now)
