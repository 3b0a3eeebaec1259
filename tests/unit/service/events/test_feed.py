"""The feed reads the store once for all who listen, and leaves nothing out."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.unit.service.events.test_tail import an_end
from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import NotFound, StoreUnavailable
from tokimori.model.job import Job
from tokimori.ports.ends import LATEST, EndedRun, EndPlace, Ends
from tokimori.service.events import feed as module
from tokimori.service.events.feed import Feed
from tokimori.service.events.position import Position, position_from, position_of
from tokimori.testing.manual import VirtualClock


class Written:
    """What a store has of ends. `away`: it does not answer."""

    def __init__(self) -> None:
        self.ends: list[EndedRun] = []
        self.reads: list[EndPlace] = []
        self.away = False

    async def ended_since(self, place: EndPlace, limit: int) -> Ends:
        """See `Endings`."""
        await asyncio.sleep(0)
        self.reads.append(place)
        if self.away:
            raise StoreUnavailable("nobody answers")
        behind = sorted((each for each in self.ends if (each.written, each.id) > (place.written, place.tie)), key=_key)
        found = behind[:limit]
        return Ends(found=found, rest=EndPlace(found[-1].written, found[-1].id) if len(found) == limit else None)


def _key(end: EndedRun) -> tuple[Moment, str]:
    return end.written, end.id


class World:
    """A feed with a clock that is moved by hand."""

    def __init__(self) -> None:
        self.clock, self.store, self.stops = VirtualClock(), Written(), False
        self.numbers = iter(range(100))
        self.feed = self.another()

    def another(self) -> Feed[EndedRun]:
        """The feed of another node on the same store."""

        async def now() -> Moment:
            return self.clock.now()

        async def no_job(job_id: str) -> Job:
            raise NotFound(job_id)

        return Feed[EndedRun](
            self.store,
            self.clock,
            lambda n: next(self.numbers).to_bytes(n),
            now=now,
            job_of=no_job,
            stops=lambda: self.stops,
        )

    def write(self, number: int, *, late: float = 0) -> None:
        """An end appears, which was written so many seconds ago."""
        seconds = (self.clock.now() - VirtualClock().now()) / SECOND - late
        self.store.ends.append(an_end(number, seconds))

    async def begin(self) -> Position:
        """Listen from now on."""
        await self.feed.begin()
        return self.feed.position

    async def told(self, position: Position, feed: Feed[EndedRun] | None = None) -> tuple[list[int], Position]:
        """What the feed tells behind the position, until it has no more; the numbers of the ends."""
        found: list[EndedRun] = []
        feed = feed or self.feed
        for _ in range(100):
            page = await feed.page(position)
            position = page.position
            if not page.found:
                return [int(each.id.removeprefix("run-")) for each in found], position
            found += page.found
        raise AssertionError("it comes to no end")

    async def pass_seconds(self, seconds: int) -> None:
        """Let time pass, with a look at the store each second."""
        for _ in range(seconds):
            self.clock.advance(1)
            await self.feed._read_store()


@pytest.fixture
def world() -> World:
    return World()


async def test_ends_are_told_of_in_order(world: World) -> None:
    """Who listens hears of what is written from now on, and of nothing before."""
    world.write(1)
    position = await world.begin()
    assert await world.told(position) == ([], position)
    world.clock.advance(1)
    world.write(2)
    world.write(3)
    await world.pass_seconds(1)
    told, position = await world.told(position)
    assert told == [2, 3]
    await world.pass_seconds(30)
    assert (await world.told(position))[0] == []


async def test_what_appears_late_is_told_of(world: World) -> None:
    """An end whose transaction took 9 s is told of once, after those that were written behind it."""
    position = await world.begin()
    await world.pass_seconds(20)
    world.write(1)
    await world.pass_seconds(9)
    world.write(2, late=9.5)
    await world.pass_seconds(15)
    assert (await world.told(position))[0] == [1, 2]


@pytest.mark.parametrize("many", [600, 5_000])
async def test_what_appears_late_among_many_is_told_of(world: World, many: int) -> None:
    """However many others were written meanwhile, it is told of, and each of them once."""
    position = await world.begin()
    await world.pass_seconds(20)
    for number in range(1, many):
        world.write(number, late=5)
    await world.pass_seconds(3)
    world.write(0, late=9)
    await world.pass_seconds(30)
    told, _ = await world.told(position)
    assert sorted(told) == list(range(many))
    assert len(world.store.reads) < many // 100 + 200


async def test_another_node_goes_on(world: World) -> None:
    """Who comes with the position of another node misses nothing: what he may lack is told of, perhaps again."""
    position = await world.begin()
    world.clock.advance(1)
    world.write(1)
    await world.pass_seconds(1)
    told, position = await world.told(position)
    world.clock.advance(5)
    world.write(2)
    world.write(3, late=7)
    other = world.another()
    await other.begin()
    known = position_of(str(position), world.clock.now())
    again, position = await world.told(known, other)
    assert (told, sorted(again)) == ([1], [1, 2, 3])
    assert (await world.told(position, other))[0] == []


async def test_who_was_away_for_long_reads_the_store(world: World) -> None:
    """What is not kept any more is read from the store, page by page, and then the feed goes on."""
    for number in range(1200):
        world.clock.advance(1)
        world.write(number)
    start = position_from(Moment(world.clock.now() - 1100 * SECOND))
    await world.feed.begin()
    told, position = await world.told(start)
    assert told[:2] == [99, 100]
    assert sorted(set(told)) == list(range(99, 1200))
    world.clock.advance(1)
    world.write(1200)
    await world.pass_seconds(1)
    assert (await world.told(position))[0] == [1200]


async def test_what_is_too_old_is_a_gap(world: World) -> None:
    """Who was away for over a day is told that there is a gap, once, and goes on a day ago."""
    world.write(1)
    old = Position(written=world.clock.now())
    world.clock.advance(2 * DAY / SECOND)
    world.write(2)
    await world.feed.begin()
    page = await world.feed.page(old)
    assert page.gap
    assert not (await world.feed.page(page.position)).gap
    assert (await world.told(page.position))[0] == [2]


async def test_a_clock_that_is_set_back_hides_nothing(world: World) -> None:
    """What is written after the store's clock was set back by hours is told of."""
    position = await world.begin()
    world.write(1)
    await world.pass_seconds(1)
    told, position = await world.told(position)
    world.clock.jump(-7200)
    await world.pass_seconds(1)
    world.write(2)
    await world.pass_seconds(1)
    more, _ = await world.told(position_of(str(position), world.clock.now()))
    assert (told, more[-1]) == ([1], 2)


async def test_many_ends_of_a_clock_that_was_ahead_stall_nobody(world: World) -> None:
    """More than a page: who follows is told of them, and of what is written since, and nothing comes for ever."""
    position = await world.begin()
    world.clock.jump(2 * 86_400)
    for number in range(2 * module.PAGE + 100):
        world.write(number)
    await world.pass_seconds(1)
    world.clock.jump(-2 * 86_400)
    await world.pass_seconds(2)
    world.write(5_000)
    await world.pass_seconds(LATEST // SECOND + 1)
    told, position = await world.told(position)
    assert 5_000 in told
    world.write(5_001)
    await world.pass_seconds(2)
    assert (await world.told(position))[0] == [5_001]


async def test_a_feed_that_nobody_heard_begins_anew(world: World) -> None:
    """Who comes back to it after an hour misses nothing, though it has not looked meanwhile."""
    position = await world.begin()
    world.clock.advance(600)
    world.write(1)
    world.clock.advance(3000)
    world.write(2)
    await world.feed.begin()
    assert (await world.told(position))[0] == [1, 2]


async def test_few_ends_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many only the newest are kept; who is slower reads the store, and misses none."""
    monkeypatch.setattr(module, "KEPT", 20)
    monkeypatch.setattr(module, "PAGE", 10)
    position = await world.begin()
    await world.pass_seconds(20)
    for number in range(100):
        world.write(number)
        await world.pass_seconds(1)
    assert len(world.feed._kept) <= 40
    told, _ = await world.told(position)
    assert sorted(set(told)) == list(range(100))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Looks follow each other at once."""
    monkeypatch.setattr(module, "EVERY", 1e-6)
    monkeypatch.setattr(module, "SOON", 1e-6)
    yield


@pytest.mark.usefixtures("quick")
async def test_many_listeners_cost_one_read(world: World) -> None:
    """However many wait, the store is read as for one of them, and all of them go on with what comes."""
    position = await world.begin()
    tasks = [asyncio.create_task(world.feed.wait(position, 60)) for _ in range(1000)]
    for _ in range(20):
        await asyncio.sleep(0)
    before = len(world.store.reads)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(world.store.reads) - before <= 20
    world.write(1)
    await asyncio.wait_for(asyncio.gather(*tasks), 10)
    assert (await world.told(position))[0] == [1]
    assert world.feed._task is None


@pytest.mark.usefixtures("quick")
async def test_nobody_looks_when_nobody_waits(world: World) -> None:
    """When the last listener goes, no look follows."""
    position = await world.begin()
    task = asyncio.create_task(world.feed.wait(position, 60))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    before = len(world.store.reads)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(world.store.reads) <= before + 1
    assert world.feed._task is None


@pytest.mark.usefixtures("quick")
async def test_a_store_that_is_away_stops_nobody(world: World) -> None:
    """Listeners wait until it answers again, and then hear of what was written."""
    position = await world.begin()
    task = asyncio.create_task(world.feed.wait(position, 60))
    world.store.away = True
    for _ in range(10):
        await asyncio.sleep(0)
    world.store.away = False
    world.write(1)
    await asyncio.wait_for(task, 10)
    assert (await world.told(position))[0] == [1]


@pytest.mark.usefixtures("quick")
async def test_who_listens_at_a_node_that_stops_is_let_go(world: World) -> None:
    """All who wait go on, and nobody waits again: else this ends after ten seconds, with an error."""
    position = await world.begin()
    tasks = [asyncio.create_task(world.feed.wait(position, 60)) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    world.stops = True
    await asyncio.wait_for(asyncio.gather(*tasks), 10)
    await asyncio.wait_for(world.feed.wait(position, 60), 10)


async def test_a_job_is_asked_for_once_in_a_while(world: World) -> None:
    """Whoever asks for it within five seconds gets the same answer, that there is none, too."""
    asked: list[str] = []

    async def job_of(job_id: str) -> Job:
        asked.append(job_id)
        raise NotFound(job_id)

    world.feed._job_of = job_of
    for seconds in (0, 1, 6):
        world.clock.advance(seconds)
        with pytest.raises(NotFound):
            await world.feed.job("a")
    assert asked == ["a", "a"]


async def test_all_who_listen_ask_for_a_job_once(world: World) -> None:
    """They are woken together: one asks, and where the store does not answer somebody asks again later."""
    asked: list[str] = []

    async def job_of(job_id: str) -> Job:
        asked.append(job_id)
        await asyncio.sleep(0)
        if len(asked) == 1:
            raise StoreUnavailable("nobody answers")
        raise NotFound(job_id)

    world.feed._job_of = job_of
    for kind in (StoreUnavailable, NotFound):
        answers = await asyncio.gather(*(world.feed.job("a") for _ in range(100)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {kind}
    assert asked == ["a", "a"]


def test_the_window_is_longer_than_any_transaction() -> None:
    """What is read again reaches further back than the longest transaction, 4 s, with a margin."""
    assert LATEST >= 2 * 4 * SECOND
