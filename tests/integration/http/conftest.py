"""A node, its page and a browser, for the tests that look at pages."""

import os
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of
from tests.servers import browser as browsers
from tokimori.client.client import Client

PATIENCE = 20_000
"""Milliseconds."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """One at home in a folder."""
    return Program(tmp_path_factory.mktemp("http"))


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
    tab = browser.new_page(viewport={"width": 1440, "height": 900})
    tab.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    tab.on("pageerror", lambda fault: faults.append(str(fault)))
    tab.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    tab.goto(site.entry)
    yield tab
    tab.close()
    assert faults == []
