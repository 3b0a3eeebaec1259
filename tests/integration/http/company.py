"""A company's jobs for tests of the page, and two who use it: one with a mouse, and one with a keyboard alone."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from playwright.sync_api import Browser, Locator, Page, expect

from tokimori.client.client import Client

PATIENCE: Final = 20_000
"""Milliseconds."""
REFUSED: Final = "echo 'connection refused: db-{}:5432' >&2; exit 1"
SLOW: Final = "for n in $(seq 1 60); do echo step $n; done; test $TOKIMORI_PAYLOAD || sleep 600"
WHERE: Final = """wanted => {
  const at = document.activeElement, row = wanted.closest("tbody tr");
  if (at === wanted) return "";
  const line = wanted.closest(".log a") && at.closest(".log a");
  if (line) return at.compareDocumentPosition(wanted) & 4 ? "ArrowDown" : "ArrowUp";
  if (!row) return "Tab";
  if (!at.closest("tbody tr")) return "j";
  if (row.contains(at)) return at.compareDocumentPosition(wanted) & 4 ? "ArrowRight" : "ArrowLeft";
  return at.compareDocumentPosition(row) & 4 ? "ArrowDown" : "ArrowUp";
}"""
"""The key that leads nearer to an element from where one is."""


def fill(client: Client) -> None:
    """Make jobs of all kinds, with a past: some ran, some failed, some were skipped, and some run for long."""
    night = datetime.now(UTC) - timedelta(days=3)
    nightly = "nightly-report"
    client.jobs.add_since(nightly, night, command="true", schedule="0 2 * * *", time_zone="UTC", misfire="skip")
    for n in range(12):
        client.jobs.add(f"shop-{n:02}", noop=True, schedule=f"{n} 3 * * *", queue="shop", owner="sales")
    client.jobs.add("etl-extract", command="echo extracted")
    client.jobs.add("etl-load", command="echo loaded", parents=[{"job": "etl-extract"}])
    client.jobs.add("etl-publish", command="echo published", parents=[{"job": "etl-load"}])
    client.jobs.add("invoice", command="echo got $TOKIMORI_PAYLOAD", schedule="0 9 * * *", owner="sales")
    client.jobs.update("invoice", schedule="30 9 * * *")
    for hand in ("mouse", "keys"):
        client.jobs.add(f"slow-{hand}", command=SLOW)
        client.runs.wait(client.jobs.trigger(f"slow-{hand}", payload="quick").id, 30)
        client.jobs.add(f"doomed-{hand}", command="sleep 600")
        client.jobs.trigger(f"slow-{hand}")
        client.jobs.trigger(f"doomed-{hand}")
        for n in range(3):
            client.jobs.add(f"{hand}-sync-{n}", command=REFUSED.format(hand))
            client.jobs.trigger(f"{hand}-sync-{n}")
    first = client.jobs.trigger("etl-extract")
    assert client.runs.wait(first.id, 30).state == "succeeded"


class Mouse:
    """Somebody who clicks; typing is no click, sending a form is one."""

    name = "mouse"

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    def press(self, wanted: Locator) -> None:
        """Press a link or a button."""
        wanted.click()
        self.count += 1

    def write(self, wanted: Locator, text: str) -> None:
        """Fill a field."""
        wanted.fill(text)

    def send(self, wanted: Locator) -> None:
        """Send the form in whose field one types, by its button."""
        self.press(wanted)

    def place(self, name: str) -> None:
        """Go to a place of the rail."""
        self.press(self.page.locator(".rail").get_by_role("link", name=name))

    def find(self, text: str, option: str) -> None:
        """Look for something in the palette, and take it."""
        self.press(self.page.locator("[data-find]"))
        self.page.get_by_role("combobox", name="Job, run").fill(text)
        self.press(self.page.get_by_role("option", name=option))


class Keys:
    """Somebody who has a keyboard alone. Strokes count that move or press, not what is typed into a field."""

    name = "keys"

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    def stroke(self, key: str) -> None:
        """Press a key."""
        self.page.keyboard.press(key)
        self.count += 1

    def _reach(self, wanted: Locator) -> None:
        wanted.wait_for()
        for _ in range(90):
            if not (key := wanted.evaluate(WHERE)):
                return
            self.stroke(key)
        raise AssertionError(f"no way leads to {wanted}")

    def press(self, wanted: Locator) -> None:
        """Press a link or a button."""
        self._reach(wanted)
        self.stroke("Enter")

    def write(self, wanted: Locator, text: str) -> None:
        """Fill a field."""
        self._reach(wanted)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def send(self, wanted: Locator) -> None:
        """Send the form in whose field one types."""
        self.stroke("Control+Enter")

    def place(self, name: str) -> None:
        """Go to a place by the palette."""
        self.find(name, name)

    def find(self, text: str, option: str) -> None:
        """Look for something in the palette, and take it."""
        self.stroke("Control+k")
        wanted = self.page.get_by_role("option", name=option).first
        self.page.keyboard.type(text)
        wanted.wait_for()
        for _ in range(30):
            if wanted.get_attribute("aria-selected") == "true":
                return self.stroke("Enter")
            self.stroke("ArrowDown")
        raise AssertionError(f"{option} is never chosen")


Hand = Mouse | Keys


@contextmanager
def stranger(browser: Browser) -> Iterator[Page]:
    """A tab of a browser that has never been here."""
    with closing(browser.new_context(viewport={"width": 1440, "height": 900})) as context:
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        yield tab


def check_link(page: Page, browser: Browser, token: str, shows: str) -> None:
    """The address that is open shows the same after a reload, on the way back, and to a colleague after a login."""
    address, shown = page.url, page.locator("main")
    page.reload()
    expect(shown).to_contain_text(shows)
    page.goto(f"{page.evaluate('location.origin')}/secrets")
    page.go_back()
    assert page.url == address
    expect(shown).to_contain_text(shows)
    with stranger(browser) as tab:
        tab.goto(address)
        tab.get_by_label("Token").wait_for()
        tab.keyboard.type(token)
        tab.keyboard.press("Enter")
        tab.wait_for_url(address)
        expect(tab.locator("main")).to_contain_text(shows)
