"""A page over a service in memory, and what stands on it."""

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from urllib.parse import urlencode

import pytest

from tests.programs.compiled import compile_once
from tests.unit.api.asgi import SECRET, Answer, Asker
from tests.unit.examples import NEW_YEAR
from tests.unit.service.tasks.test_tasks import build
from tests.unit.service.world import World
from tokimori.api.app import Health, create_app
from tokimori.api.request_service import Acting
from tokimori.model.audit import KIND as AUDIT
from tokimori.model.audit import AuditEntry, encode_entry, name_of
from tokimori.model.document import Document
from tokimori.web.page import Page
from tokimori.web.visit import Doubts

compile_once()

EVIL = "<script>alert(1)</script>\"'&"
ENTRY = name_of(NEW_YEAR, lambda _: b"abcd")
HEALTHY = Health(status="ok", node_id="n", store_reachable=True, version="1")


class Elements(HTMLParser):
    """Every element of a page with its attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))
        self.text += " " if tag in ("dd", "dt", "td", "th", "a", "p", "span", "tr", "h2", "pre") else ""

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.all if name == tag)

    def keys(self, kind: str) -> Sequence[str]:
        """The keys of the rows of this kind, in their order."""
        found = (str(row.get("data-key")) for row in self.named("tr"))
        return [key.partition(" ")[2] for key in found if key.startswith(f"{kind} ")]

    def acts(self) -> Sequence[str]:
        """What can be done here."""
        return [str(each["data-act"]) for _, each in self.all if "data-act" in each]

    def links(self) -> Sequence[str]:
        """Where its links lead."""
        return [str(link["href"]) for link in self.named("a") if "href" in link]


def elements(answer: Answer) -> Elements:
    """What is on the page that came back."""
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Elements(answer.body.decode())


class Tab:
    """A browser at the page, who brings the secret or a token, and keeps the cookies that it gets."""

    def __init__(self, world: World, token: str = SECRET, doubts: Doubts | None = None) -> None:
        acting = Acting(world.service)
        page = Page(
            acting.service, world.clock, access_for=acting.access, key=lambda: SECRET, doubts=lambda: doubts or Doubts()
        )
        app = create_app(
            world.service,
            world.clock,
            interface="127.0.0.1",
            secret=SECRET,
            health=lambda: HEALTHY,
            pages=page.routes(),
            lost=page.lost,
            closed=page.closed,
        )
        self._asker = Asker(app, bare=True)
        self._always = [("host", "localhost"), ("accept", "text/html"), ("authorization", f"Bearer {token}")]
        self.cookies: dict[str, str] = {}

    async def ask(self, path: str, method: str = "GET", *more: tuple[str, str], body: bytes = b"") -> Answer:
        """The answer to one request."""
        kept = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = [*self._always, *([("cookie", kept)] if kept else []), *more]
        answer = await self._asker.ask(method, path, headers=headers, chunks=[body])
        for name, morsel in SimpleCookie(answer.headers.get("set-cookie", "")).items():
            self.cookies[name] = morsel.value
            if morsel["max-age"] == "0":
                del self.cookies[name]
        return answer

    async def show(self, path: str, status: int = 200) -> Elements:
        """What is on the page at this path."""
        answer = await self.ask(path)
        assert answer.status == status
        return elements(answer)

    async def post(self, act: str, *on: str, **given: str) -> Answer:
        """The answer to a button that was pressed."""
        fields = [*(("on", each) for each in on), *given.items()]
        form = ("content-type", "application/x-www-form-urlencoded")
        here = ("origin", "http://localhost")
        return await self.ask(f"/do/{act}", "POST", form, here, body=urlencode(fields).encode())

    async def press(
        self, act: str, *on: str, back: str = "", origin: str = "http://localhost", **given: str
    ) -> Elements:
        """What is on the page after a button was pressed."""
        answer = await self.post(act, *on, **({"back": back} if back else {}), **given)
        assert answer.status == 303, answer.body
        self.where = answer.headers["location"]
        return await self.show(self.where)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def tab(world: World) -> Tab:
    return Tab(world)


async def add(world: World, job_id: str = "hello", **fields: object) -> None:
    """Add a job that says hello."""
    await world.add({"command": "echo hello", **fields}, job_id)


NAMED = {
    **{"{queue}": "mail", "/semaphores/{name}": "/semaphores/three", "/calendars/{name}": "/calendars/holidays"},
    **{"{node_id}": "01a1fe76-c901-7d5c-b9f7-4e869d9c8e52", "/sets/{name:path}": "/sets/web", "{topic}": "orders"},
    **{
        "/expectations/{name}": "/expectations/nas",
        "/notifiers/{name}": "/notifiers/ops",
        "/tasks/{name}": "/tasks/etl",
    },
    **{"{entry_id}": ENTRY, "/tokens/{name}": "/tokens/team", "/secrets/{name}": "/secrets/KEY"},
}
"""The things of `fill_nouns`, by what stands for them in paths."""


async def fill_nouns(world: World, text: str = "for a test") -> None:
    """Make one of everything that has a screen; `text` stands where others may write what they want."""
    service = world.service
    await world.register(NAMED["{node_id}"], {"place": text[:200]})
    await service.queues.pause("mail", text[:4_000])
    await service.semaphores.set("three", 3)
    await service.calendars.add("holidays", dates=["12-25"], weekdays=["sun"], description=text[:400])
    await service.tokens.create("team", "read", queues=["mail"])
    await service.expectations.set("nas", "1h", description=text[:400])
    await service.expectations.ping("nas", "fail", text)
    await service.jobs.add("notifier:ops", command=f"tell '{text[:60_000]}'", notifier={}, description=text[:400])
    await service.channels.publish("orders", text[:60_000])
    await service.sets.apply("web", {"of-a-set": {"command": "true", "queue": "mail"}})
    await build(service, name="etl")
    entry = AuditEntry(at=NEW_YEAR, who=text, what="jobs.pause", of=text, before={"a": text}, after={"b": [1]})
    await world.store.put_document(Document(kind=AUDIT, name=ENTRY, text=encode_entry(entry), version=1), None)
    await service.secrets.set("KEY", "hunter2", jobs=["hello"])
