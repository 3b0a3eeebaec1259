"""Logging in at the page."""

from http.cookies import SimpleCookie
from urllib.parse import urlencode

import pytest

from tests.unit.api.asgi import SECRET, Answer, Asker
from tests.unit.api.conftest import HEALTHY
from tests.unit.service.world import World
from tokimori.api.app import create_app
from tokimori.api.request_service import Acting
from tokimori.errors import StoreUnavailable
from tokimori.model.document import Document
from tokimori.service.doors.sessions import MOST_ENDED
from tokimori.web.page import Page

HOST = ("host", "127.0.0.1:8000")
BROWSER = ("accept", "text/html")


class Tab:
    """A browser at the door of a node with this secret."""

    def __init__(self, world: World, secret: str = SECRET) -> None:
        page = Page(Acting(world.service).service, world.clock)
        app = create_app(
            world.service,
            world.clock,
            interface="127.0.0.1",
            secret=secret,
            health=lambda: HEALTHY,
            pages=page.routes(),
            closed=page.closed,
        )
        self._asker = Asker(app, bare=True)
        self.cookie = ""

    async def ask(self, path: str, method: str = "GET", *more: tuple[str, str], body: bytes = b"") -> Answer:
        cookie = [("cookie", f"tokimori-8000={self.cookie}")] if self.cookie else []
        return await self._asker.ask(method, path, headers=[HOST, BROWSER, *cookie, *more], chunks=[body])

    async def log_in(self, token: str, *more: tuple[str, str]) -> Answer:
        kind = ("content-type", "application/x-www-form-urlencoded")
        answer = await self.ask("/login", "POST", kind, *more, body=urlencode({"token": token}).encode())
        self.keep(answer)
        return answer

    def keep(self, answer: Answer) -> None:
        """Keep of it what a browser does: the value as it was sent, with its quotes."""
        for morsel in SimpleCookie(answer.headers.get("set-cookie", "")).values():
            self.cookie = morsel.coded_value


@pytest.fixture
def tab(world: World) -> Tab:
    return Tab(world)


async def token_of(world: World, role: str = "read", expires: float | None = None) -> str:
    return (await world.service.tokens.create("c.i", role, expires=expires)).text


async def test_a_token_becomes_a_cookie(world: World, tab: Tab) -> None:
    """It is for this door alone, no script reads it, no page of others sends it, and it does not hold the token."""
    text = await token_of(world)
    closed = await tab.ask("/")
    assert closed.status == 401 and b'action="/login"' in closed.body
    answer = await tab.log_in(f" {text} ")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    said = answer.headers["set-cookie"].lower()
    assert "httponly" in said and "samesite=strict" in said and "path=/" in said
    assert text.rpartition("_")[2] not in said
    assert (await tab.ask("/")).status == 200
    refused = await tab.ask("/api/v2/pause", "POST", ("content-type", "application/json"), body=b"{}")
    assert (refused.status, refused.error["field"]) == (403, "role")


async def test_the_secret_logs_in_too(tab: Tab) -> None:
    """As the address that the node prints does."""
    assert (await tab.log_in(SECRET)).status == 303
    paused = await tab.ask("/api/v2/pause", "POST", ("content-type", "application/json"), body=b"{}")
    assert paused.status == 200


@pytest.mark.parametrize("wrong", ["", "x", SECRET[:-1], f"tkm_c.i_{'0' * 64}"])
async def test_what_is_no_token_logs_nobody_in(world: World, tab: Tab, wrong: str) -> None:
    """The form is shown again, and says that what was sent is wrong: who only came gets other words."""
    await token_of(world)
    answer = await tab.log_in(wrong)
    says = b"what was sent is neither the secret of this node nor a token of its store"
    only_came = (await tab.ask("/")).body
    assert says in answer.body and says not in only_came
    assert b'class="why"' in answer.body and b'class="why"' not in only_came
    assert answer.status == 401 and "set-cookie" not in answer.headers and b'action="/login"' in answer.body


async def test_logging_out_forgets_the_cookie(world: World, tab: Tab) -> None:
    """Then the page is closed again."""
    await tab.log_in(await token_of(world))
    answer = await tab.ask("/logout", "POST")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    tab.keep(answer)
    assert (await tab.ask("/")).status == 401


@pytest.mark.parametrize("of_owner", [False, True])
async def test_a_session_that_logged_out_is_over_everywhere(world: World, tab: Tab, of_owner: bool) -> None:
    """A copy of its cookie opens nothing, at no node; another session of the same token goes on."""
    text = SECRET if of_owner else await token_of(world)
    other, node = Tab(world), Tab(world)
    await other.log_in(text)
    await tab.log_in(text)
    copied = node.cookie = tab.cookie
    assert copied != other.cookie
    assert (await node.ask("/")).status == 200
    await tab.ask("/logout", "POST")
    world.pass_seconds(2)
    for each in (tab, node):
        each.cookie = copied
        assert (await each.ask("/")).status == 401
    assert (await other.ask("/")).status == 200


async def test_many_sessions_that_logged_out_are_over(world: World, tab: Tab) -> None:
    """The oldest of them, too, of which it is known only that they are older than others."""
    text, copies = await token_of(world), list[str]()
    for _ in range(MOST_ENDED + 3):
        world.pass_seconds(1)
        await tab.log_in(text)
        copies.append(tab.cookie)
        await tab.ask("/logout", "POST")
    for tab.cookie in copies:
        assert (await tab.ask("/")).status == 401
    await tab.log_in(text)
    assert (await tab.ask("/")).status == 200
    (kept,) = await world.store.list_documents("session")
    assert len(kept.text) < 10_000


async def test_sessions_of_a_clock_that_was_ahead_keep_nobody_out(world: World, tab: Tab) -> None:
    """However many were logged out then: who logs in later is in, and a log-out of his ends his session alone."""
    text = await token_of(world)
    world.pass_seconds(2 * 86_400)
    for _ in range(MOST_ENDED + 3):
        await tab.log_in(text)
        await tab.ask("/logout", "POST")
    world.pass_seconds(-2 * 86_400)
    for each in (tab := Tab(world), other := Tab(world)):
        await each.log_in(text)
        assert (await each.ask("/")).status == 200
    copied = tab.cookie
    await tab.ask("/logout", "POST")
    world.pass_seconds(2)
    assert (await other.ask("/")).status == 200
    tab.cookie = copied
    assert (await tab.ask("/")).status == 401


async def test_the_owner_enters_while_the_store_is_away(
    world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He may look at what is wrong; a token can't be looked up, and its holder is told so."""
    text = await token_of(world)

    async def away(*_: object) -> Document:
        raise StoreUnavailable("the store did not answer")

    monkeypatch.setattr(world.store, "get_document", away)
    monkeypatch.setattr(world.store, "list_documents", away)
    assert (await tab.log_in(text)).status == 503
    for entered in (await tab.ask(f"/?secret={SECRET}"), await tab.log_in(SECRET)):
        assert entered.status == 303
        tab.keep(entered)
        assert (await tab.ask("/login")).headers["location"] == "/"


async def test_a_session_ends_with_its_token(world: World, tab: Tab) -> None:
    """Where it is revoked, and where its time is over."""
    await tab.log_in(await token_of(world, expires=60))
    world.pass_seconds(60)
    over = await tab.ask("/")
    assert over.status == 401 and b"is over since" in over.body
    await world.service.tokens.revoke("c.i")
    world.pass_seconds(2)
    assert b"is over since" not in (await tab.ask("/")).body
    await token_of(world)
    world.pass_seconds(2)
    assert (await tab.ask("/")).status == 401


async def test_a_session_is_of_one_token_and_one_secret(world: World, tab: Tab) -> None:
    """Neither another name nor another node's cookie opens the door."""
    await world.service.tokens.create("admin", "admin")
    await tab.log_in(await token_of(world))
    mine = tab.cookie
    for wrong in (mine.replace("c.i", "admin"), mine[:-1], f"c.i.{'0' * 64}", "admin.", "c.i", ".", mine + "0"):
        tab.cookie = wrong
        assert (await tab.ask("/")).status == 401
    other = Tab(world, "o" * 43)
    other.cookie = mine
    assert (await other.ask("/")).status == 401


@pytest.mark.parametrize("header", [("origin", "https://evil.example"), ("sec-fetch-site", "same-site")])
async def test_no_page_of_others_logs_anybody_in_or_out(world: World, tab: Tab, header: tuple[str, str]) -> None:
    """Else it could let somebody work under a token of its own."""
    text = await token_of(world)
    answer = await tab.log_in(text, header)
    assert answer.status == 403 and "set-cookie" not in answer.headers
    assert (await tab.ask("/logout", "POST", header)).status == 403


async def test_who_has_the_secret_says_who_orders(tab: Tab, world: World) -> None:
    """A name at the entrance or at the login is the author of what the browser orders; without one the node says it."""
    await world.add({"noop": True}, "a")

    async def paused_by() -> str:
        kind, origin = ("content-type", "application/json"), ("origin", "http://127.0.0.1:8000")
        answer = await tab.ask("/api/v2/jobs/a/pause", "POST", kind, origin, body=b"{}")
        await world.service.jobs.resume("a")
        by: str = answer.json["by"]
        return by

    entered = await tab.ask(f"/?secret={SECRET}&as=Zo%C3%AB&job=a")
    tab.keep(entered)
    assert entered.headers["location"] == "/?job=a"
    assert await paused_by() == "Zoë"
    kind = ("content-type", "application/x-www-form-urlencoded")
    for name, author in (("ann b.c", "ann b.c"), ("", "http"), ("x" * 2_000, "http"), ("a\0", "http")):
        tab.keep(await tab.ask("/login", "POST", kind, body=urlencode({"token": SECRET, "as": name}).encode()))
        assert await paused_by() == author
    tab.cookie = f"@eve{tab.cookie}"
    assert (await tab.ask("/api/v2/jobs")).status == 401


async def test_a_header_says_who_orders(tab: Tab, world: World) -> None:
    """Programs with the secret name the author in a header; who has a token is named by that."""
    await world.add({"noop": True}, "a")
    token = (await world.service.tokens.create("c.i", "operate")).text
    kind, said = ("content-type", "application/json"), ("tokimori-author", "Zo%C3%AB")
    for text, author in ((SECRET, "Zoë"), (token, "c.i")):
        bearer = ("authorization", f"Bearer {text}")
        answer = await tab.ask("/api/v2/jobs/a/pause", "POST", kind, bearer, said, body=b"{}")
        assert answer.json["by"] == author
        await world.service.jobs.resume("a")
    bearer, bad = ("authorization", f"Bearer {SECRET}"), ("tokimori-author", "a%00")
    assert (await tab.ask("/api/v2/jobs/a/pause", "POST", kind, bearer, bad, body=b"{}")).status == 422
