"""Streams are trimmed by age and by count, oldest first, a little in each step."""

import os

import pytest
from msgspec import Raw, json
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR
from tokimori.clock import DAY, Moment
from tokimori.engine.streams import Streams
from tokimori.engine.trim import BATCH, EVERY, FORGOTTEN, PAUSE, StreamRetention, Trimmer
from tokimori.model.build import UPLOAD, UPLOADED, Upload, encode_upload, upload_name
from tokimori.model.document import Document
from tokimori.model.ids import NodeId
from tokimori.model.message import KIND, Subscriber, encode_subscriber
from tokimori.model.message import SUBSCRIBER_KIND as SUBSCRIBER
from tokimori.model.request import KIND as KEYED
from tokimori.model.request import Keyed, encode_keyed
from tokimori.model.stream import Entry, entry_name, moment_in
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

NODE = NodeId("node")


async def a_topic(store: MemoryStore, topic: str, *ages: float) -> None:
    """Messages of so many days ago, the oldest first."""
    streams = Streams(store, KIND, os.urandom)
    for age in sorted(ages, reverse=True):
        at = Moment(NEW_YEAR - round(age * DAY))
        await streams.append(topic, Entry(at=at, by=None, key=f"{age}", body=Raw(json.encode(age))))


async def a_text(store: MemoryStore, name: str, text: str) -> None:
    """What stands in the place of a document."""
    known = await store.get_document(KIND, name)
    await store.put_document(replace(known, text=text, version=known.version + 1), known.version)


async def kept(store: MemoryStore, topic: str) -> list[str]:
    """What is left of a topic."""
    return [each.entry.key for each in await Streams(store, KIND, os.urandom).read(topic, 0, 1000)]


async def a_round(store: MemoryStore, days: int = 7, most: int = 1000) -> int:
    """Trim until the round is over; in how many steps."""
    trimmer, steps = Trimmer(store, 0, lambda: 0.5, os.urandom, StreamRetention(days=days, most=most)), 0
    at = trimmer.next_at
    assert at == EVERY
    while trimmer.next_at < at + EVERY:
        await trimmer.step(NODE, NEW_YEAR, trimmer.next_at)
        at, steps = min(at, trimmer.next_at), steps + 1
        assert steps < 1000
    return steps


async def test_what_is_too_old_is_deleted() -> None:
    """To the moment, in every topic; a topic of which nothing is left begins anew with greater numbers."""
    store = MemoryStore(VirtualClock())
    await a_topic(store, "a", 0, 6.99, 7.01, 400)
    await a_topic(store, "a-b", 8, 9)
    await a_topic(store, "c", 1)
    last = (await Streams(store, KIND, os.urandom).read("a-b", 0, 10))[-1].number
    await a_round(store)
    assert [await kept(store, topic) for topic in ("a", "a-b", "c")] == [["6.99", "0"], [], ["1"]]
    assert not [each for each in await store.list_documents(KIND) if each.name.startswith("a-b/")]
    await a_topic(store, "a-b", 0)
    assert (await Streams(store, KIND, os.urandom).read("a-b", last, 10))[0].entry.key == "0"


async def test_a_topic_keeps_so_many() -> None:
    """The newest, however many steps that takes; with 0 days their age is no matter."""
    store = MemoryStore(VirtualClock())
    await a_topic(store, "many", *range(BATCH * 3))
    await a_topic(store, "few", 1, 2)
    assert await a_round(store, days=0, most=10) > 3
    assert (await kept(store, "many"), len(await kept(store, "few"))) == ([f"{n}" for n in range(9, -1, -1)], 2)
    await a_round(store, days=0, most=10)
    assert len(await kept(store, "many")) == 10


async def test_a_step_deletes_few() -> None:
    """The beat behind it is not late; the rest follows soon."""
    store = MemoryStore(VirtualClock())
    await a_topic(store, "many", *range(10, 10 + BATCH + 5))
    trimmer = Trimmer(store, 0, lambda: 0, os.urandom, StreamRetention(most=1000))
    before = len(await kept(store, "many"))
    await trimmer.step(NODE, NEW_YEAR, EVERY)
    assert (before - len(await kept(store, "many")), trimmer.next_at) == (BATCH - 1, EVERY + PAUSE)


async def test_a_topic_that_somebody_follows_goes_on_with_the_next_number() -> None:
    """Though nothing is left of it: a subscriber that has seen everything is told of no gap."""
    store = MemoryStore(VirtualClock())
    await a_topic(store, "news", 8, 9, 10)
    last = (await Streams(store, KIND, os.urandom).read("news", 0, 10))[-1].number
    text = encode_subscriber(Subscriber(number=last, at=NEW_YEAR))
    await store.put_document(Document(kind=SUBSCRIBER, name="news/ann", text=text, version=1), None)
    await a_round(store)
    assert await kept(store, "news") == []
    await a_topic(store, "news", 0)
    assert [each.number for each in await Streams(store, KIND, os.urandom).read("news", 0, 10)] == [last + 1]


@pytest.mark.parametrize("known", [-1, 0])
async def test_nobody_appends_where_something_was_trimmed(known: int) -> None:
    """Who was frozen puts an entry behind those of others, kept or not, though another's is not taken back yet."""
    store = MemoryStore(VirtualClock())
    await a_topic(store, "news", 9, 8, 0)
    numbers = [each.number for each in await Streams(store, KIND, os.urandom).read("news", 0, 10)]
    first = await store.get_document(KIND, entry_name("news", numbers[0]))
    await a_round(store)
    await store.put_document(first, None)
    await a_round(store)
    frozen = Streams(store, KIND, os.urandom)
    frozen._know("news", numbers[0] + known)
    late = Entry(at=NEW_YEAR, by=None, key="late", body=Raw(json.encode(None)))
    assert await frozen.append("news", late) == numbers[-1] + 1
    assert await kept(store, "news") == ["0", "late"]


@pytest.mark.parametrize("text", ["no JSON", '{"key":"nobody knows when"}'])
async def test_what_nobody_can_read_holds_up_no_trimming(text: str) -> None:
    """It is deleted in its turn, and what is too old behind it too; who reads the topic reads what is around it."""
    store = MemoryStore(VirtualClock())
    await a_topic(store, "news", *range(20, 20 + BATCH), 10, 9, 0)
    names = [each.name for each in await store.list_documents(KIND, prefix="news/")]
    for name in names[2 : BATCH + 3]:
        await a_text(store, name, text)
    assert await kept(store, "news") == ["39", "0"]
    await a_round(store)
    assert await kept(store, "news") == ["0"]
    assert len(await store.list_documents(KIND, prefix="news/")) == 2


async def test_what_a_newer_version_says_is_trimmed_by_its_age() -> None:
    """Though this one can't read more of it than when that was."""
    store = MemoryStore(VirtualClock())
    await a_topic(store, "news", 9, 8, 1)
    for document in (await store.list_documents(KIND, prefix="news/"))[1:]:
        await a_text(store, document.name, document.text.replace('"key"', '"keys"'))
    await a_round(store)
    [_, left] = await store.list_documents(KIND, prefix="news/")
    assert moment_in(left.text) == NEW_YEAR - DAY
    assert await kept(store, "news") == []


async def test_many_that_nobody_can_read_hide_nothing_behind_them() -> None:
    """Whoever reads few at a time gets what comes next, and not the impression that there is no more."""
    store = MemoryStore(VirtualClock())
    await a_topic(store, "news", *range(10))
    for document in (await store.list_documents(KIND, prefix="news/"))[2:9]:
        await a_text(store, document.name, "{")
    read = Streams(store, KIND, os.urandom).read
    first = (await read("news", 0, 1))[0]
    assert [each.entry.key for each in await read("news", first.number, 2)] == ["1"]


async def test_a_step_looks_at_several_topics() -> None:
    """Many topics of which nothing is too old are gone through soon."""
    store = MemoryStore(VirtualClock())
    for n in range(100):
        await a_topic(store, f"topic{n}", 1, 2)
    assert await a_round(store) < 20


async def test_subscribers_are_forgotten_at_last() -> None:
    """Those that have acknowledged nothing for a quarter of a year."""
    store = MemoryStore(VirtualClock())
    for name, age in (("news/gone", FORGOTTEN + 1), ("news/there", FORGOTTEN - 1)):
        text = encode_subscriber(Subscriber(number=1, at=Moment(NEW_YEAR - age * DAY)))
        await store.put_document(Document(kind=SUBSCRIBER, name=name, text=text, version=1), None)
    await a_round(store)
    assert [each.name for each in await store.list_documents(SUBSCRIBER)] == ["news/there"]


async def test_uploads_that_nobody_finishes_go_after_a_day() -> None:
    """With all their pieces, and before these the rest of a round waits for nothing."""
    store = MemoryStore(VirtualClock())
    for by, age in (("ada", 1.01), ("bob", 0.99), ("carl", 3)):
        name = upload_name(by, "ping", "0" * 64)
        upload = Upload(by=by, at=Moment(NEW_YEAR - round(age * DAY)), digest="0" * 64)
        documents = [Document(kind=UPLOAD, name=name, text=encode_upload(upload), version=1)]
        documents += [Document(kind=UPLOADED, name=f"{name}.{n:04}", text="AAAA", version=1) for n in range(BATCH + 1)]
        for each in documents:
            await store.put_document(each, None)
    await a_round(store)
    assert [each.name for each in await store.list_documents(UPLOAD)] == [upload_name("bob", "ping", "0" * 64)]
    left = await store.list_documents(UPLOADED)
    assert len(left) == BATCH + 1 and all(each.name.startswith(upload_name("bob")) for each in left)


async def test_keys_of_requests_are_forgotten_after_a_day() -> None:
    """All of them, however many."""
    store = MemoryStore(VirtualClock())
    for number in range(2 * BATCH + 1):
        at = Moment(NEW_YEAR - round((0.99 if number == BATCH else 1.01) * DAY))
        text = encode_keyed(Keyed(at=at, digest="d", made="m"))
        await store.put_document(Document(kind=KEYED, name=f"{number:064x}", text=text, version=1), None)
    await a_round(store)
    assert [each.name for each in await store.list_documents(KEYED)] == [f"{BATCH:064x}"]
