"""The page in another browser: Debian's Firefox, where there is one."""

from pathlib import Path
from typing import Final

import pytest

import tokimori
from tests.integration.cli.conftest import Program
from tests.integration.http.company import fill
from tests.integration.http.site import site_of
from tests.servers import firefox

PATHS: Final = ("", "jobs", "runs", "failures", "plan", "graph", "jobs/invoice?tab=trends", "jobs/new", "audit", "wall")
DONE: Final = """return (async () => {
const until = async (found) => { for (let n = 0; n < 200; n++) { const it = found(); if (it) return it;
  await new Promise((again) => setTimeout(again, 100)); } throw new Error(`never: ${found}`); };
document.querySelector("[data-act='jobs.pause']").click();
const dialog = await until(() => document.querySelector("dialog[open]"));
dialog.querySelector("[name=reason]").value = "by Firefox";
dialog.querySelector("button.go, button").click();
return (await until(() => document.querySelector(".toast"))).textContent; })()"""


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.skipif(firefox.program() is None, reason="there is no Firefox: apt-get install firefox-esr")
def test_firefox_shows_the_page_and_acts(tmp_path: Path) -> None:
    """Every screen is live and fits, and a dialog, its receipt and the palette work."""
    path, home, program = firefox.program(), tmp_path / "profile", Program(tmp_path)
    assert path is not None
    home.mkdir()
    store = program.environment["TOKIMORI_STORE"]
    with site_of(program) as site, firefox.firefox(home, path) as window, tokimori.open(store) as client:
        fill(client)
        window.show(site.entry)
        for each in PATHS:
            window.show(site.url + each)
            assert window.run("return document.documentElement.scrollWidth <= innerWidth"), each
            if each != "jobs/new":  # nothing moves where somebody types
                assert "live" in window.run("return document.getElementById('live').textContent"), each
        window.show(f"{site.url}jobs/invoice")
        assert "invoice paused" in window.run(DONE)
        assert client.jobs.get("invoice").reason == "by Firefox"
        window.run("document.querySelector('[data-find]').click()")
        window.run("return new Promise((on) => setTimeout(on, 1000))")
        assert window.run("return document.querySelectorAll('dialog[open] [role=combobox]').length") == 1
        for run in client.runs.list(state="running"):
            client.runs.cancel(run.id)
