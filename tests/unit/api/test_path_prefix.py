"""The door below the path prefix of a proxy."""

import re
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

import tokimori
from tests.unit.api.asgi import SECRET, Answer, Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import World
from tokimori.api.app import operations
from tokimori.api.docs import DOCS, OPENAPI, STYLE
from tokimori.api.request_service import Acting
from tokimori.api.secret import LOGIN, LOGOUT, NO_SESSION, OPEN_TO_ALL, session_value
from tokimori.api.turns import Turns
from tokimori.config.http import OWN_PATHS
from tokimori.executors.http.callbacks import PATH
from tokimori.foreign.kala.routes import kala_routes
from tokimori.web.page import Page

PREFIX = "/tokimori"
BROWSER, COOKIE = ("accept", "text/html"), ("cookie", f"tokimori-80={session_value(SECRET, None, NO_SESSION)}")
ADDRESS = re.compile(r'(?:href|src|action|formaction)="([^"]*)"')


@pytest.fixture
def browser(world: World) -> Asker:
    """Somebody at a door with everything at it, who brings nothing by himself."""
    service = Acting(world.service).service
    page = Page(service, world.clock, PREFIX)
    app = an_app(
        world,
        pages=[*page.routes(), *kala_routes(service)],
        lost=page.lost,
        closed=page.closed,
        path_prefix=PREFIX,
    )
    return Asker(app, bare=True)


async def ask(browser: Asker, path: str, *more: tuple[str, str], method: str = "GET", body: bytes = b"") -> Answer:
    return await browser.ask(method, path, headers=[("host", "localhost"), *more], chunks=[body])


@pytest.mark.parametrize("path", ["/healthz", "/api/v2/jobs", "/api/docs", "/runs", "/static/console.css", "/nowhere"])
async def test_paths_come_with_the_prefix_or_without(browser: Asker, path: str) -> None:
    """A proxy may leave it there or take it away: the answer is the same."""
    kept, stripped = await ask(browser, PREFIX + path, COOKIE), await ask(browser, path, COOKIE)
    assert (kept.status, kept.body) == (stripped.status, stripped.body)
    assert (kept.status == 404) is (path == "/nowhere")


async def test_only_the_whole_prefix_is_taken_away_and_once(browser: Asker) -> None:
    """Without the slash at its end it is the page; what only begins like it, or has it twice, is nothing of ours."""
    assert (await ask(browser, PREFIX, COOKIE)).status == 200
    for path in (f"{PREFIX}s/api/v2/jobs", f"{PREFIX}{PREFIX}/api/v2/jobs", f"/x{PREFIX}/api/v2/jobs"):
        assert (await ask(browser, path, COOKIE)).status == 404
        assert (await ask(browser, path)).status == 401
    lost = await ask(browser, f"{PREFIX}s/api/v2/jobs", COOKIE)
    assert lost.error["message"].startswith(f"GET {PREFIX}s/api/v2/jobs")


async def test_the_secret_is_demanded_below_the_prefix(browser: Asker) -> None:
    """No way of writing a path opens what is closed without a prefix."""
    for path in ("/api/v2/jobs", "/", "//healthz", "/healthz/", f"{PREFIX}/healthz"):
        assert (await ask(browser, PREFIX + path)).status == 401
    assert (await ask(browser, f"{PREFIX}/healthz")).status == 200


@pytest.mark.parametrize("came_with", ["", PREFIX])
async def test_who_enters_stays_below_the_prefix(browser: Asker, came_with: str) -> None:
    """The printed address, the form and Kala's page lead there, and the cookie is sent to nothing beside it."""
    form = ("content-type", "application/x-www-form-urlencoded")
    for answer in (
        await ask(browser, f"{came_with}/?job=a&secret={SECRET}"),
        await ask(browser, f"{came_with}/login", form, method="POST", body=f"token={SECRET}".encode()),
        await ask(browser, f"{came_with}/logout", ("cookie", "tokimori-80=x"), method="POST"),
    ):
        assert answer.status == 303 and answer.headers["location"].partition("?")[0] == f"{PREFIX}/"
        cookie = SimpleCookie(answer.headers["set-cookie"])["tokimori-80"]
        assert (cookie["path"], cookie["httponly"], cookie["samesite"].lower()) == (PREFIX, True, "strict")
    assert (await ask(browser, f"{came_with}/webui", COOKIE)).headers["location"] == f"{PREFIX}/"


async def test_addresses_in_heads_have_the_prefix(browser: Asker) -> None:
    """Where the new job is, and where the next page is: both can be asked for as they stand there."""
    for name in (b"a", b"b"):
        made = await ask(
            browser,
            "/api/v2/jobs",
            COOKIE,
            ("content-type", "application/json"),
            method="POST",
            body=b'{"id": "%s", "noop": true}' % name,
        )
    assert made.headers["location"] == f"{PREFIX}/api/v2/jobs/b"
    assert (await ask(browser, made.headers["location"], COOKIE)).json["id"] == "b"
    page = await ask(browser, "/api/v2/jobs?limit=1", COOKIE)
    following = page.headers["link"].removesuffix('>; rel="next"').removeprefix("<")
    assert following.startswith(f"{PREFIX}/api/v2/jobs?")
    assert [job["id"] for job in (await ask(browser, following, COOKIE)).json] == ["b"]


async def test_addresses_in_pages_have_the_prefix(world: World, browser: Asker) -> None:
    """Each link, form, file and act of each page, whether somebody is let in, lost, or at the document of the API."""
    assert "curl http://localhost/tokimori/api/v2/jobs" in (await ask(browser, "/", COOKIE)).body.decode()
    await world.add({"noop": True}, "a")
    for path, brought in (
        ("/jobs/a", COOKIE),
        ("/jobs", COOKIE),
        ("/nowhere", COOKIE),
        ("/", BROWSER),
        ("/api/docs", COOKIE),
    ):
        text = (await ask(browser, path, BROWSER, brought)).body.decode()
        found = [each for each in ADDRESS.findall(text) if each and not each.startswith(("#", "data:"))]
        assert found and not [each for each in found if not each.startswith(f"{PREFIX}/")], path


def test_no_template_has_an_address_without_the_prefix() -> None:
    """Whoever writes a new one is told, though no test shows that part of the page."""
    package = Path(tokimori.__file__).parent
    files = [*package.glob("web/templates/*.html"), package / "api/docs.html"]
    found = {each for file in files for each in ADDRESS.findall(file.read_text())}
    begins = ("{{ root }}", "{{ static(", "#", "data:")
    assert len(found) > 10 and {each for each in found if each and not each.startswith(begins)} == set()


async def test_the_document_says_where_the_paths_begin(browser: Asker, door: Asker) -> None:
    """Programs that are made from it put the prefix before them."""
    assert (await ask(browser, OPENAPI, COOKIE)).json["servers"] == [{"url": PREFIX}]
    assert (await door.get(OPENAPI)).json["servers"] == [{"url": "/"}]


def test_without_a_prefix_there_is_no_layer(world: World) -> None:
    """Who has none pays nothing."""
    app = an_app(world)
    assert isinstance(app, Turns)


def test_a_prefix_can_not_be_taken_for_a_path_of_the_door(world: World) -> None:
    """What the settings refuse as its beginning is what paths of the door begin with."""
    service = Acting(world.service).service
    routes = [*Page(service, world.clock).routes(), *kala_routes(service)]
    paths = [each.path for each in operations(service, None, None)] + [each.path for each in routes]  # type: ignore[attr-defined]
    paths += [PATH, LOGIN, LOGOUT, DOCS, STYLE, OPENAPI, *OPEN_TO_ALL]
    assert {path.split("/")[1] for path in paths} - {""} <= OWN_PATHS
