"""Events of runs and of what is changed, by kind, and for whom they are."""

from collections.abc import Awaitable, Callable

import pytest

from tests.unit.service.world import ON_DEMAND, World
from tests.unit.turns import turns_of_others
from tokimori.errors import Forbidden, InvalidInput
from tokimori.model.access_token import Role, Scope
from tokimori.model.outcome import Succeeded
from tokimori.service.access import Access
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized
from tokimori.service.events import feed
from tokimori.service.events.position import position_from
from tokimori.service.service import Service


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the store follow each other at once."""
    monkeypatch.setattr(feed, "EVERY", 1e-6)


async def changed(world: World) -> str:
    """The position before some changes, of jobs of two queues and of what is everybody's, and before a run."""
    await world.add(ON_DEMAND, "mine.a")
    await world.add(ON_DEMAND, "other")
    begin = (await world.service.events.read_all()).after
    service = audited(world.service)
    changes: list[Callable[[], Awaitable[object]]] = [
        lambda: service.jobs.pause("mine.a", "repairs"),
        lambda: service.jobs.update("other", queue="mail"),
        lambda: service.queues.pause("mail"),
        lambda: service.calendars.add("cal", dates=["12-25"]),
        lambda: service.tokens.create("ci", "read"),
        lambda: service.jobs.resume("mine.a"),
    ]
    for change in changes:
        world.pass_seconds(1)
        await change()
    await world.trigger("mine.a")
    await world.work(Succeeded())
    return begin


async def told(service: Service, kind: str, after: str, **filters: str) -> list[tuple[str, str]]:
    """What is told, and of what."""
    found = await service.events.read_all(kind, after, **filters)
    return [
        (each.what, each.run.job_id if each.run is not None else each.change.name if each.change else "")
        for each in found.events
    ]


DEFINITIONS = [
    ("job.paused", "mine.a"),
    ("job.changed", "other"),
    ("queue.paused", "mail"),
    ("calendar.added", "cal"),
    ("job.resumed", "mine.a"),
]


async def test_a_kind_says_what_is_told(world: World) -> None:
    """Ends of runs, changes of definitions, all that is audited, or all of these, each once and in order."""
    begin = await changed(world)
    run = ("run.succeeded", "mine.a")
    assert await told(world.service, "runs", begin) == [run]
    assert await told(world.service, "definitions", begin) == DEFINITIONS
    audit = [*DEFINITIONS[:4], ("audit.tokens.create", "ci"), DEFINITIONS[4]]
    assert await told(world.service, "audit", begin) == audit
    assert sorted(await told(world.service, "all", begin)) == sorted([*audit, run])
    with pytest.raises(InvalidInput, match="kind"):
        await world.service.events.read_all("jobs")
    assert [each.what for each in (await world.service.events.read(begin)).events] == ["run.succeeded"]


async def test_who_goes_on_is_told_of_the_rest(world: World) -> None:
    """Behind each position lie exactly the events that were told behind it, of both kinds."""
    begin = await changed(world)
    found = (await world.service.events.read_all("all", begin)).events
    for number, each in enumerate(found, 1):
        rest = (await world.service.events.read_all("all", each.position)).events
        assert [other.id for other in rest] == [other.id for other in found[number:]]


@pytest.mark.parametrize("after", [0, 3600])
async def test_what_comes_first_is_told_first_over_pages(
    world: World, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Changes wait for the runs before them, of which there are more than a page has: also long afterwards."""
    monkeypatch.setattr(feed, "PAGE", 2)
    begin = str(position_from(world.clock.now()))
    service, expected = audited(world.service), list[str]()
    await world.add(ON_DEMAND, "a")
    for number in range(7):
        world.pass_seconds(2)
        await world.trigger("a")
        await world.work(Succeeded())
        expected.append("run.succeeded")
        if number % 3 == 1:
            world.pass_seconds(2)
            await service.calendars.add(f"cal{number}", dates=["12-25"])
            expected.append("calendar.added")
    world.pass_seconds(after)
    found, position = list[str](), begin
    for _ in range(20):
        page = await world.service.events.read_all("all", position)
        found += [each.what for each in page.events]
        position = page.after
    assert found == expected


async def test_others_have_their_turn_between_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants none of the many events that a node has kept holds nobody up."""
    monkeypatch.setattr(feed, "PAGE", 2)
    await world.add(ON_DEMAND, "a")
    begin = (await world.service.events.read()).after
    for _ in range(10):
        await world.trigger("a")
        await world.work(Succeeded())
    await world.service.events.read()  # from now on they are kept
    async with turns_of_others() as turns:
        assert (await world.service.events.read(begin, job_id="other")).events == []
    assert turns.count >= 5


async def test_filters_hold_for_changes(world: World) -> None:
    """Who asks for jobs is told of these; a trait is that of the job now."""
    begin = await changed(world)
    assert await told(world.service, "definitions", begin, job_prefix="mine.") == [DEFINITIONS[0], DEFINITIONS[4]]
    assert await told(world.service, "definitions", begin, job_id="other") == [DEFINITIONS[1]]
    assert await told(world.service, "definitions", begin, queue="mail") == [DEFINITIONS[1]]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (Scope(jobs=("mine.",)), [DEFINITIONS[0], DEFINITIONS[3], DEFINITIONS[4]]),
        (Scope(queues=("mail",)), [DEFINITIONS[1], DEFINITIONS[2], DEFINITIONS[3]]),
        (Scope(), DEFINITIONS),
    ],
)
async def test_a_token_is_told_of_its_own(world: World, scope: Scope, found: list[tuple[str, str]]) -> None:
    """Changes of its jobs and queues, and of what everybody may read; of the audit log not a word."""
    begin = await changed(world)
    service = authorized(world.service, Access(author="reader", role=Role.READ, scope=scope))
    assert await told(service, "definitions", begin) == found
    assert [each for each in await told(service, "all", begin) if not each[0].startswith("run.")] == found
    for role in (Role.READ, Role.ADMIN) if scope.jobs else (Role.READ,):
        other = authorized(world.service, Access(author="reader", role=role, scope=scope))
        with pytest.raises(Forbidden, match="audit"):
            await other.events.read_all("audit")


async def test_who_follows_is_told_of_no_more_than_who_reads(world: World) -> None:
    """The rule of reading holds for each page of what is followed."""
    begin = await changed(world)
    scope = Scope(jobs=("mine.",))
    events = authorized(world.service, Access(author="reader", role=Role.READ, scope=scope)).events
    with pytest.raises(Forbidden, match="audit"):
        await anext(events.follow_all("audit", begin))
    followed = events.follow_all("definitions", begin)
    assert [(await anext(followed)).what for _ in range(3)] == ["job.paused", "calendar.added", "job.resumed"]
    pinging = authorized(world.service, Access(author="cron", role=Role.PING)).events
    with pytest.raises(Forbidden, match="role"):
        await anext(pinging.follow(begin))


async def test_who_may_read_the_audit_log_is_told_of_it(world: World) -> None:
    """An admin of everything."""
    begin = await changed(world)
    service = authorized(world.service, Access(author="boss", role=Role.ADMIN))
    assert ("audit.tokens.create", "ci") in await told(service, "audit", begin)
    assert ("audit.tokens.create", "ci") in await told(service, "all", begin)
