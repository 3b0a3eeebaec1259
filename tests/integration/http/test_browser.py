"""The page in a real browser, beside a node at work: what people see, press and read."""

from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.conftest import PATIENCE
from tests.integration.http.site import Site, site_of
from tests.integration.http.stripping import PREFIX, stripping_proxy
from tokimori.client.client import Client

# Playwright has a loop of its own in this thread, which waits while a test does something else.
pytestmark = pytest.mark.filterwarnings("ignore:a blocking call holds up:RuntimeWarning")


def row(job_id: str) -> str:
    """Where the row of a job is."""
    return f'tr[data-key="job {job_id}"]'


def toast(page: Page) -> Locator:
    """What the page tells of the last act."""
    return page.locator(".toast").last


def test_a_run_that_is_asked_for_is_seen(page: Page, site: Site, client: Client) -> None:
    """A receipt leads to it; its end and its output come by themselves, and nothing is loaded anew."""
    client.jobs.add("hello", command="echo hello from a run; sleep 1; echo at its end")
    page.goto(f"{site.url}jobs/hello")
    page.evaluate("window.same = true")
    page.get_by_role("link", name="Run…").click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(toast(page)).to_contain_text("of hello started")
    expect(page.locator("tr[data-key^='run ']")).to_contain_text("succeeded")
    assert page.evaluate("window.same") is True
    toast(page).get_by_role("link", name="open").click()
    expect(page.locator(".log")).to_contain_text("hello from a run")
    expect(page.locator(".log")).to_contain_text("at its end")
    assert "/runs/" in page.url


def test_jobs_are_paused_with_a_reason_and_taken_back(page: Page, site: Site, client: Client) -> None:
    """Two of a filtered list are chosen, paused together, and enabled again by the receipt."""
    for name in ("steps-a", "steps-b", "steps-c"):
        client.jobs.add(name, command="true", schedule="@yearly")
    page.goto(f"{site.url}jobs?q=steps")
    for name in ("steps-a", "steps-c"):
        page.get_by_label(f"Choose {name}").check()
    expect(page.locator("[data-count]")).to_have_text("2 chosen")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("the supplier moves")
    page.keyboard.press("Enter")
    expect(toast(page)).to_contain_text("2 jobs paused")
    assert [client.jobs.get(f"steps-{each}").state for each in "abc"] == ["paused", "enabled", "paused"]
    assert client.jobs.get("steps-c").reason == "the supplier moves"
    assert page.url == f"{site.url}jobs?q=steps"
    toast(page).get_by_role("button", name="Undo").click()
    expect(toast(page)).to_contain_text("2 jobs resumed")
    expect(page.get_by_text("2 jobs paused")).to_have_count(0)
    assert client.jobs.get("steps-a").state == "enabled"


@pytest.mark.prove
def test_eighteen_jobs_are_in_view(page: Page, site: Site, client: Client) -> None:
    """At 1440 × 900 pixels, in five groups; the longest schedule makes no table wider than its place."""
    client.jobs.add("view0-long", noop=True, schedule="0 7 5 1,4,7,10 *", time_zone="America/Argentina/Buenos_Aires")
    for n in range(25):
        client.jobs.add(f"view{n // 4}-{n:02}", noop=True, schedule="@yearly")
    page.goto(f"{site.url}jobs?q=view")
    seen = "rows => rows.filter(row => row.getBoundingClientRect().bottom <= innerHeight).length"
    assert page.locator("tr[data-key^='job ']").evaluate_all(seen) >= 18
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for width in (1440, 1280, 1100):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.locator(".sheet").evaluate("sheet => sheet.scrollWidth <= sheet.clientWidth"), width


@pytest.mark.prove
def test_the_line_below_bars_is_a_hairline(page: Page, site: Site, client: Client) -> None:
    """A place of columns is no width of lines."""
    client.jobs.add("hairline", command="exit 3")
    client.runs.wait(client.jobs.trigger("hairline").id, 20)
    page.goto(f"{site.url}failures?job=hairline")
    assert page.locator("td svg path").evaluate("path => getComputedStyle(path).strokeWidth") == "1px"


@pytest.mark.prove
def test_no_screen_is_wider_than_its_window(page: Page, site: Site, client: Client) -> None:
    """From 320 to 1600 pixels nothing has to be scrolled to the side, whatever names are like; 720 is 1440 at 200 %."""
    long = "long" * 30
    zone, command = "America/Argentina/ComodRivadavia", f"echo {'x' * 300}; exit 3"
    client.jobs.add(long, command=command, schedule="10,20 */7 * * mon-fri", time_zone=zone, owner=long, queue=long)
    run = client.jobs.trigger(long)
    client.runs.wait(run.id, 20)
    client.queues.pause(long, long)
    of_one = [f"jobs/{long}", f"jobs/{long}?tab=definition", f"runs/{run.id}", f"queues/{long}"]
    for address in (
        "",
        "jobs",
        f"jobs?owner={long}&queue={long}",
        "runs",
        "failures",
        "plan",
        "queues",
        *of_one,
        "wall",
    ):
        page.goto(site.url + address)
        for width in (320, 390, 701, 720, 768, 820, 1024, 1100, 1280, 1600):
            page.set_viewport_size({"width": width, "height": 450})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (address, width)
    client.queues.resume(long)


def test_the_keyboard_alone_does_it(page: Page, site: Site, client: Client) -> None:
    """A table is one stop of Tab; keys go to a place, filter, move, open, ask, and answer; focus comes back."""
    for name in ("keys-a", "keys-b", "keys-c"):
        client.jobs.add(name, command="true")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs")
    page.keyboard.press("/")
    page.keyboard.type("keys")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=keys")
    expect(page.locator("tr[data-key^='job ']")).to_have_count(3)
    assert page.locator("tbody [tabindex='0']").count() == 1
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "keys-b"
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/keys-b")
    page.keyboard.press("p")
    page.get_by_role("dialog").get_by_label("Reason").wait_for()
    page.keyboard.type("by hand")
    page.keyboard.press("Enter")
    expect(toast(page)).to_contain_text("keys-b paused")
    assert client.jobs.get("keys-b").reason == "by hand"


def test_without_a_script_everything_is_read_and_done(browser: Browser, site: Site, client: Client) -> None:
    """Slower, with a page for each question; the receipt stands on the next one."""
    client.jobs.add("plain", command="true")
    with closing(browser.new_context(java_script_enabled=False)) as context, closing(context.new_page()) as tab:
        tab.set_default_timeout(PATIENCE)
        tab.goto(site.entry)
        tab.goto(f"{site.url}jobs?q=plain")
        tab.get_by_role("link", name="plain", exact=True).click()
        tab.get_by_role("link", name="Pause…").click()
        tab.get_by_label("Reason").fill("no script")
        tab.locator("#ask").get_by_role("button", name="Pause").click()
        assert tab.url == f"{site.url}jobs/plain"
        expect(toast(tab)).to_contain_text("plain paused")
        tab.locator(".head").get_by_role("button", name="Resume").click()
        expect(toast(tab)).to_contain_text("plain resumed")
    assert client.jobs.get("plain").state == "enabled"


@pytest.mark.prove
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
        "",
        "jobs",
        "jobs/evil",
        "jobs/evil?tab=definition",
        "jobs/paused",
        f"jobs?q={quote(evil)}",
        f"jobs?owner={quote(evil)}",
        "jobs?group=owner",
        "runs",
        f"runs/{held.id}",
        f"runs/{run.id}",
        f"do/jobs.pause?on={quote(evil)}&back={quote(evil)}&reason={quote(evil)}",
        "api/docs",
    ):
        page.goto(site.url + address)
        hurt = page.evaluate("[window.hurt, document.querySelectorAll('[onerror], script:not([src])').length]")
        assert hurt == [None, 0], address
    page.goto(f"{site.url}runs/{run.id}")
    expect(page.locator(".log")).to_contain_text(evil)
    client.queues.resume("evil")
    client.runs.cancel(held.id)


@pytest.mark.prove
def test_a_refusal_is_shown(page: Page, site: Site, client: Client, faults: list[str]) -> None:
    """An order that the node refuses is told where one looks, in the node's words, until it is closed."""
    client.jobs.add("gone", command="true")
    page.goto(f"{site.url}jobs/gone")
    page.get_by_role("link", name="Pause…").click()
    client.jobs.delete("gone")
    with page.expect_response("**/do/jobs.pause"):
        page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("there is no job 'gone'")
    expect(told).to_be_in_viewport()
    told.get_by_role("button", name="Close").click()
    expect(told).to_have_count(0)
    assert all("404" in fault for fault in faults)  # the page of a job that is gone
    page.goto(f"{site.url}jobs")
    faults.clear()


@pytest.mark.prove
def test_what_a_run_waits_for_is_seen(page: Page, site: Site, client: Client) -> None:
    """Who has its place, with a way to that run, and the command that mends it."""
    client.jobs.add("lasts", command="sleep 60", max_running=1)
    first, second = client.jobs.trigger("lasts"), client.jobs.trigger("lasts")
    page.goto(f"{site.url}runs/{second.id}")
    held = page.locator(".why").first
    expect(held).to_contain_text(f"held by run {first.id[-8:]}")
    expect(held.locator("code")).to_have_text("tokimori job update lasts --max-running 2")
    held.get_by_role("link").click()
    page.wait_for_url(f"**/runs/{first.id}")
    expect(page.locator(".why")).to_have_count(0)
    client.runs.cancel(first.id)
    client.runs.cancel(second.id)


def test_somebody_logs_in_with_a_token_and_out(browser: Browser, site: Site, client: Client) -> None:
    """By the form, and is then where he wanted to go; what his role does not include is said where it would be."""
    client.jobs.add("guarded", noop=True)
    made = client.tokens.create("eve", "read")
    with closing(browser.new_context()) as context, closing(context.new_page()) as tab:
        tab.set_default_timeout(PATIENCE)
        tab.goto(f"{site.url}jobs/guarded?tab=schedule")
        assert tab.evaluate("document.activeElement.name") == "token"
        tab.keyboard.type(made.text)
        tab.keyboard.press("Enter")
        tab.wait_for_url(f"{site.url}jobs/guarded?tab=schedule")
        expect(tab.locator(".head .no")).to_contain_text("Run, Pause, Delete need the role operate")
        expect(tab.get_by_role("link", name="Pause…")).to_have_count(0)
        tab.get_by_role("button", name="Log out").click()
        expect(tab.get_by_label("Token")).to_be_visible()
    client.tokens.revoke("eve")


@pytest.mark.prove
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
            tab.get_by_role("link", name="Jobs", exact=True).click()
            tab.get_by_role("link", name="hello", exact=True).click()
            tab.get_by_role("link", name="Run…").click()
            tab.get_by_role("dialog").get_by_role("button", name="Run").click()
            toast(tab).get_by_role("link", name="open").click()
            expect(tab.locator(".log")).to_contain_text("hello from a run")
            tab.get_by_role("button", name="Log out").click()
            expect(tab.get_by_label("Token")).to_be_visible()
    assert len(asked) > 5 and not [each for each in asked if not each.startswith(f"http://{proxy}{PREFIX}/")]


@pytest.mark.prove
def test_a_node_that_is_gone_is_told(browser: Browser, tmp_path: Path) -> None:
    """The page stays, and says that the node does not answer."""
    program = Program(tmp_path)
    site = Site(program)
    with closing(browser.new_page()) as page:
        page.goto(site.entry)
        site.node.kill()
        site.node.communicate()
        expect(page.locator("#live")).to_contain_text("the node does not answer; trying again", timeout=PATIENCE)
        expect(page.get_by_role("heading", name="Now", exact=True)).to_be_visible()
