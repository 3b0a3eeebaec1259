"""Who is let in."""

import logging
import re
from http.cookies import SimpleCookie

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from tests.laws import examples
from tests.unit.api.asgi import BEARER, SECRET, Answer, Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import World
from tokimori.api.secret import COMPLAINT_EVERY, NO_SESSION, SecretGuard, secrets_in, session_value
from tokimori.clock import SECOND, Moment
from tokimori.web.page import Page

HOST = ("host", "127.0.0.1:8000")
NAME, VALUE = "tokimori-8000", session_value(SECRET, None, NO_SESSION)
BROWSER = ("accept", "text/html,application/xhtml+xml")


@pytest.fixture
def stranger(world: World) -> Asker:
    """Somebody at the door who brings nothing by himself."""
    page = Page(lambda _: world.service, world.clock)
    app = an_app(
        world,
        pages=page.routes(),
        lost=page.lost,
        closed=page.closed,
    )
    return Asker(app, bare=True)


async def ask(asker: Asker, path: str, *headers: tuple[str, str], method: str = "GET") -> Answer:
    return await asker.ask(method, path, headers=[HOST, *headers])


PATHS = (
    "/",
    "/?job=x",
    "/static/console.js",
    "/api/v2/jobs",
    "/api/v2/jobs/x",
    "/api/v2/nodes",
    "/api/v2/schedules/explain?schedule=x",
    "/nowhere",
    "/healthz/",
    "//healthz",
    "/healthz/../api/v2/jobs",
    "/HEALTHZ",
)


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X")


@pytest.mark.parametrize("path", PATHS)
async def test_a_stranger_learns_nothing(world: World, stranger: Asker, path: str) -> None:
    """Whatever he asks for, in whatever way, the answer is the same, and the store is not asked."""
    asked = world.count("list_jobs"), world.count("get_job"), world.count("list_runs")
    for method in METHODS:
        answer = await ask(stranger, path, ("content-type", "application/json"), method=method)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert (answer.error["code"], answer.error["field"]) == ("unauthorized", "Authorization")
        assert answer.error["value"] is None and "tokimori node address" in answer.error["message"]
    assert [len(calls) for calls in asked] == [0, 0, 0]


async def test_everybody_is_told_whether_the_node_is_well(stranger: Asker) -> None:
    """A load balancer knows no secret."""
    assert (await ask(stranger, "/healthz")).json["status"] == "ok"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_a_program_brings_the_secret_in_a_header(stranger: Asker, scheme: str) -> None:
    """The name of the scheme has no case."""
    assert (await ask(stranger, "/api/v2/jobs", ("authorization", f"{scheme} {SECRET}"))).json == []


@pytest.mark.parametrize(
    "header",
    [
        ("authorization", ""),
        ("authorization", "Bearer"),
        ("authorization", "Bearer "),
        ("authorization", SECRET),
        ("authorization", f"Basic {SECRET}"),
        ("authorization", f"Bearer {SECRET[:-1]}"),
        ("authorization", f"Bearer {SECRET}s"),
        ("authorization", f"Bearer {VALUE}"),
        ("authorization", "Bearer \xe4\xff"),
        ("cookie", f"{NAME}={SECRET}"),
        ("cookie", f"{NAME}={VALUE[:-1]}"),
        ("cookie", f"{NAME}="),
        ("cookie", f"tokimori-8001={VALUE}"),
        ("cookie", f"tokimori={VALUE}"),
        ("cookie", f"{NAME}-x={VALUE}"),
        ("x-secret", SECRET),
    ],
)
async def test_nothing_else_will_do(stranger: Asker, header: tuple[str, str]) -> None:
    """A part of the secret, the cookie as a header, the secret as a cookie, or the cookie of another port."""
    assert (await ask(stranger, "/api/v2/jobs", header)).status == 401


@pytest.mark.parametrize("path", ["/login", "/logout", "/api/v2/jobs", "/nowhere", "//", "/static/console.js"])
async def test_only_the_address_of_the_page_carries_it(stranger: Asker, path: str) -> None:
    """Elsewhere an address with the secret lets nobody in: addresses are kept by programs on the way."""
    assert (await ask(stranger, f"{path}?secret={SECRET}")).status == 401
    assert (await ask(stranger, f"/?secret={SECRET}", method="POST")).status == 401


@pytest.mark.parametrize(
    ("query", "place"),
    [
        (f"secret={SECRET}", "/"),
        (f"job=a%20b&secret={SECRET}&run=x", "/?job=a+b&run=x"),
        (f"secret={SECRET}&secret=x", "/"),
        (f"secret={SECRET}&schedule=%0d%0aset-cookie:x", "/?schedule=%0D%0Aset-cookie%3Ax"),
    ],
)
async def test_the_address_becomes_a_cookie(stranger: Asker, query: str, place: str) -> None:
    """The browser is sent to the address without the secret; nobody on the way keeps the one with it."""
    answer = await ask(stranger, f"/?{query}", BROWSER)
    assert (answer.status, answer.headers["location"]) == (303, place)
    assert (answer.headers["referrer-policy"], answer.headers["cache-control"]) == ("no-referrer", "no-store")
    cookie = SimpleCookie(answer.headers["set-cookie"])[NAME]
    assert (cookie["samesite"].lower(), cookie["httponly"], cookie["path"]) == ("strict", True, "/")
    assert cookie["max-age"] == cookie["expires"] == cookie["domain"] == cookie["secure"] == ""
    assert SECRET not in repr(answer)
    shown = await ask(stranger, "/", BROWSER, ("cookie", f"other=1; {NAME}={cookie.value}"))
    assert shown.status == 200 and SECRET not in shown.body.decode()


async def test_under_tls_the_cookie_goes_nowhere_else(world: World) -> None:
    """Where the door is reached by TLS, the cookie is for TLS alone."""

    async def nothing(*_: object) -> None:
        raise AssertionError

    async def nobody() -> Message:
        raise AssertionError

    app = SecretGuard(nothing, SECRET, world.clock)
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": f"secret={SECRET}".encode()}
    scope |= {"scheme": "https", "headers": [(b"host", b"node.example")], "server": ("node.example", 443)}
    _, response = await app._at_the_page(Request(scope), nobody) or (None, None)
    assert isinstance(response, Response)
    assert response.headers["set-cookie"].startswith("tokimori-443=") and "Secure" in response.headers["set-cookie"]


async def test_cookies_of_others_keep_nobody_out(stranger: Asker) -> None:
    """A page at another port may put a cookie of the same name beside ours: one that is right is enough."""
    both = f"{NAME}=x; {NAME}={VALUE}; {NAME}=y"
    assert (await ask(stranger, "/api/v2/jobs", ("cookie", both))).status == 200


async def test_a_browser_is_told_how_to_get_in(stranger: Asker) -> None:
    """It gets a page that names the command and where it leads, and needs no file that it would not get."""
    answer = await ask(stranger, "/jobs/x?tab=runs", BROWSER)
    assert (answer.status, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    page = answer.body.decode()
    assert "tokimori node address" in page
    assert 'name="next" value="/jobs/x?tab=runs"' in page and "<script" not in page
    files = re.findall(r"/static/[^\"]*", page)
    assert files and [(await ask(stranger, each)).status for each in files] == [200] * len(files)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "x"])
@pytest.mark.parametrize("path", ["/", "/healthz", "/api/v2/jobs", "/static/console.css"])
async def test_what_a_page_of_others_asks_for_is_refused(stranger: Asker, site: str, path: str) -> None:
    """An image, a link or a form of another site, or of another port of this host, gets nothing, whatever it brings."""
    for known in (("x", "y"), *BEARER.items(), ("cookie", f"{NAME}={VALUE}")):
        answer = await ask(stranger, path, ("sec-fetch-site", site), known)
        assert (answer.status, answer.error["code"], answer.error["field"]) == (
            403,
            "site_not_allowed",
            "Sec-Fetch-Site",
        )
    assert (await ask(stranger, f"/?secret={SECRET}", ("sec-fetch-site", site))).status == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_our_own_page_and_who_types_the_address_are_answered(stranger: Asker, site: str) -> None:
    """The page's own requests, and an address that somebody typed."""
    cookie = ("cookie", f"{NAME}={VALUE}")
    assert (await ask(stranger, "/", BROWSER, cookie, ("sec-fetch-site", site))).status == 200


async def test_who_follows_a_link_of_another_site_may_go_on(stranger: Asker) -> None:
    """The page says where the link came from; its own link leads on to what was meant, with the cookie."""
    answer = await ask(stranger, "/?job=x", BROWSER, ("sec-fetch-site", "cross-site"), ("cookie", f"{NAME}={VALUE}"))
    assert answer.status == 403
    assert "another site" in answer.body.decode() and 'href="">Go on' in answer.body.decode()


async def test_wrong_secrets_do_not_fill_the_log(
    world: World, stranger: Asker, caplog: pytest.LogCaptureFixture
) -> None:
    """A line a minute says how many there were and where the last came from, and none of them."""
    almost = SECRET[:-1] + "x"
    with caplog.at_level(logging.DEBUG):
        for _ in range(500):
            await ask(stranger, "/api/v2/jobs", ("authorization", f"Bearer {almost}"))
            await ask(stranger, f"/?secret={almost}")
            await ask(stranger, "/", ("cookie", f"{NAME}={almost}"))
        assert len(caplog.records) == 1
        world.clock.moment = Moment(world.clock.moment + int(COMPLAINT_EVERY * SECOND))
        await ask(stranger, "/", ("cookie", f"{NAME}={almost}"))
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "1500, the last from 127.0.0.1" in caplog.messages[1]
    assert almost[:8] not in caplog.text


async def test_who_brings_nothing_is_no_line_in_the_log(stranger: Asker, caplog: pytest.LogCaptureFixture) -> None:
    """A browser without a cookie is nothing to tell of."""
    with caplog.at_level(logging.DEBUG):
        await ask(stranger, "/")
    assert caplog.records == []


@settings(max_examples=examples(50))
@given(st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0")))
async def test_no_header_is_a_bug(text: str) -> None:
    """Whatever stands in a header or in the address, the answer is a refusal."""
    world = World()
    app = an_app(world)
    asker = Asker(app, bare=True)
    for header in (("authorization", text), ("authorization", f"Bearer {text}"), ("cookie", text)):
        assert (await ask(asker, "/api/v2/jobs", header)).status == 401
    assert (await asker.ask("GET", f"/?secret={text.replace('?', '')}", headers=[HOST])).status == 401


def test_a_long_address_is_not_read_for_a_stranger() -> None:
    """Of an address only the first few secrets are looked at, and nothing else, however much it brings."""
    query = "&".join(["a=%41"] * 2_500 + [f"secret=x%2B{number}" for number in range(1_500)])
    assert secrets_in(query) == [f"x+{number}" for number in range(8)]
