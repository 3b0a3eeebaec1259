"""Nouns of the page in a real browser: what teams need is made there, and found from the keyboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of
from tests.integration.http.test_browser import PATIENCE, browser, faults, page, toast
from tokimori.client.client import Client

pytestmark = pytest.mark.filterwarnings("ignore:a blocking call")  # Playwright has a loop in this thread
__all__ = ("browser", "faults", "page")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """One at home in a folder."""
    return Program(tmp_path_factory.mktemp("nouns"))


@pytest.fixture(scope="module")
def site(program: Program) -> Iterator[Site]:
    """One for all tests here."""
    with site_of(program) as site:
        yield site


@pytest.fixture(scope="module")
def client(program: Program, site: Site) -> Iterator[Client]:
    """A client of the same store."""
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        yield client


def test_a_token_is_made_for_a_team(page: Page, site: Site, client: Client, faults: list[str]) -> None:
    """In three clicks; what was refused keeps what was typed; the token is shown once."""
    page.goto(f"{site.url}tokens")
    page.get_by_role("link", name="New token…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("team")
    dialog.get_by_label("Only queues").fill("mail")
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


def test_the_wall_says_when_nothing_comes(page: Page, site: Site, faults: list[str], tmp_path: Path) -> None:
    """Data that is old is not shown as if it were new."""
    page.goto(f"{site.url}wall")
    expect(page.locator("#live")).to_contain_text("live")
    page.route("**/wall", lambda route: route.abort())
    expect(page.locator("body.silent")).to_be_visible(timeout=PATIENCE)
    page.unroute("**/wall")
    expect(page.locator("body.silent")).to_have_count(0)
    faults.clear()
