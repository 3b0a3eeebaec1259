"""Tasks that an operator has, each in three clicks from the first screen, and by keyboard alone; their links last."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.company import Hand, Keys, Mouse, check_link, fill
from tests.integration.http.site import Site
from tests.integration.http.test_browser import toast
from tokimori.client.client import Client

pytestmark = pytest.mark.filterwarnings("ignore:a blocking call")  # Playwright has a loop in this thread
MOST_CLICKS: Final = 3
MOST_STROKES: Final = 75


@pytest.fixture(scope="module")
def client(program: Program, site: Site) -> Iterator[Client]:
    """A client of the same store, which is filled."""
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        fill(client)
        yield client
        for run in client.runs.list(state="running"):
            client.runs.cancel(run.id)


@pytest.fixture(scope="module")
def token(client: Client) -> str:
    """A colleague's token."""
    return client.tokens.create("colleague", "admin").text


@pytest.fixture(autouse=True)
def half_typed(page: Page, faults: list[str]) -> Iterator[None]:
    """A preview of what is half typed is refused, which the browser tells as a fault."""
    yield
    faults[:] = [fault for fault in faults if "422" not in fault]


@pytest.fixture
def linked(page: Page, browser: Browser, token: str) -> Callable[[str], None]:
    """Check the link to what is open."""
    return partial(check_link, page, browser, token)


def run_page(page: Page) -> Locator:
    """The page of a run, when it is there."""
    page.wait_for_url("**/runs/*")
    return page.locator("main")


def why_not_last_night(hand: Hand, page: Page, client: Client) -> str:
    """1: Why did this job not run last night?"""
    hand.find("nightly-report", "nightly-report enabled")
    expect(page.locator(".why")).to_contain_text("became no run, because no node decided it in time")
    hand.press(page.get_by_role("link", name="Occurrences"))
    page.wait_for_url("**tab=occurrences")
    return "became no run"


def why_failed(hand: Hand, page: Page, client: Client) -> str:
    """2: Why did it fail?"""
    hand.place("Failures")
    hand.press(page.locator("a[title^='The newest of these runs']").first)
    expect(run_page(page)).to_contain_text("All with this cause")
    return "connection refused: db-"


def running_now(hand: Hand, page: Page, client: Client) -> str:
    """3: What runs now, and how long still?"""
    row = page.get_by_role("table", name="Running now").get_by_role("row").filter(has_text=f"slow-{hand.name}")
    expect(row).to_contain_text(re.compile("of ~.*(left|over)", re.DOTALL))
    return f"slow-{hand.name}"


def follow_a_log(hand: Hand, page: Page, client: Client) -> str:
    """4: Follow a log and search in it."""
    hand.press(page.get_by_role("table", name="Running now").get_by_role("link", name=f"slow-{hand.name}", exact=True))
    expect(run_page(page).locator(".log")).to_contain_text("step 60")
    expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "true")
    hand.write(page.get_by_label("Search in the output"), "step 4")
    expect(page.locator(".logbar [role=status]")).to_contain_text("of 11")
    assert "find=step+4" in page.url
    return "step 4"


def next_24_hours(hand: Hand, page: Page, client: Client) -> str:
    """5: What fires in the next 24 hours?"""
    client.jobs.add(name := f"hourly-{hand.name}", noop=True, schedule="@hourly")  # at whatever hour the test is run
    hand.place("Plan")
    hand.press(page.get_by_text("The same as a list"))
    expect(page.get_by_role("table", name="Firings to come")).to_contain_text(name)
    return name


def a_month(hand: Hand, page: Page, client: Client) -> str:
    """6: See a month of one job."""
    hand.find("invoice", "invoice enabled")
    hand.press(page.get_by_role("link", name="Schedule"))
    expect(page.get_by_role("list", name="occurrences of each day")).to_be_visible()
    return "occurrence a day"


def cancel_a_run(hand: Hand, page: Page, client: Client) -> str:
    """7: Cancel a run."""
    job = f"doomed-{hand.name}"
    hand.press(page.get_by_role("link", name=f"Cancel {job}…"))
    hand.press(page.get_by_role("dialog").get_by_role("button", name="Cancel"))
    expect(toast(page)).to_contain_text("cancelled")
    (run,) = client.runs.list(job_id=job)
    assert client.runs.wait(run.id, 20).state == "cancelled"
    return "Just ended"


def run_with_a_payload(hand: Hand, page: Page, client: Client) -> str:
    """8: Run a job with a payload."""
    hand.find("invoice", "Run invoice…")
    hand.write(page.get_by_role("dialog").get_by_label("Payload"), f'{{"of": "{hand.name}"}}')
    hand.press(page.get_by_role("dialog").get_by_role("button", name="Run"))
    expect(toast(page)).to_contain_text("of invoice started")
    (run, *_) = client.runs.list(job_id="invoice")
    assert run.payload == f'{{"of": "{hand.name}"}}'
    return "invoice"


def pause_a_group(hand: Hand, page: Page, client: Client) -> str:
    """9: Pause a group, with a reason."""
    hand.place("Jobs")
    hand.press(page.get_by_role("link", name="Pause the group shop…"))
    hand.write(page.get_by_role("dialog").get_by_label("Reason"), "the shop is closed")
    hand.press(page.get_by_role("dialog").get_by_role("button", name="Pause"))
    expect(toast(page)).to_contain_text("12 jobs paused")
    assert {job.reason for job in client.jobs.list(prefix="shop-")} == {"the shop is closed"}
    for job in client.jobs.list(prefix="shop-"):
        client.jobs.resume(job.id)
    return "shop-"


def edit_a_schedule(hand: Hand, page: Page, client: Client) -> str:
    """10: Edit a schedule with a preview."""
    hour = {"mouse": 5, "keys": 6}[hand.name]
    hand.find("invoice", "Edit invoice")
    hand.write(page.get_by_label("Schedule", exact=True), f"15 {hour} * * *")
    expect(page.locator("#look .sentence")).to_contain_text(f"{hour}:15")
    hand.send(page.get_by_role("button", name="Save version"))
    page.wait_for_url("**/jobs/invoice")
    assert client.jobs.get("invoice").schedule == f"15 {hour} * * *"
    return f"15 {hour} * * *"


def create_a_job(hand: Hand, page: Page, client: Client) -> str:
    """11: Create a job."""
    hand.place("Jobs")
    hand.press(page.get_by_role("link", name="New job"))
    hand.write(page.get_by_label("Id", exact=True), f"made-by-{hand.name}")
    hand.write(page.get_by_label("Command", exact=True), "echo hello")
    hand.write(page.get_by_label("Schedule", exact=True), "every 5 minutes")
    hand.send(page.get_by_role("button", name="Add"))
    page.wait_for_url("**/jobs/made-by-*")
    assert client.jobs.get(f"made-by-{hand.name}").command == "echo hello"
    return f"made-by-{hand.name}"


def see_a_family(hand: Hand, page: Page, client: Client) -> str:
    """12: See a family as a graph, of one run too."""
    hand.place("Graph")
    hand.press(page.locator(".plane").get_by_role("link", name="etl-load"))
    hand.press(page.get_by_role("complementary").get_by_role("link", name="Last run"))
    family = run_page(page).get_by_role("region", name="Family of this run")
    expect(family.get_by_role("link", name=re.compile("etl-extract.*succeeded"))).to_be_visible()
    expect(family.get_by_role("link", name=re.compile("etl-publish.*succeeded"))).to_be_visible()
    return "etl-publish"


def retry_a_cause(hand: Hand, page: Page, client: Client) -> str:
    """13: All failures of the last day with the same cause, retried together."""
    jobs = [f"{hand.name}-sync-{n}" for n in range(3)]
    hand.place("Failures")
    cause = page.get_by_role("row").filter(has_text=f"{jobs[0]}")
    hand.press(cause.get_by_role("link", name=re.compile("^Retry")))
    hand.press(page.get_by_role("dialog").get_by_role("button", name="Retry"))
    expect(toast(page)).to_contain_text("runs retried")
    assert all(len(client.runs.list(job_id=job)) >= 2 for job in jobs)
    return "connection refused"


def who_changed_it(hand: Hand, page: Page, client: Client) -> str:
    """14: Who changed what, and what it was before?"""
    hand.find("invoice", "invoice enabled")
    hand.press(page.get_by_role("link", name="Changes"))
    changes = page.get_by_role("table", name="Changes of invoice")
    expect(changes).to_contain_text("- schedule = 0 9 * * *")
    expect(changes).to_contain_text("+ schedule = 30 9 * * *")
    return "+ schedule = 30 9 * * *"


def slower_or_later(hand: Hand, page: Page, client: Client) -> str:
    """15: Is it getting slower or later?"""
    hand.find("etl-extract", "etl-extract enabled")
    hand.press(page.get_by_role("link", name="Trends"))
    page.wait_for_url("**tab=trends*")
    expect(page.locator(".trends")).to_contain_text(re.compile("Took.*Late", re.DOTALL))
    return "Late"


def make_what_a_team_needs(hand: Hand, page: Page, client: Client) -> str:
    """16: Make a token for a team."""
    hand.place("Tokens")
    hand.press(page.get_by_role("link", name="New token…"))
    dialog = page.get_by_role("dialog")
    hand.write(dialog.get_by_label("Name"), f"team-{hand.name}")
    hand.write(dialog.get_by_label("Only queues"), "shop")
    hand.press(dialog.get_by_role("button", name="New token"))
    expect(dialog.locator("[data-copied]")).to_contain_text(f"tkm_team-{hand.name}_")
    return "colleague"


def make_a_calendar(hand: Hand, page: Page, client: Client) -> str:
    """16: Make a calendar."""
    hand.place("Calendars")
    hand.press(page.get_by_role("link", name="New calendar…"))
    hand.write(page.get_by_role("dialog").get_by_label("Name"), f"days-{hand.name}")
    hand.write(page.get_by_role("dialog").get_by_label("Dates"), "12-25")
    hand.press(page.get_by_role("dialog").get_by_role("button", name="New calendar"))
    expect(toast(page)).to_contain_text("added")
    assert client.calendars.get(f"days-{hand.name}").dates == ("12-25",)
    return f"days-{hand.name}"


def make_a_semaphore(hand: Hand, page: Page, client: Client) -> str:
    """16: Make a semaphore."""
    hand.place("Semaphores")
    hand.press(page.get_by_role("link", name="New semaphore…"))
    hand.write(page.get_by_role("dialog").get_by_label("Name"), f"three-{hand.name}")
    hand.write(page.get_by_role("dialog").get_by_label("Units"), "3")
    hand.press(page.get_by_role("dialog").get_by_role("button", name="New semaphore"))
    expect(toast(page)).to_contain_text("3 units")
    assert client.semaphores.get(f"three-{hand.name}").limit == 3
    return f"three-{hand.name}"


def link_to_a_line(hand: Hand, page: Page, client: Client) -> str:
    """18: Send a colleague a link to one line of one log."""
    hand.place("Failures")
    hand.press(page.locator("a[title^='The newest of these runs']").first)
    hand.press(run_page(page).get_by_role("link", name="1", exact=True))
    page.wait_for_url("**line=1#L1")
    expect(page.locator(".log .hit")).to_contain_text("connection refused")
    return "connection refused"


TASKS: Final[list[Callable[[Hand, Page, Client], str]]] = [
    *(why_not_last_night, why_failed, running_now, follow_a_log, next_24_hours, a_month, cancel_a_run),
    *(run_with_a_payload, pause_a_group, edit_a_schedule, create_a_job, see_a_family, retry_a_cause),
    *(who_changed_it, slower_or_later, make_what_a_team_needs, make_a_calendar, make_a_semaphore, link_to_a_line),
]


@pytest.mark.prove
@pytest.mark.parametrize("task", TASKS)
def test_it_takes_three_clicks(
    task: Callable[[Hand, Page, Client], str], page: Page, client: Client, linked: Callable[[str], None]
) -> None:
    """From the first screen; what is then open has an address that a reload, the way back and a login keep."""
    page.reload()  # now that there is something to see
    hand = Mouse(page)
    shows = task(hand, page, client)
    assert hand.count <= MOST_CLICKS
    linked(shows)


@pytest.mark.prove
@pytest.mark.parametrize("task", TASKS)
def test_it_is_done_by_keyboard_alone(task: Callable[[Hand, Page, Client], str], page: Page, client: Client) -> None:
    """Nothing is out of the reach of keys, and nothing is far (task 17)."""
    page.reload()
    hand = Keys(page)
    task(hand, page, client)
    assert hand.count <= MOST_STROKES
