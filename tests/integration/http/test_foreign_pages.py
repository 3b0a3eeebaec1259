"""Pages of others in the browser of somebody who is let in: what they try at the door of a real node."""

import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of
from tests.servers import browser as browsers

MOST_DELAY = 0.5
"""Seconds by which nobody may delay the node."""
SCHEDULE = "* * * * *;" * 900 + "0 0 29 2 *;" * 100
"""Some ten thousand characters: with its address below the limit of a header."""
ATTACK = """
async ([node, canary]) => {
  const read = [], job = JSON.stringify({ id: "evil", command: `id > ${canary}` });
  const wait = (element, address) => new Promise((done) => {
    for (const event of ["load", "error"]) element.addEventListener(event, () => done(event), { once: true });
    setTimeout(done, 4000);
    element[element.localName === "link" ? "href" : "src"] = address;
    document.body.append(element);
  });
  const make = (name, given = {}) => Object.assign(document.createElement(name), given);
  const tries = [];
  const heavy = `?schedule=${encodeURIComponent(SCHEDULE)}`;
  for (const path of ["", "static/tokimori.svg", "healthz", "api/v2/jobs", "api/docs", "login", "logout", heavy]) {
    tries.push(wait(make("img"), node + path).then((event) => event === "load" && read.push(`img ${path}`)));
    tries.push(fetch(node + path, { credentials: "include" }).then((a) => a.text()).then((t) => read.push(t), () => 0));
    tries.push(fetch(node + path, { mode: "no-cors", credentials: "include" }).then((a) => a.text())
      .then((text) => text && read.push(text), () => 0));
  }
  tries.push(wait(make("script"), `${node}static/console.js`).then((e) => e === "load" && read.push("script")));
  for (const path of ["api/docs", "api/v2/openapi.json"])
    tries.push(wait(make("script"), node + path).then((e) => e === "load" && read.push(`script ${path}`)));
  for (const path of ["static/console.css", "api/docs.css"])
    tries.push(wait(make("link", { rel: "stylesheet" }), node + path).then((e) => e === "load" && read.push(path)));
  tries.push(new Promise((done) => {
    const line = new WebSocket(`${node.replace("http", "ws")}api/v2/runs`);
    line.onopen = () => { read.push("socket"); done(); };
    line.onerror = done;
  }));
  tries.push(wait(make("iframe"), node).then(() => {
    for (const { contentWindow } of document.querySelectorAll("iframe")) try {
      const text = contentWindow.document.body.textContent;
      if (text) read.push(text);
    } catch {}
  }));
  for (const type of ["text/plain", "application/json"]) for (const mode of ["cors", "no-cors"])
    tries.push(fetch(`${node}api/v2/jobs`, {
      method: "POST", mode, credentials: "include", headers: { "content-type": type }, body: job,
    }).then((answer) => answer.text()).then((text) => text && read.push(text), () => 0));
  navigator.sendBeacon(`${node}logout`);
  navigator.sendBeacon(`${node}api/v2/jobs`, new Blob([job], { type: "text/plain" }));
  tries.push(new Promise((done) => {
    const source = new EventSource(`${node}api/v2/runs`, { withCredentials: true });
    source.onmessage = source.onopen = () => read.push("events");
    source.onerror = () => { source.close(); done(); };
    setTimeout(done, 4000);
  }));
  for (const [path, name, value] of [["api/v2/jobs", job.slice(0, -1) + ',"x":"', '"}'], ["api/v2/pause", "{}", ""],
    ["login", "token", "theirs"], ["logout", "a", "b"]]) {
    const enctype = path.startsWith("log") ? "application/x-www-form-urlencoded" : "text/plain";
    const form = make("form", { method: "post", enctype, action: node + path, target: path });
    form.append(make("input", { name, value }));
    document.body.append(make("iframe", { name: path }), form);
    form.submit();
  }
  await Promise.all(tries);
  await new Promise((done) => setTimeout(done, 500));
  return read;
}
"""


class Blank(BaseHTTPRequestHandler):
    """The server of the others: a page on which the attack is carried out."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Kittens</title><link rel=icon href=data:,><body>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def foreign() -> Iterator[int]:
    """The port of the server of the others."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """One at home in a folder."""
    return Program(tmp_path_factory.mktemp("foreign"))


@pytest.fixture(scope="module")
def site(program: Program) -> Iterator[Site]:
    """A node that the browser's user is let in by."""
    with site_of(program) as site:
        yield site


@pytest.fixture(scope="module")
def context(site: Site) -> Iterator[BrowserContext]:
    """A browser that has the node's cookie, and for which the names of others lead to this machine."""
    path = browsers.program()
    assert path is not None
    arguments = ["--host-resolver-rules=MAP *.example 127.0.0.1", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with (
        sync_playwright() as playwright,
        closing(playwright.chromium.launch(executable_path=path, args=arguments)) as browser,
    ):
        context = browser.new_context()
        own = context.new_page()
        own.goto(site.entry)
        assert (own.url, own.title()) == (site.url, "Now · Tokimori")
        yield context


@contextmanager
def watched(site: Site) -> Iterator[list[float]]:
    """How long the node took to answer, in seconds, again and again meanwhile."""
    took: list[float] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            began = time.monotonic()
            with urllib.request.urlopen(f"{site.url}healthz") as answer:  # noqa: S310
                answer.read()
            took.append(time.monotonic() - began)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def attacked(page: Page, site: Site, canary: Path) -> tuple[object, dict[str, set[int]]]:
    """What the attack has read, and the statuses with which the node has answered it, by method and path.

    The browser tells of them below what a page, or Playwright, gets to see: it keeps most of these answers from both.
    """
    asked: dict[str, str] = {}
    answers: list[tuple[str, int]] = []
    statuses: dict[str, set[int]] = {}

    def note(method: str, url: str, status: int) -> None:
        if url.startswith(site.url):
            statuses.setdefault(f"{method} /{url.removeprefix(site.url).partition('?')[0]}", set()).add(status)

    def sent(event: dict[str, Any]) -> None:
        asked[event["requestId"]] = f"{event['request']['method']} {event['request']['url']}"

    below = page.context.new_cdp_session(page)
    below.on("Network.requestWillBeSent", sent)
    below.on(
        "Network.responseReceivedExtraInfo", lambda event: answers.append((event["requestId"], event["statusCode"]))
    )
    below.send("Network.enable")
    page.on("response", lambda answer: note(answer.request.method, answer.url, answer.status))
    read = page.evaluate(ATTACK.replace("SCHEDULE", json.dumps(SCHEDULE)), [site.url, str(canary)])
    page.wait_for_timeout(500)  # the last of the events are still on their way
    for request, status in answers:  # the browser may tell of an answer before it tells of its request
        method, _, url = asked.get(request, "? ?").partition(" ")
        note(method, url, status)
    return read, statuses


@pytest.mark.parametrize(
    "host", ["kittens.example", *(pytest.param(host, marks=pytest.mark.prove) for host in ("127.0.0.1", "localhost"))]
)
def test_a_page_of_others_gets_nothing(
    context: BrowserContext, program: Program, site: Site, foreign: int, host: str
) -> None:
    """Of another site, or of another port of this host, to which the browser sends our cookie: nothing is read, nothing
    runs, and the node is delayed by less than 500 ms.
    """
    canary = program.home / "canary"
    with closing(context.new_page()) as page:
        page.goto(f"http://{host}:{foreign}/")
        with watched(site) as before:
            page.wait_for_timeout(3_000)
        with watched(site) as meanwhile:
            read, statuses = attacked(page, site, canary)
    assert read == []
    seen = {status for each in statuses.values() for status in each}
    assert 403 in seen and seen <= {403, 431}, statuses  # 431: a schedule of 48 KB is too long for an address
    assert {"GET /", "GET /api/v2/jobs", "POST /api/v2/jobs", "POST /api/v2/pause"} <= {*statuses}
    assert {"GET /api/docs", "POST /login", "POST /logout"} <= {*statuses}
    assert [each["name"] for each in context.cookies()] == [f"tokimori-{site.url.rstrip('/').rpartition(':')[2]}"]
    assert max(meanwhile) - max(before) < MOST_DELAY, (max(before), max(meanwhile))
    assert program.json("job", "list") == [] and program.json("run", "list") == []
    assert [queue["name"] for queue in program.json("queue", "list") if queue["pauses"]] == []
    assert not canary.exists()


def test_a_name_of_others_that_leads_here_gets_nothing(context: BrowserContext, site: Site) -> None:
    """Who makes his own name point to this machine is at his own page with the node's answers: a refusal."""
    with closing(context.new_page()) as page:
        port = site.url.rpartition(":")[2]
        answer = page.goto(f"http://kittens.example:{port}")
        assert answer is not None and answer.status == 403
        read = page.evaluate("() => fetch('/api/v2/jobs').then((answer) => answer.text())")
    assert json.loads(read)["error"]["code"] == "host_not_allowed"


def test_a_link_of_others_leads_in_only_by_a_click(context: BrowserContext, site: Site, foreign: int) -> None:
    """Who follows a link from another site is asked first; a click on the answer leads to what was meant."""
    with closing(context.new_page()) as page:
        page.goto(f"http://kittens.example:{foreign}/")
        page.evaluate("(node) => { location.href = node; }", f"{site.url}jobs?q=x")
        page.get_by_role("link", name="Go on to Tokimori").click()
        page.get_by_role("heading", name="Jobs").first.wait_for()
        assert page.url == f"{site.url}jobs?q=x"


def test_a_browser_without_the_cookie_is_told_what_to_do(context: BrowserContext, site: Site) -> None:
    """A page that says which command prints the address; opened, that leads in, and the secret stays in no address."""
    assert context.browser is not None
    with closing(context.browser.new_context()) as fresh, closing(fresh.new_page()) as page:
        answer = page.goto(site.url)
        assert answer is not None and answer.status == 401
        assert page.locator("pre").inner_text() == "tokimori node address"
        page.goto(site.entry)
        assert page.url == site.url and page.title() == "Now · Tokimori"
        assert page.evaluate("document.cookie") == ""
        (cookie,) = fresh.cookies()
        assert (cookie["sameSite"], cookie["httpOnly"], cookie["value"] != site.secret) == ("Strict", True, True)
        fresh.clear_cookies()
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # somebody comes back to the tab
        page.get_by_text("This node does not know you").wait_for(timeout=20_000)
