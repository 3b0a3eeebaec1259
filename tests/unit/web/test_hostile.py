"""A hostile afternoon at the page: texts that mean harm, in all that others say and that an address asks."""

import re
from typing import Any, Final
from urllib.parse import quote_from_bytes

import pytest

from tests.laws import one_in
from tests.unit.service.world import World
from tests.unit.web.conftest import ENTRY, EVIL, NAMED, Elements, Tab, fill_nouns
from tests.unit.web.test_page import filled
from tokimori.clock import SECOND, Moment
from tokimori.errors import InvalidInput
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.run import Output
from tokimori.web.screens.job import TABS
from tokimori.web.screens.registry import ACTS, SCREENS
from tokimori.web.visit import Visit

LONG: Final = 65_536
HARM: Final = {
    "markup": EVIL,
    "templates": "{{ 7*7 }}{% include 'x' %}${7*7}#{7*7}",
    "ansi": "\x1b[31mred\x1b[0m\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\\x1b[2J\x1b]0;title\x07",
    "bidi": "\u202etxt.exe\u2066\u2069\u200f\u061c",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f\u2028\u2029\ufeff",
    "nul": "a\x00b",
    "word": "W" * LONG,
    "accents": "e" + "\u0301" * 2_000,
    "address": "javascript:alert(document.cookie)//",
    "planes": "\U0001f4a3\ufffd\uffff\U0010ffff",
    "quotes": "`\"'`&amp;&#x3c;script&#x3e;",
}
"""Texts that mean harm, by their kinds."""
PLACES: Final[dict[str, Any]] = {
    "name": 200,
    "description": 400,
    "owner": 100,
    "command": 60_000,
    "payload": LONG,
    "concurrency_key": 200,
    "cwd": 200,
    "schedule": 100,
}
"""Fields of jobs that are texts, with their bytes."""
ODD: Final = (
    *(b"\x00", "\ud800".encode("utf-8", "surrogatepass"), b"\xff\xfe", b"9" * 400, b"-9999", b"1e999"),
    *("١٢".encode(), "²".encode(), b"..", b"//x.example", b"[]", b"9999-12", b"0000-00", b"s" * 501, b"a=b"),
    *("\u202e\x1b[31m".encode(), b"99999999999999999999-01-01", b"9999-12-31T23:59:59Z", b"0001-01-01T00:00:00Z"),
)
"""Values that no screen expects."""
LISTS: Final = ("/", "/jobs", "/jobs?group=owner", "/runs", "/failures", "/plan", "/graph", "/wall", "/find?q=bad")
UNSEEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def check_harmless(page: str, where: str) -> None:
    """Nothing on a page is carried out or leads elsewhere, and no text moves what stands beside it."""
    found = Elements(re.sub(r"(?s)<textarea.*?</textarea>", "", page))
    assert len(list(found.named("script"))) == 1, where
    for _, attributes in found.all:
        assert not attributes.keys() & {"style", "srcdoc", "onerror", "onload", "onclick"}, (where, attributes)
        for name in ("href", "src", "action", "formaction"):
            assert re.match(r"[#/](?![/\\])|$", attributes.get(name) or ""), (where, attributes)
        seen = " ".join(value or "" for name, value in attributes.items() if name != "value")
        assert not UNSEEN.search(seen), (where, attributes)
    assert not UNSEEN.search(found.text), where
    assert not re.search("[\u0300-\u036f]{4}", found.text), where


@pytest.mark.parametrize("kind", one_in(2, list(HARM)))
async def test_texts_of_others_do_no_harm_on_any_screen(world: World, tab: Tab, kind: str) -> None:
    """Of up to 64 KiB, in whatever others may name, write and send: each is refused in words, or shown as a text."""

    def text(most: int) -> str:
        return HARM[kind].encode()[:most].decode(errors="ignore")

    paths = list(LISTS)
    for name, most in PLACES.items():
        try:
            fields: dict[str, Any] = {"command": "true", name: text(most)}
            await world.service.jobs.add(f"bad-{name}", **fields)
        except InvalidInput as fault:
            assert fault.field, name
    for n, job in enumerate((await world.service.jobs.list(prefix="bad-")).jobs):
        run = await world.trigger(job.id)
        await world.work(Failed(error=text(LONG)) if n % 2 else Succeeded(result=text(LONG)))
        await world.store.save_outputs([Output(run_id=run.id, attempt=1, size=LONG, head=text(LONG).encode())])
        paths += [f"/runs/{run.id}", f"/jobs/{job.id}/edit", *(f"/jobs/{job.id}?tab={each}" for each in TABS)]
        if n % 3 == 0 and "\x00" not in text(200):
            await world.service.jobs.pause(job.id, text(400))
    await fill_nouns(world, text(LONG).replace("\x00", "\x01"))
    for path in paths:
        answer = await tab.ask(path)
        assert answer.status == 200, (path, answer.body[-600:])
        check_harmless(answer.body.decode(), path)


@pytest.mark.prove
@pytest.mark.timeout(900)
async def test_no_address_makes_a_fault(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in an address is shown, or refused in words, and does no harm there."""
    asked, read = set[str](), Visit.all

    def listening(visit: Visit, name: str) -> list[str]:
        asked.add(name)
        return read(visit, name)

    monkeypatch.setattr(Visit, "all", listening)
    for path in dict.fromkeys(path.partition("?")[0] for path in await filled(world)):
        asked.clear()
        await tab.ask(f"{path}?on=hello&cause=12345678")
        for name in sorted(asked):
            for value in ODD:
                where = f"{path}?{name}={quote_from_bytes(value)}"
                answer = await tab.ask(where)
                assert answer.status < 500, (where, answer.body[-300:])
                if answer.headers.get("content-type", "").startswith("text/html"):
                    check_harmless(answer.body.decode(), where)


async def company(world: World, *, others: bool) -> str:
    """Fill a store with what a token of the queue `mine` may see, and with what it may not; a run of its own."""
    service = world.service
    await service.semaphores.set("gate", 1)
    await service.calendars.add("days", dates=["12-25"])
    if others:
        said = {"name": "canary", "owner": "canary", "description": "canary", "labels": {"canary": "canary"}}
        fields: dict[str, Any] = {**said, "queue": "canary", "calendars": ["days"], "semaphores": ["gate"]}
        for name in ("canary-failed", "canary-held", "canary-running"):
            await service.jobs.add(name, command="canary", schedule="@hourly", **fields)
        await service.jobs.add("canary-late", command="canary", queue="canary", expect_within="1m")
        await service.jobs.add("canary-after", command="canary", queue="canary", parents=[{"job": "canary-failed"}])
        await service.jobs.trigger("canary-failed", payload="canary")
        await world.work(Failed(error="canary", exit_code=3))
        await service.runs.hold((await service.jobs.trigger("canary-held")).id, "canary")
        await service.jobs.trigger("canary-running")
        await world.begin(1)
        await service.queues.pause("canary", "canary")
        await service.jobs.pause("canary-held", "canary")
        await service.jobs.add("notifier:canary", command="canary", notifier={}, queue="canary")
        await service.sets.apply("canary", {"canary-of-a-set": {"command": "true", "queue": "canary"}})
        await service.tokens.create("canary", "read")
        await service.secrets.set("CANARY", "canary", jobs=["canary-late"])
        await service.expectations.set("canary", "1h", description="canary")
        await service.channels.publish("canary", "canary")
    await service.jobs.add("own", command="echo", schedule="@daily", queue="mine", calendars=["days"])
    await service.jobs.add("own-waits", command="echo", queue="mine", semaphores=["gate"])
    run = await service.jobs.trigger("own")
    await world.work(Failed(error="no luck", exit_code=3))
    world.clock.moment = Moment(world.clock.moment + SECOND)
    await service.jobs.trigger("own-waits")
    return run.id


def walk(run_id: str) -> list[str]:
    """Addresses of all screens and files, for somebody who sees the queue `mine`."""
    parts = {"{job_id}": "own", "{run_id}": run_id, "{act}": "jobs.pause?on=own", "{queue}": "mine", "{topic}": "t"}
    parts |= {"{verb}": "retry?cause=00000000", "/semaphores/{name}": "/semaphores/gate", "{entry_id}": ENTRY}
    parts |= {
        "/calendars/{name}": "/calendars/days",
        "{node_id}": NAMED["{node_id}"],
        "{name:path}": "x",
        "{name}": "x",
    }
    paths = [screen.path for screen in SCREENS]
    for name, value in parts.items():
        paths = [path.replace(name, value) for path in paths]
    paths += [f"/jobs/own?tab={name}" for name in TABS]
    paths += [f"/{noun}?q=can" for noun in ("find", "jobs", "runs", "failures", "plan", "graph", "queues")]
    paths += [f"/jobs?state={word}" for word in ("paused", "failing", "held", "running", "overdue")]
    return [*paths, "/jobs/own-waits", "/calendar.ics", "/runs?text=can", "/jobs?group=queue", "/plan?lanes=queue"]


async def test_a_token_of_one_queue_sees_nothing_else(world: World) -> None:
    """Neither on a screen nor in a counter, a suggestion, a file or what is refused: as if there were no others."""
    seen = dict[str, dict[bool, str]]()
    for others in (False, True):
        own = world if others else World()
        run_id = await company(own, others=others)
        tab = Tab(own, (await own.service.tokens.create("eve", "operate", queues=["mine"])).text)
        for path in walk(run_id):
            answer = await tab.ask(path)
            text = answer.body.decode()
            assert "canary" not in text.casefold(), path
            words = Elements(text).text if "html" in answer.headers["content-type"] else text
            known = seen.setdefault(path.replace(run_id, "RUN"), {})
            known[others] = re.sub(r"[0-9a-f]{8}(-[0-9a-f-]{27})?", "ID", words)
    for path, texts in seen.items():
        is_shared = path.startswith(("/semaphores", "/jobs/own-waits"))  # whose units are everybody's
        assert is_shared or texts[False] == texts[True], path


async def test_what_is_there_for_others_is_as_if_it_were_not(world: World) -> None:
    """A refusal does not tell a token of one queue which of two names there is."""
    await company(world, others=True)
    tab = Tab(world, (await world.service.tokens.create("eve", "operate", queues=["mine"])).text)
    for noun in ("jobs/canary-late", "queues/canary", "sets/canary", "expectations/canary", "notifiers/canary"):
        there, nowhere = [await tab.ask(f"/{each}") for each in (noun, noun.replace("canary", "nobody"))]
        assert there.status == nowhere.status, noun
        assert there.body.decode().replace("canary", "nobody") == nowhere.body.decode(), noun
    for act in ("jobs.pause", "jobs.trigger", "queues.pause", "jobs.delete"):
        told = [(await tab.press(act, name, back="/jobs")).text for name in ("canary-late", "nobody-late")]
        assert told[0].replace("canary", "nobody") == told[1], act


@pytest.mark.prove
@pytest.mark.timeout(300)
async def test_no_form_makes_a_fault(world: World, tab: Tab) -> None:
    """Whatever is sent by a form, for whichever thing, is done or refused in words; lone halves of letters too."""
    await filled(world)
    form, here = ("content-type", "application/x-www-form-urlencoded"), ("origin", "http://localhost")
    values = (*ODD, *(text.encode()[:2_000] for text in HARM.values()))
    for number, act in enumerate(ACTS.values()):
        for value in values[number % 3 :: 3]:
            on = (b"hello", value)[len(value) % 2]
            fields = [("on", on), *((field.name, value) for field in act.fields), ("back", value)]
            body = "&".join(f"{name}={quote_from_bytes(text)}" for name, text in fields).encode()
            answer = await tab.ask(f"/do/{act.name}", "POST", form, here, body=body)
            assert answer.status < 500, (act.name, value)
            if answer.status == 303:
                to = answer.headers["location"]
                assert to.startswith("/") and not to.startswith(("//", "/\\")), (act.name, value)
                answer = await tab.ask(to)
                assert answer.status < 500, (act.name, value, to)
            check_harmless(answer.body.decode(), f"{act.name} {value!r}")
    json = ("content-type", "application/json")
    for text in (rb'"\ud800"', rb'"a\u0000b"', b'"\xed\xa0\x80"', b"[" * 5_000, b"1" * 5_000, b"NaN"):
        body = b'{"id": "odd", "command": "true", "name": ' + text + b"}"
        assert (await tab.ask("/api/v2/jobs", "POST", json, here, body=body)).status in (201, 400, 422), text
