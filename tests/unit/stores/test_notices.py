"""Hints between nodes: how they are sent, and how those of others are heard."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tokimori.errors import StoreError
from tokimori.model.ids import RunId
from tokimori.stores import notices
from tokimori.stores.notices import NoticeListener, Notices, Sender


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the clock."""
    for name in ("INTERVAL", "FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(notices, name, 0)


async def test_several_notices_are_sent_as_one() -> None:
    """What is to be told while nobody has been told yet is told once, and closing waits for it."""
    told = 0

    async def send(_: str) -> None:
        nonlocal told
        told += 1

    sender = Sender(send)
    for _ in range(3):
        sender.send()
    await sender.close()
    assert told == 1


async def test_a_listener_tries_again() -> None:
    """A connection that can't be opened, and one that is lost, are tried anew, until the listener is closed."""
    heard = asyncio.Event()
    tries: list[str] = []
    outcomes = iter(("unreachable", "unreachable", "lost", "unreachable", "heard"))

    async def hear() -> None:
        tries.append(next(outcomes))
        if tries[-1] == "unreachable":
            raise StoreError("nobody is there")
        if tries[-1] == "heard":
            heard.set()
            await asyncio.Event().wait()

    listener = NoticeListener(hear)
    await heard.wait()
    await listener.close()
    assert tries == ["unreachable", "unreachable", "lost", "unreachable", "heard"]


async def test_pauses_grow_until_something_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each failure the pause doubles, up to the longest one; a connection that was there begins anew."""
    pauses: list[float] = []
    done = asyncio.Event()
    monkeypatch.setattr(notices, "FIRST_PAUSE", 1)
    monkeypatch.setattr(notices, "LONGEST_PAUSE", 4)
    outcomes = iter((False, False, False, False, True, False))

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def hear() -> None:
        connected = next(outcomes, None)
        if connected is None:
            done.set()
            await asyncio.Event().wait()
        if not connected:
            raise StoreError("nobody is there")

    monkeypatch.setattr(asyncio, "sleep", pause)
    listener = NoticeListener(hear)
    await done.wait()
    await listener.close()
    assert pauses == [1, 2, 4, 4, 1, 2]


async def test_everybody_is_told() -> None:
    """What was done here is news to this program's watchers and to other nodes; what only others need goes to them."""
    told: list[str] = []

    async def send(_: str) -> None:
        told.append("others")

    notices = Notices(send, None)
    notices.watch(lambda: told.append("here"))
    notices.send_notice()
    await notices.close()
    assert told == ["here", "others"]
    notices.send_to_others()
    await notices.close()
    assert told == ["here", "others", "others"]


async def test_all_who_watch_hear_the_others() -> None:
    """A notice of another node wakes each watcher once, over one connection."""
    woken, connections = asyncio.Event(), 0

    async def hear(heard: Callable[[str], None]) -> None:
        nonlocal connections
        connections += 1
        heard("")
        await asyncio.Event().wait()

    async def send(_: str) -> None:
        """Nobody is told."""

    notices, heard = Notices(send, hear), list[str]()
    notices.watch(lambda: heard.append("first"))
    notices.watch(woken.set)
    await woken.wait()
    await notices.close()
    assert (heard, connections) == (["first"], 1)


async def test_an_end_costs_a_notice_only_if_it_is_expected() -> None:
    """Here and elsewhere: what others expect is known from their notice, and told to them and to whoever waits here."""
    sent, here = list[str](), list[RunId]()
    spoken: list[Callable[[str], None]] = []

    async def send(words: str) -> None:
        sent.append(words)

    async def hear(heard: Callable[[str], None]) -> None:
        spoken.append(heard)
        await asyncio.Event().wait()

    def told(run_ids: Sequence[RunId]) -> None:
        here.extend(run_ids)

    notices = Notices(send, hear)
    notices.ended([RunId("a")])
    assert notices.expect([RunId("b"), RunId("c")], told)
    for _ in range(3):
        await asyncio.sleep(0)
    spoken[0]("?d,e")
    notices.ended(map(RunId, "abdx"))
    notices.ended([RunId("b")])
    spoken[0]("!c")
    for _ in range(3):
        await asyncio.sleep(0)
    await notices.close()
    assert (sent, here) == (["?b,c", "!b,d"], ["b", "d", "c"])
    assert not Notices(send).expect([RunId("a")], told)


async def test_what_is_expected_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest ones are forgotten, and their waiters look."""
    monkeypatch.setattr(notices, "MOST_EXPECTED", 3)
    sent: list[str] = []

    async def send(words: str) -> None:
        sent.append(words)

    these = Notices(send, lambda _: asyncio.Event().wait())  # type: ignore[arg-type, return-value]
    for number in range(9):
        these.expect([RunId(str(number))], lambda _: None)
    these.ended(RunId(str(number)) for number in range(9))
    await these.close()
    assert [each for each in sent if each.startswith("!")] == ["!6,7,8"]
