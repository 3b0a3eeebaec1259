"""Nouns of the page in a real browser: what teams need is made there, and found from the keyboard."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.http.conftest import PATIENCE
from tests.integration.http.site import Site
from tests.integration.http.test_browser import toast
from tokimori.client.client import Client

pytestmark = pytest.mark.filterwarnings("ignore:a blocking call")  # Playwright has a loop in this thread


@pytest.mark.prove
def test_a_token_is_made_for_a_team(page: Page, site: Site, client: Client, faults: list[str]) -> None:
    """In three clicks; what was refused keeps what was typed; the token is shown once."""
    page.goto(f"{site.url}tokens")
    page.get_by_role("link", name="New token…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("team")
    dialog.get_by_label("Only queues").fill("mail")
    assert dialog.get_by_label("Only queues").evaluate("field => field.offsetHeight") < 40  # as in any form
    dialog.get_by_label("Role").select_option("admin")
    dialog.get_by_role("button", name="New token").click()
    expect(dialog.get_by_role("alert")).to_contain_text("has neither jobs nor queues")
    expect(dialog.get_by_label("Name")).to_have_value("team")
    dialog.get_by_label("Role").select_option("operate")
    dialog.get_by_role("button", name="New token").click()
    shown = dialog.locator("[data-copied]")
    expect(shown).to_contain_text("tkm_team_")
    dialog.get_by_role("link", name="I have it").click()
    expect(page.locator("tr[data-key='token team']")).to_contain_text("queue mail")
    expect(page.locator("body")).not_to_contain_text("tkm_team_")
    assert [each.queues for each in client.tokens.list()] == [("mail",)]
    assert all("422" in fault for fault in faults)
    faults.clear()


@pytest.mark.prove
def test_a_calendar_and_a_semaphore_are_made(page: Page, site: Site, client: Client) -> None:
    """By keyboard alone, from the palette; a receipt leads to each."""
    page.goto(site.url)
    for words in ("new calendar", "new semaphore"):
        page.keyboard.press("Control+k")
        page.get_by_label("Job, run, place or verb").fill(words)
        expect(page.locator("[role=option][aria-selected=true]")).to_contain_text(words, ignore_case=True)
        page.keyboard.press("Enter")
        page.get_by_label("Name").fill("holidays" if "calendar" in words else "warehouse")
        page.get_by_label("Dates" if "calendar" in words else "Units").fill("12-25" if "calendar" in words else "2")
        page.get_by_role("dialog").get_by_role("button").first.press("Enter")
        expect(toast(page)).to_contain_text("added" if "calendar" in words else "has 2 units")
    assert client.calendars.get("holidays").dates == ("12-25",)
    assert client.semaphores.get("warehouse").limit == 2
    toast(page).get_by_role("link", name="open").click()
    expect(page.get_by_role("heading", name="warehouse")).to_be_visible()


@pytest.mark.prove
def test_the_wall_says_when_nothing_comes(page: Page, site: Site, client: Client, faults: list[str]) -> None:
    """Data that is old is not shown as if it were new."""
    page.goto(f"{site.url}wall")
    expect(page.locator("#live")).to_contain_text("live")
    page.route("**/wall", lambda route: route.abort())
    client.jobs.add("news", noop=True)
    expect(page.locator("body.silent")).to_be_visible(timeout=PATIENCE)
    page.unroute("**/wall")
    expect(page.locator("body.silent")).to_have_count(0)
    faults.clear()


@pytest.mark.prove
def test_a_link_and_a_command_are_copied(page: Page, site: Site, client: Client) -> None:
    """The whole address, with the line that is lit, and what asks for the same once more: over plain HTTP too."""
    client.jobs.add("hello", command="echo one; echo two")
    run = client.jobs.trigger("hello", payload='{"to": "a b"}')
    client.runs.wait(run.id)
    page.goto(f"{site.url}runs/{run.id}?line=2#L2")
    page.evaluate("document.addEventListener('copy', () => (window.copied = document.activeElement.value))")
    page.get_by_role("button", name="Copy link").dblclick()
    expect(page.get_by_role("button", name="Copied")).to_be_focused()
    assert page.evaluate("copied") == f"{site.url}runs/{run.id}?line=2#L2"
    page.get_by_role("button", name="Copy as command").press("Enter")
    assert page.evaluate("copied") == """tokimori job trigger hello --payload '{"to": "a b"}'"""
    expect(page.get_by_role("button", name="Copied")).to_have_count(0, timeout=PATIENCE)
    expect(page.get_by_role("button", name="Copy link")).to_be_visible()


@pytest.mark.prove
def test_trends_are_drawn_and_stay_when_the_page_is_refreshed(page: Page, site: Site, client: Client) -> None:
    """Curves within the policy of the page, from the table below them; another span draws them anew."""
    client.jobs.add("slower", command="true")
    for _ in range(2):
        client.runs.await_end(client.jobs.trigger("slower").id)
    page.goto(f"{site.url}jobs/slower?tab=trends")
    curves = page.locator(".trends > li").count()
    assert curves >= 3
    expect(page.locator(".trends canvas")).to_have_count(curves)
    expect(page.locator(".trends .u-value").nth(1)).to_contain_text("s")
    client.runs.await_end(client.jobs.trigger("slower").id)
    expect(page.locator("#trends tbody tr").first).to_contain_text("3", timeout=PATIENCE)
    expect(page.locator(".trends canvas")).to_have_count(curves)
    page.get_by_role("link", name="7 d").click()
    expect(page.locator(".trends canvas")).to_have_count(curves)


@pytest.mark.prove
def test_a_job_of_the_graph_opens_beside_it(page: Page, site: Site, client: Client) -> None:
    """A click opens it without another page, back closes it, and the address opens it again."""
    client.jobs.add("extract", command="true")
    client.jobs.add("load", command="true", parents=[{"job": "extract"}])
    page.goto(f"{site.url}graph")
    page.evaluate("window.same = true")
    page.locator("svg a", has_text="load").click()
    expect(page.get_by_role("complementary")).to_contain_text("extract")
    assert page.evaluate("window.same") is True and "job=load" in page.url
    page.go_back()
    expect(page.get_by_role("complementary")).to_have_count(0)
    page.goto(f"{site.url}graph?job=load")
    expect(page.get_by_role("complementary")).to_contain_text("load")


@pytest.mark.prove
def test_all_that_match_are_paused(page: Page, site: Site, client: Client) -> None:
    """Three clicks: a job, all that match, and the verb; the question says how many."""
    for number in range(3):
        client.jobs.add(f"many-{number}", command="true", queue="bulk")
    page.goto(f"{site.url}jobs?queue=bulk")
    page.get_by_label("Choose many-0").check()
    page.get_by_label("all 3 that match").check()
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Pause 3 jobs that match?")
    dialog.get_by_role("button", name="Pause").click()
    expect(toast(page)).to_contain_text("3 jobs paused")
    assert [client.jobs.get(f"many-{number}").state for number in range(3)] == ["paused"] * 3


def test_what_is_typed_before_a_question_has_come_stands_in_it(page: Page, site: Site, client: Client) -> None:
    """A letter of the reason is no key for another act, however slowly the question comes."""
    client.jobs.add("hasty", command="true", schedule="@yearly")
    coming = list[Route]()
    page.route("**/do/jobs.pause*", lambda route: coming.append(route))  # noqa: PLW0108  Playwright wants a function
    page.goto(f"{site.url}jobs/hasty")
    for key in ("p", *"repair"):
        page.keyboard.press(key)
    coming.pop().continue_()
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_have_value("repair")
    assert not coming


def test_what_is_typed_before_the_palette_has_come_stands_in_it(page: Page, site: Site, client: Client) -> None:
    """However slowly its script comes, and how often it is asked for."""
    client.jobs.add("release", command="true")
    coming = list[Route]()
    page.route("**/palette.js*", lambda route: coming.insert(0, route))
    page.goto(f"{site.url}jobs")
    for key in ("Control+k", "Control+k", *"relea"):
        page.keyboard.press(key)
    coming.pop().continue_()
    expect(page.get_by_role("combobox", name="Job, run")).to_have_value("relea")
    expect(page.get_by_role("option", name="Run release")).to_be_visible()
