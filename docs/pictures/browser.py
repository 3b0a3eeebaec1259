"""Pictures of every screen of the page, by Chromium, at three widths, light and dark."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from playwright.async_api import Browser, Page, Route, async_playwright
from playwright.async_api import Error as Fault

from docs.pictures.company import NOW
from docs.pictures.history import Company
from tests.servers.browser import program
from tokimori.api.app import Health, create_app
from tokimori.api.request_service import AUTHOR, Acting
from tokimori.api.server import HttpDoor
from tokimori.clock import SECOND, Clock
from tokimori.ports.store import RunFilter
from tokimori.service.service import Service
from tokimori.web.page import Page as Pages
from tokimori.web.screens.job import TABS
from tokimori.web.screens.registry import SCREENS
from tokimori.web.toasts import COOKIE, Toast, sealed

SECRET: Final = "a-picture-needs-no-secret"  # noqa: S105
SIZES: Final[Mapping[int, int]] = {1440: 900, 1024: 768, 390: 844}
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
LONGEST: Final = 3_000
"""Pixels of a picture: what stands below is left out."""
LONGEST_LOAD: Final = 120_000
"""Milliseconds: the machine may be busy."""
DRAWN_ONCE: Final = ("job-trends", "plan", "plan-week", "plan-month")
"""Screens that a script draws, or scrolls, for the window in which they are loaded."""
JOB: Final = "etl-orders-load"

UNDONE: Final = Toast(head="2 jobs paused", undo="jobs.resume", on=("shop-reviews", "shop-sitemap"))
REFUSED: Final = Toast(
    head="etl-orders-load was not paused",
    text="The role read may not do it: it needs operate.",
    bad=True,
    command="tokimori job pause etl-orders-load",
)


class Shot(NamedTuple):
    """A picture: its name, the address, and what is done there first. A stranger is not logged in."""

    name: str
    path: str
    keys: tuple[str, ...] = ()
    words: str = ""
    ticks: tuple[str, ...] = ()
    told: Toast | None = None
    is_stranger: bool = False


class Pose(NamedTuple):
    """The window in which a picture is taken."""

    width: int
    height: int
    scheme: Literal["light", "dark"]


POSES: Final = tuple(Pose(*size, scheme) for size in SIZES.items() for scheme in SCHEMES)


@asynccontextmanager
async def served(service: Service, clock: Clock, port: int = 0) -> AsyncIterator[str]:
    """Yield the address at which the page of a service is served."""
    acting = Acting(service)
    page = Pages(acting.service, clock, access_for=acting.access, key=lambda: SECRET)
    health = Health(status="ok", node_id="n", store_reachable=True, version="1")
    app = create_app(
        service,
        clock,
        interface="127.0.0.1",
        secret=SECRET,
        health=lambda: health,
        pages=page.routes(),
        lost=page.lost,
        closed=page.closed,
    )
    door = HttpDoor(app, interface="127.0.0.1", port=port, port_fixed=False)
    await door.start()
    try:
        yield door.url
    finally:
        await door.stop()


async def shots(company: Company) -> list[Shot]:
    """Return all pictures that there are to take."""
    parts = await _parts(company)
    found = [Shot(name, path) for name, path in paths(parts).items()]
    found += [Shot(f"job-{tab}", f"/jobs/{JOB}?tab={tab}") for tab in TABS]
    found += [Shot("run-running", f"/runs/{parts['running']}"), Shot("run-blocked", f"/runs/{parts['blocked']}")]
    found += [Shot("plan-week", "/plan?span=week"), Shot("plan-month", "/plan?span=month")]
    found += [Shot("jobs-chosen", "/jobs?q=etl&owner=data", ticks=("etl-customers-load", "etl-marts-build"))]
    found += [Shot("palette", "/jobs", ("Control+k",), "etl-ord"), Shot("ask-run", f"/do/jobs.trigger?on={JOB}")]
    found += [Shot("ask-pause", f"/do/jobs.pause?on={JOB}"), Shot("keys", "/jobs", ("?",))]
    found += [Shot("dialog", f"/jobs/{JOB}", ("p",), "the supplier moves its servers")]
    found += [Shot("login", "/runs?state=failed", is_stranger=True), Shot("toast", "/jobs", told=UNDONE)]
    found += [Shot("toast-bad", "/jobs", told=REFUSED)]
    return found


def paths(parts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the addresses of the screens by their names; `parts` stands for the parameters of paths."""
    asked = ("/do/{act}", "/failures/{verb}", "/secrets/{name}")  # without a key there is no secret
    return {_name(each.path): _filled(each.path, parts) for each in SCREENS if each.path not in asked}


async def _parts(company: Company) -> Mapping[str, str]:
    """Return what stands for the parameters of paths."""
    runs = await company.store.list_runs(RunFilter(limit=500))
    failed = next(run.id for run in runs if run.job_id == JOB and run.state == "failed")
    entry = (await company.service.audit.list(limit=1))[0].id
    node = (await company.service.nodes.list())[0].id
    states = {state: next(run.id for run in runs if run.state == state) for state in ("running", "blocked")}
    names = {"queue": "etl", "node_id": node, "topic": "orders", "entry_id": entry, "job_id": JOB, "run_id": failed}
    nouns = {
        "calendars": "germany",
        "semaphores": "warehouse",
        "sets": "shop",
        "tasks": "invoice-pdf",
        "tokens": "grafana",
    }
    nouns |= {"expectations": "nas-snapshot", "notifiers": "ops"}
    return {**names, **nouns, **states}


def _filled(path: str, parts: Mapping[str, str]) -> str:
    noun, *rest = path.strip("/").split("/")
    filled = [quote(parts[noun if "{name" in each else each.strip("{}")]) if "{" in each else each for each in rest]
    return "/" + "/".join([noun, *filled])


def _name(path: str) -> str:
    noun, *rest = path.strip("/").split("/")
    one = f"{noun.removesuffix('s')}-one" if noun == "audit" else noun.removesuffix("s")
    return "-".join([one if "{" in path else noun or "now", *(each for each in rest if "{" not in each)])


async def take(company: Company, folder: Path, wanted: Iterable[str], tell: Callable[[str], None]) -> list[str]:
    """Take the pictures whose names fit one of these patterns; return the faults of the browser."""
    patterns, faults = list(wanted) or ["*"], list[str]()
    async with served(company.service, company.clock) as url, async_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=program(), args=arguments)
        for shot in await shots(company):
            named = {f"{shot.name}-{pose.width}-{pose.scheme}": pose for pose in POSES}
            poses = {name: pose for name, pose in named.items() if any(fnmatch(name, each) for each in patterns)}
            for some in [poses] if shot.name not in DRAWN_ONCE else [{name: pose} for name, pose in poses.items()]:
                if some:
                    tell(" ".join(some))
                    faults += await _take(browser, url, shot, some, folder)
        await browser.close()
    return faults


async def _take(browser: Browser, url: str, shot: Shot, poses: Mapping[str, Pose], folder: Path) -> list[str]:
    """Take the pictures of a screen, which is loaded once; return the faults of the browser."""
    width, height, scheme = next(iter(poses.values()))
    tab = await browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        extra_http_headers={} if shot.is_stranger else {"authorization": f"Bearer {SECRET}", AUTHOR: "ana"},
        reduced_motion="reduce",
    )
    tab.set_default_timeout(LONGEST_LOAD)
    faults: list[str] = []
    tab.on("pageerror", lambda fault: faults.append(f"{shot.name}: {fault}"))
    if not shot.is_stranger:  # the answer to whom is an error
        tab.on("console", lambda said: faults.append(f"{shot.name}: {said.text}") if said.type == "error" else None)
    if shot.told is not None:
        await tab.context.add_cookies([{"name": COOKIE, "value": sealed(shot.told, SECRET.encode()), "url": url}])
    await _stop_time(tab)
    await tab.goto(url.rstrip("/") + shot.path)
    try:
        await _prepare(tab, shot)
        for name, pose in poses.items():
            await _expose(tab, pose, folder / f"{name}.png")
            if await tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
                faults.append(f"{name}: it is wider than its window")
    except Fault as fault:
        faults.append(f"{shot.name}: {fault}")
    await tab.close()
    return faults


async def _expose(tab: Page, pose: Pose, file: Path) -> None:
    """Write the picture of a tab as it is in this window; one of a narrow window has the whole screen."""
    width, height, scheme = pose
    await tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await tab.set_viewport_size({"width": width, "height": height})
    if width < max(SIZES):
        whole = await tab.evaluate("document.documentElement.scrollHeight")
        await tab.set_viewport_size({"width": width, "height": min(whole, LONGEST)})
    await tab.screenshot(path=file)


async def _stop_time(tab: Page) -> None:
    """Let nothing change any more: refreshes bring nothing, and at the company's time."""

    async def answer(route: Route) -> None:
        if "tokimori-part" in route.request.headers:
            date = format_datetime(datetime.fromtimestamp(NOW / SECOND, UTC), usegmt=True)
            await route.fulfill(status=304, headers={"date": date})
        elif "/api/v2/notices" in route.request.url:
            await route.fulfill(body=": nothing\n\n", content_type="text/event-stream")
        else:
            await route.continue_()

    await tab.add_init_script("sessionStorage.place = '1'")
    await tab.route("**/*", answer)


async def _prepare(tab: Page, shot: Shot) -> None:
    for key in shot.keys:
        await tab.keyboard.press(key)
    if shot.words:
        await tab.keyboard.type(shot.words)
    for job_id in shot.ticks:
        await tab.get_by_label(f"Choose {job_id}", exact=True).check()
    if shot.keys:
        await tab.locator("dialog").wait_for()
    if shot.name == "job-trends":
        await tab.locator(".trends .u-legend").nth(4).wait_for()
    if shot.name == "palette":
        await tab.locator("dialog mark").first.wait_for()
    if shot.told is not None:
        await tab.locator(".toast").hover()  # it stays while one reads it
    if shot.keys or shot.ticks:
        await tab.wait_for_timeout(400)
