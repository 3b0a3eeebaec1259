"""The page in a real browser, beside a node at work: what people see, press and read."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of
from tests.integration.http.stripping import PREFIX, stripping_proxy
from tests.servers import browser as browsers
from tokimori.client.client import Client

PATIENCE = 20_000
"""Milliseconds."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """One at home in a folder."""
    return Program(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def site(program: Program) -> Iterator[Site]:
    """One for all tests here: each has jobs of its own."""
    with site_of(program) as site:
        yield site


@pytest.fixture(scope="module")
def client(program: Program, site: Site) -> Iterator[Client]:
    """A client of the same store."""
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium. As root it can't shut its own processes in."""
    path = browsers.program()
    assert path is not None
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        with closing(playwright.chromium.launch(executable_path=path, args=arguments)) as opened:
            yield opened


@pytest.fixture
def faults() -> list[str]:
    """What the browser complains of: nothing, at the end of a test that does not expect any."""
    return []


@pytest.fixture
def page(browser: Browser, site: Site, faults: list[str]) -> Iterator[Page]:
    """The page, open in a tab of its own."""
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    tab.on("pageerror", lambda fault: faults.append(str(fault)))
    tab.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    tab.goto(site.entry)
    yield tab
    tab.close()
    assert faults == []


def row(page: Page, job_id: str) -> str:
    """Where the row of a job is."""
    return f'tr[data-key="job {job_id}"]'


def marks(page: Page, job_id: str) -> Sequence[str]:
    """The states of its last runs, as shown."""
    return list(page.locator(f"{row(page, job_id)} .mark").evaluate_all("all => all.map(each => each.className)"))


def test_a_run_that_is_asked_for_is_seen(page: Page, client: Client) -> None:
    """Pressed once, it runs once; its mark, its panel and its output come by themselves, and nothing is loaded anew."""
    client.jobs.add("hello", command="echo hello from a run")
    page.evaluate("window.same = true")
    page.locator(row(page, "hello")).get_by_role("button", name="Run now").click()
    page.locator(f"{row(page, 'hello')} .mark.succeeded").click()
    expect(page.locator("aside .output")).to_contain_text("hello from a run")
    assert page.evaluate("window.same") is True
    assert marks(page, "hello") == ["mark succeeded"]
    assert "run=" in page.url


def test_a_job_is_paused_and_resumed(page: Page, client: Client) -> None:
    """Each button does what it says, and says what it would do next."""
    client.jobs.add("steps", command="true", schedule="@yearly")
    steps = page.locator(row(page, "steps"))
    steps.get_by_role("button", name="Pause").click()
    expect(steps).to_contain_text("paused")
    assert client.jobs.get("steps").state == "paused"
    steps.get_by_role("button", name="Resume").click()
    expect(steps.get_by_role("button", name="Pause")).to_be_visible()
    assert client.jobs.get("steps").state == "enabled"


def test_what_has_not_changed_is_not_sent_again(page: Page, client: Client) -> None:
    """A page that rests is told that it is the same; it stays live, and shows what is new as soon as there is any."""
    statuses: list[int] = []
    page.on("response", lambda response: statuses.append(response.status) if response.url == page.url else None)
    page.wait_for_function("() => document.getElementById('live').textContent === 'live'")
    for _ in range(8):
        page.wait_for_timeout(1_000)
        if 304 in statuses:
            break
    assert 304 in statuses
    client.jobs.add("newcomer", command="true")
    expect(page.locator(row(page, "newcomer"))).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")


def test_texts_of_others_do_nothing(page: Page, client: Client, site: Site) -> None:
    """A name is a text, whatever it looks like, and so is all else that others say; nothing of it is carried out."""
    evil = """'"><img src=x onerror=window.hurt=1><script>window.hurt=1</script>"""
    told = {"EVIL": evil}
    client.jobs.add(
        "evil", command="printenv EVIL", env=told, name=evil, description=evil, owner=evil, concurrency_key=evil
    )
    run = client.jobs.trigger("evil", payload=evil)
    client.runs.wait(run.id, 20)
    client.queues.pause("evil", evil)
    client.runs.cancel(client.jobs.trigger("evil", at="2999-01-01T00:00:00Z").id, reason=evil)
    client.jobs.add("paused", noop=True)
    held = client.jobs.trigger("paused", at="2999-01-01T00:00:00Z")  # due now, a node may begin it before it is held
    client.runs.hold(held.id, evil)
    client.jobs.pause("paused", evil)
    for address in (
        "?job=evil",
        "?job=paused",
        f"?run={held.id}",
        f"?run={run.id}",
        f"?schedule={quote(evil)}",
        "?queue=evil",
        "api/docs",
    ):
        page.goto(site.url + address)
        assert page.evaluate("[window.hurt, document.querySelectorAll('[onerror], script:not([src])').length]") == [
            None,
            0,
        ]
    page.goto(f"{site.url}?run={run.id}")
    expect(page.locator("aside .output")).to_contain_text(evil)
    expect(page.locator(row(page, "evil"))).to_contain_text(evil)


def test_a_refusal_is_shown(page: Page, client: Client, faults: list[str]) -> None:
    """An order that the node refuses is told on the page, in the node's words."""
    client.jobs.add("gone", command="true")
    button = page.locator(row(page, "gone")).get_by_role("button", name="Run now")
    expect(button).to_be_visible()
    instead = f"{page.url}api/v2/jobs/no/trigger"
    page.route("**/api/v2/jobs/gone/trigger", lambda route: route.continue_(url=instead))
    button.click()
    expect(page.locator("#notice")).to_contain_text("no")
    assert all("404" in fault for fault in faults)
    faults.clear()


def test_what_a_run_waits_for_is_seen(page: Page, client: Client) -> None:
    """Beside the run and its job: who has its place, with a way to that run, and the command that mends it."""
    client.jobs.add("lasts", command="sleep 60", max_running=1)
    first, second = client.jobs.trigger("lasts"), client.jobs.trigger("lasts")
    page.goto(f"{page.url}?run={second.id}&job=lasts")
    held = page.locator("aside .why")
    expect(held).to_contain_text(f"held by run {first.id}")
    expect(held.locator("code")).to_have_text("tokimori job update lasts --max-running 2")
    expect(page.locator("[data-key='schedule'] .why")).to_contain_text(f"held by run {first.id}")
    held.get_by_role("link").click()
    expect(page.locator("aside dl code").first).to_have_text(first.id)
    expect(page.locator("aside .why")).to_have_count(0)
    client.runs.cancel(first.id)
    client.runs.cancel(second.id)


def test_somebody_logs_in_with_a_token_and_out(browser: Browser, site: Site, client: Client) -> None:
    """By the form of the closed page; what his role does not include is told when he tries it."""
    client.jobs.add("guarded", noop=True)
    made = client.tokens.create("eve", "read")
    with closing(browser.new_context()) as context, closing(context.new_page()) as tab:
        tab.set_default_timeout(PATIENCE)
        tab.goto(site.url)
        tab.get_by_label("Token").fill(made.text)
        tab.get_by_role("button", name="Log in").click()
        expect(tab.locator(row(tab, "guarded"))).to_be_visible()
        tab.locator(row(tab, "guarded")).get_by_role("button", name="Pause").click()
        expect(tab.get_by_role("alert")).to_contain_text("Your token may only read.")
        tab.get_by_role("button", name="Log out").click()
        expect(tab.get_by_label("Token")).to_be_visible()
    client.tokens.revoke("eve")


def test_the_page_below_a_prefix(browser: Browser, tmp_path: Path) -> None:
    """Through a proxy that takes the prefix away, from entering to logging out, nothing leads beside the prefix."""
    program, asked = Program(tmp_path), list[str]()
    program.environment["TOKIMORI_HTTP_PATH_PREFIX"] = PREFIX
    with site_of(program) as site, stripping_proxy(site.url.split("/")[2]) as proxy:
        assert site.url.endswith(f"{PREFIX}/")
        with tokimori.open(site.entry) as client:  # the printed address has the prefix
            client.jobs.add("hello", command="echo hello from a run")
        with closing(browser.new_context()) as context, closing(context.new_page()) as tab:
            tab.set_default_timeout(PATIENCE)
            tab.on("request", lambda request: asked.append(request.url))
            tab.goto(f"http://{proxy}{PREFIX}/?secret={site.secret}")
            tab.locator(row(tab, "hello")).get_by_role("button", name="Run now").click()
            tab.locator(f"{row(tab, 'hello')} .mark.succeeded").click()
            expect(tab.locator("aside .output")).to_contain_text("hello from a run")
            tab.get_by_role("textbox", name="Schedule").fill("0 0 1 1 *")
            tab.get_by_role("button", name="Explain").click()
            expect(tab.locator(".sentence").first).to_be_visible()
            tab.get_by_role("button", name="Log out").click()
            expect(tab.get_by_label("Token")).to_be_visible()
    assert len(asked) > 5 and not [each for each in asked if not each.startswith(f"http://{proxy}{PREFIX}/")]


def test_a_node_that_is_gone_is_told(browser: Browser, tmp_path: Path) -> None:
    """The page stays, and says that the node does not answer."""
    program = Program(tmp_path)
    site = Site(program)
    with closing(browser.new_page()) as page:
        page.goto(site.entry)
        site.node.kill()
        site.node.communicate()
        expect(page.locator("#live")).to_have_text("the node does not answer; trying again", timeout=PATIENCE)
        expect(page.locator("h2", has_text="Jobs")).to_be_visible()
