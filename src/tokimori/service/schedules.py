"""Schedules: texts that are explained, and what comes next of all jobs together."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import islice
from zoneinfo import ZoneInfo

from tokimori.clock import Moment, parse_moment
from tokimori.errors import InvalidInput
from tokimori.model.access_token import Role
from tokimori.model.calendar import decode_days_off
from tokimori.model.job import Job
from tokimori.model.words import check_text, check_word
from tokimori.schedules.business_days import Shift
from tokimori.schedules.explain import Explanation, explain
from tokimori.schedules.schedule import Fold, Gap
from tokimori.schedules.zones import check_zone
from tokimori.service.access import OPEN, Sight
from tokimori.service.calendars import CALENDARS, read_days_off
from tokimori.service.documents import Documents
from tokimori.service.jobs.reads import moments_of
from tokimori.service.operation import M, Part, operation
from tokimori.service.shared import Caller, Shared
from tokimori.service.validation import MOST_LISTED, When, checked, chosen, many, moment_of, zone_of
from tokimori.service.views.outside import list_of
from tokimori.service.views.schedules import Explanation as ExplanationView
from tokimori.service.views.schedules import Next

_EVER = parse_moment("9999-12-31T23:59:59Z")


class Schedules(Part[M]):
    """Schedules. Every operation may raise `StoreError`."""

    noun, word = "schedules", "schedule"

    def __init__(self, shared: Shared, caller: Caller) -> None:
        self._store, self._now, self._aside = shared.store, shared.now, shared.aside
        self._calendars = Documents(shared.store, CALENDARS, shared.random)
        self._caller = caller

    @operation(Role.READ, OPEN, gives=list_of(Next.made))
    async def upcoming(self, n: int = 20, after: When | None = None) -> Sequence[tuple[Job, Moment]]:
        """Return the next moments of all enabled jobs together, soonest first.

        Of over 1,000 such jobs only those are looked at that are due first.
        """
        wanted, start = checked("n", n, MOST_LISTED), await self._start(after, self._caller.time_zone)
        jobs = [due.job for due in await self._store.due(_EVER, MOST_LISTED)]

        def found() -> Sequence[tuple[Job, Moment]]:
            merged = merge(*(_known_moments(job, start) for job in jobs), key=lambda pair: (pair[1], pair[0].id))
            return list(islice(merged, wanted))

        return await self._aside.compute(found)

    @upcoming.within
    async def _upcoming_within(
        self, sight: Sight, n: int = 20, after: When | None = None
    ) -> Sequence[tuple[Job, Moment]]:
        wanted = checked("n", n, MOST_LISTED)
        return [pair for pair in await self.upcoming(MOST_LISTED, after) if sight.sees(pair[0])][:wanted]

    @operation(Role.READ, OPEN, gives=ExplanationView.made)
    async def explain(
        self,
        text: str,
        time_zone: str | ZoneInfo | None = None,
        n: int = 5,
        after: When | None = None,
        *,
        gap: str = Gap.SHIFT,
        fold: str = Fold.FIRST,
        calendars: Sequence[str] = (),
        shift: str | None = None,
    ) -> Explanation:
        """Explain the text of a schedule for a job that is added now. Raises `InvalidInput`."""
        check_text("text", text)
        zone = self._caller.time_zone if time_zone is None else check_zone(zone_of(time_zone))
        names = many("calendars", calendars, "names of calendars")
        days = await read_days_off(self._calendars, [_word("calendars", name) for name in names])
        explains = partial(
            explain,
            text,
            zone=zone,
            after=await self._start(after, zone),
            n=checked("n", n, self._caller.bounds.moments),
            gap=chosen(Gap, "gap", gap),
            fold=chosen(Fold, "fold", fold),
            days_off=None if days.text is None else decode_days_off(days.text),
            shift=None if shift is None else chosen(Shift, "shift", shift),
        )
        return await self._aside.compute(explains)

    async def _start(self, after: When | None, zone: str) -> Moment:
        return await self._now() if after is None else moment_of("after", after, zone)


def _word(field: str, given: object) -> str:
    check_word(field, given)
    return str(given)


def _known_moments(job: Job, after: Moment) -> Iterator[tuple[Job, Moment]]:
    """Yield the moments of a job, none if its schedule can't be read here, such as one in an unknown zone."""
    with suppress(InvalidInput):
        yield from moments_of(job, after)
