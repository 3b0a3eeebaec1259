"""Live screens in a real browser: what is asked for when something changes, and what is not."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.conftest import PATIENCE
from tests.integration.http.site import Site, site_of
from tokimori.client.client import Client

pytestmark = pytest.mark.filterwarnings("ignore:a blocking call")  # Playwright has a loop in this thread
HIDE = """on => {
  Object.defineProperty(document, "hidden", { get: () => on, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """A browser that is let in."""
    with closing(browser.new_context()) as context:
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        context.new_page().goto(site.entry)
        context.pages[0].close()
        yield context


def shown(context: BrowserContext, address: str) -> tuple[Page, list[str]]:
    """A tab, and the paths that it asks for from then on."""
    tab, asked = context.new_page(), list[str]()
    tab.on("request", lambda request: asked.append(request.url.partition("//")[2].partition("/")[2]))
    tab.goto(address)
    return tab, asked


def until(tab: Page, holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    ends = time.monotonic() + PATIENCE / 1000
    while not holds():
        assert time.monotonic() < ends
        tab.wait_for_timeout(50)


def streams(asked: list[str]) -> list[str]:
    """The requests for a stream."""
    return [each for each in asked if "api/v2/notices" in each]


@pytest.mark.prove
def test_only_what_shows_a_change_is_asked_for(context: BrowserContext, site: Site, client: Client) -> None:
    """A list follows at once what becomes of its noun; a screen of another noun, or thing, asks for nothing."""
    client.jobs.add("still", noop=True)
    jobs, of_jobs = shown(context, f"{site.url}jobs?q=new")
    days, of_days = shown(context, f"{site.url}calendars")
    one, of_one = shown(context, f"{site.url}jobs/still")
    until(jobs, lambda: sum(map(len, map(streams, (of_jobs, of_days, of_one)))))
    jobs.wait_for_timeout(3_000)  # what the first notices bring
    for asked in (of_jobs, of_days, of_one):
        asked.clear()
    client.jobs.add("newcomer", noop=True)
    expect(jobs.locator('tr[data-key="job newcomer"]')).to_be_visible()
    client.runs.wait(client.jobs.trigger("newcomer").id, 20)
    jobs.wait_for_timeout(2_500)
    assert [each for each in of_jobs if each.startswith("jobs")]
    assert [each for each in (*of_days, *of_one) if "notices" not in each] == []
    client.jobs.pause("still", "by hand")
    expect(one.locator(".head")).to_contain_text("paused")
    client.calendars.add("days", dates=["12-25"])
    expect(days.locator("tbody")).to_contain_text("days")
    for tab in (jobs, days, one):
        expect(tab.locator("#live")).to_contain_text("live")
        tab.close()


@pytest.mark.prove
def test_tabs_share_one_stream(context: BrowserContext, site: Site, client: Client) -> None:
    """One visible tab holds it for all; if it is hidden or closed another one goes on, and no change is lost."""
    first, of_first = shown(context, f"{site.url}jobs?q=shared")
    until(first, lambda: streams(of_first))
    second, of_second = shown(context, f"{site.url}jobs?q=shared")
    third, of_third = shown(context, f"{site.url}calendars")
    third.wait_for_timeout(1_500)
    assert streams(of_second) == streams(of_third) == []
    client.jobs.add("shared-a", noop=True)
    for tab in (first, second):
        expect(tab.locator('tr[data-key="job shared-a"]')).to_be_visible()
    first.evaluate(HIDE, True)
    until(second, lambda: streams(of_second + of_third))
    count = len(of_first)
    client.jobs.add("shared-b", noop=True)
    expect(second.locator('tr[data-key="job shared-b"]')).to_be_visible()
    assert len(of_first) == count
    first.evaluate(HIDE, False)
    expect(first.locator('tr[data-key="job shared-b"]')).to_be_visible()
    holder, other = (second, third) if streams(of_second) else (third, second)
    holder.close()
    client.calendars.add("shared", dates=["12-26"])
    if other is third:
        expect(third.locator("tbody")).to_contain_text("shared")
    else:
        client.jobs.add("shared-c", noop=True)
        expect(second.locator('tr[data-key="job shared-c"]')).to_be_visible()


@pytest.mark.prove
def test_without_locks_a_tab_asks_by_itself(context: BrowserContext, site: Site, client: Client) -> None:
    """A plain address of another host gets no locks: a tab there asks again and again, and keeps no connection."""
    context.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined })")
    tab, _ = shown(context, f"{site.url}jobs?q=alone")
    client.jobs.add("alone", noop=True)
    expect(tab.locator('tr[data-key="job alone"]')).to_be_visible()


@pytest.mark.prove
def test_output_grows_by_its_new_lines(context: BrowserContext, site: Site, client: Client, tmp_path: Path) -> None:
    """A tab that follows a run gets the new lines alone, and has them all; its time passes without being asked for."""
    go_on = tmp_path / "go-on"
    waits = f"while [ ! -e {go_on} ]; do sleep 0.1; done"
    client.jobs.add("grows", command=f"for i in $(seq 400); do echo line $i; done; {waits}; echo the end; sleep 9")
    run = client.jobs.trigger("grows")
    tab, _ = shown(context, f"{site.url}runs/{run.id}")
    expect(tab.locator(".log")).to_contain_text("line 400")
    lines = list[int]()
    tab.on("response", lambda answer: lines.append(answer.text().count('id="L')) if run.id in answer.url else None)
    go_on.touch()
    expect(tab.locator(".log")).to_contain_text("the end")
    found = tab.locator(".log > span > span").all_inner_texts()
    assert found == [*(f"line {n}" for n in range(1, 401)), "the end"]
    assert lines
    assert min(lines) < 10


@pytest.mark.prove
def test_a_lost_node_is_caught_up_with(browser: Browser, tmp_path: Path) -> None:
    """A tab says that its node is gone, and when it is back shows what has changed meanwhile."""
    program = Program(tmp_path)
    site = Site(program)
    with closing(browser.new_page()) as tab:
        tab.goto(site.entry)
        tab.goto(f"{site.url}jobs")
        site.node.kill()
        site.node.communicate()
        expect(tab.locator("#live")).to_contain_text("the node does not answer", timeout=PATIENCE)
        with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
            client.jobs.add("meanwhile", noop=True)
        port = site.url.rstrip("/").rpartition(":")[2]
        with site_of(program, "-p", port):
            expect(tab.locator('tr[data-key="job meanwhile"]')).to_be_visible(timeout=PATIENCE)
            expect(tab.locator("#live")).to_contain_text("● live", timeout=PATIENCE)


@pytest.mark.prove
@pytest.mark.parametrize("path", ["", "runs", "jobs", "jobs/quiet"])
def test_a_tab_costs_little_on_a_busy_store(browser: Browser, tmp_path: Path, path: str) -> None:
    """Twenty runs a second cost an open tab less than a kilobyte a second, and few requests."""
    program = Program(tmp_path)
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        client.jobs.add("quiet", noop=True)
        for n in range(20):
            client.jobs.add(f"busy-{n}", noop=True, schedule="every 1 second")
    with site_of(program) as site, closing(browser.new_page()) as tab:
        tab.goto(site.entry)
        tab.goto(site.url + path)
        tab.wait_for_timeout(3_000)
        received, asked = dict[str, float](), list[str]()
        session = tab.context.new_cdp_session(tab)
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", lambda told: asked.append(told["request"]["url"]))
        for event in ("Network.dataReceived", "Network.loadingFinished"):  # the second one has it all, heads too
            session.on(event, lambda told: _count(received, told))
        tab.wait_for_timeout(30_000)
        assert sum(received.values()) < 30 * 1_000
        assert len(asked) <= 15 if path != "jobs/quiet" else asked == []


def _count(received: dict[str, float], told: Mapping[str, Any]) -> None:
    name, size = told["requestId"], told["encodedDataLength"]
    received[name] = max(received.get(name, 0) + ("dataLength" in told) * size, size)
