"""Every screen in a real browser: read by everybody, at any size, in both schemes, with a script and without."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.resources import files
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.company import PATIENCE, fill
from tests.integration.http.site import Site
from tokimori.client.client import Client
from tokimori.web.screens.job import TABS
from tokimori.web.screens.registry import SCREENS

pytestmark = pytest.mark.filterwarnings("ignore:a blocking call")  # Playwright has a loop in this thread
FINDINGS: Final = """axe.run({resultTypes: ["violations"]}).then(found =>
  found.violations.map(each => `${each.id}: ${each.nodes.map(node => node.html.slice(0, 150)).join(" ")}`))"""
SCHEMES: Final = ("light", "dark")
SIZES: Final = (ViewportSize(width=1440, height=900), ViewportSize(width=390, height=844))
TWICE: Final = ViewportSize(width=720, height=450)
"""All that is seen of 1440 × 900 pixels at 200 %."""
WILD: Final = "<b onclick=x>\u202etxt.exe " + "W" * 400


@pytest.fixture(scope="module")
def client(program: Program, site: Site) -> Iterator[Client]:
    """A client of the same store, in which there is one of everything."""
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        fill(client)
        client.jobs.add("wild", command=f"echo '{WILD}'; exit 1", name=WILD[:120], description=WILD, owner=WILD[:60])
        client.runs.wait(client.jobs.trigger("wild", payload=WILD).id, 30)
        client.jobs.pause("wild", WILD)
        client.queues.pause("mail", WILD)
        client.semaphores.set("three", 3)
        client.calendars.add("holidays", dates=["12-25"], description=WILD[:300])
        client.tokens.create("team", "read", queues=["mail"])
        client.expectations.set("nas", "1h", description=WILD[:300])
        client.jobs.add("notifier:ops", command="true", notifier={})
        client.channels.publish("orders", WILD)
        client.sets.apply("web", {"of-a-set": {"command": "true", "queue": "mail"}})
        yield client
        for run in client.runs.list(state="running"):
            client.runs.cancel(run.id)


@pytest.fixture(scope="module")
def paths(client: Client) -> Sequence[str]:
    """The addresses of all screens, with something to see on each."""
    (failed,), (family,) = client.runs.list(job_id="wild"), client.runs.list(job_id="etl-load")
    (node, *_), (entry, *_) = client.nodes.list(), client.audit.list(limit=1)
    named = {"{queue}": "mail", "/semaphores/{name}": "/semaphores/three", "/calendars/{name}": "/calendars/holidays"}
    named |= {"/sets/{name:path}": "/sets/web", "{topic}": "orders", "/expectations/{name}": "/expectations/nas"}
    named |= {
        "/tokens/{name}": "/tokens/team",
        "/notifiers/{name}": "/notifiers/ops",
        "{node_id}": node.id,
        "{entry_id}": entry.id,
    }
    named |= {"{job_id}": "wild", "{run_id}": failed.id, "{act}": "jobs.pause?on=etl-load"}
    found = [screen.path for screen in SCREENS if not screen.path.startswith(("/tasks/", "/failures/", "/secrets/"))]
    for name, value in named.items():
        found = [path.replace(name, value) for path in found]
    more = [f"/jobs/{job}?tab={tab}" for job in ("invoice", "wild") for tab in TABS]
    more += [f"/runs/{family.id}", f"/runs/{failed.id}?find=W", "/jobs?q=nothing", "/nowhere", "/do/tokens.create"]
    assert not any("{" in path for path in found), "give the new parameter a value here"
    return [path.lstrip("/") for path in (*found, *more)]


def axe_in(page: Page) -> Sequence[str]:
    """What axe finds on the page."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found: list[str] = page.evaluate(FINDINGS)
    return found


@pytest.fixture
def tab(browser: Browser, site: Site, client: Client) -> Iterator[Page]:
    """A tab in which nothing moves, of somebody who is let in."""
    with closing(browser.new_context(reduced_motion="reduce")) as context, closing(context.new_page()) as tab:
        tab.set_default_timeout(PATIENCE)
        tab.goto(site.entry)
        yield tab


@pytest.mark.parametrize(
    ("path", "scheme", "size"),
    [
        ("", "light", 0),
        ("jobs", "dark", 1),
        pytest.param("runs", "light", 1, marks=pytest.mark.prove),
        pytest.param("jobs/wild", "dark", 0, marks=pytest.mark.prove),
        pytest.param("plan", "light", 0, marks=pytest.mark.prove),
    ],
)
def test_axe_finds_nothing_on_the_first_screens(tab: Page, site: Site, path: str, scheme: str, size: int) -> None:
    """In a scheme and at a size of each."""
    tab.emulate_media(color_scheme="light" if scheme == "light" else "dark")
    tab.set_viewport_size(SIZES[size])
    tab.goto(site.url + path)
    assert axe_in(tab) == []


@pytest.mark.prove
@pytest.mark.timeout(1_200)
def test_axe_finds_nothing_on_any_screen(tab: Page, site: Site, paths: Sequence[str]) -> None:
    """In both schemes, on a desk and on a phone."""
    for path in paths:
        tab.goto(site.url + path)
        for size in SIZES:
            tab.set_viewport_size(size)
            for scheme in SCHEMES:
                tab.emulate_media(color_scheme="light" if scheme == "light" else "dark")
                assert axe_in(tab) == [], (path, size, scheme)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_every_screen_fits_and_asks_nobody_else(tab: Page, site: Site, paths: Sequence[str]) -> None:
    """At 200 % and on a phone nothing is wider than the window; nothing moves, and the browser has no complaint."""
    asked, faults = list[str](), list[str]()
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("pageerror", lambda fault: faults.append(str(fault)))
    tab.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    for path in paths:
        tab.goto(site.url + path)
        for size in (*SIZES, TWICE):
            tab.set_viewport_size(size)
            assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (path, size)
        assert tab.evaluate("document.getAnimations().length") == 0, path
        assert tab.evaluate("document.querySelectorAll('[onclick], main script').length") == 0, path
    assert [each for each in asked if not each.startswith(site.url)] == []
    assert [each for each in faults if "404" not in each] == []


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_every_screen_is_read_without_a_script(browser: Browser, site: Site, paths: Sequence[str]) -> None:
    """All that is there is drawn by the node; the rail leads everywhere, on a phone too."""
    with closing(browser.new_context(java_script_enabled=False)) as context, closing(context.new_page()) as tab:
        tab.set_default_timeout(PATIENCE)
        tab.goto(site.entry)
        for path in paths:
            answer = tab.goto(site.url + path)
            assert answer is not None and answer.status == (404 if path == "nowhere" else 200), path
            assert len(tab.locator("main").inner_text().strip()) > 10 or path == "find", path
        tab.set_viewport_size(SIZES[1])
        tab.goto(f"{site.url}jobs")
        tab.get_by_role("button", name="More").click()
        tab.locator(".rail").get_by_role("link", name="Semaphores").click()
        assert tab.url == f"{site.url}semaphores"
