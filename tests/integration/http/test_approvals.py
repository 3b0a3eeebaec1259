"""Approvals with a real node: given in a browser, refused at a terminal, and what follows is begun or not."""

import time

import pytest
from playwright.sync_api import Page, expect

from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site
from tests.integration.http.test_browser import toast
from tokimori.client.client import Client
from tokimori.model.transitions import RunState

pytestmark = [
    pytest.mark.filterwarnings("ignore:a blocking call"),  # Playwright has a loop in this thread
    pytest.mark.prove,
]


def asking(client: Client) -> str:
    """A run of the gate that waits for an approval."""
    run, until = client.jobs.trigger("gate", payload="7"), time.monotonic() + 20
    while client.runs.get(run.id).state is not RunState.HELD:
        assert time.monotonic() < until
        time.sleep(0.05)
    return run.id


def run_of(client: Client, job_id: str) -> object:
    """What the only run of a job was given, as soon as there is one."""
    until = time.monotonic() + 20
    while not (found := client.runs.list(job_id=job_id).runs):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found[0].payload


def test_a_run_is_approved_and_another_one_refused(page: Page, site: Site, client: Client, program: Program) -> None:
    """The first answer counts, with its reason; the run behind an approval gets what that was given."""
    client.jobs.add("gate", approval=True, approve_within="1h")
    client.jobs.add("go", noop=True, parents=[{"job": "gate"}])
    client.jobs.add("sorry", noop=True, parents=[{"job": "gate", "on": "failure"}])
    run_id = asking(client)
    page.goto(site.url)
    expect(page.get_by_text("It waits for an approval: the role operate may answer, until")).to_be_visible()
    page.get_by_role("link", name="Approve…").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("checked")
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(toast(page)).to_contain_text("approved")
    approved = client.runs.wait(run_id, timeout=20)
    assert (approved.state, approved.result) == (RunState.SUCCEEDED, "7")
    assert approved.approval is not None and approved.approval.reason == "checked"
    assert run_of(client, "go") == "7"
    assert "was approved before" in program.error("run", "refuse", run_id)["message"]

    run_id = asking(client)
    assert program("run", "refuse", run_id, "--reason", "not today") == f"run {run_id} refused\n"
    refused = client.runs.wait(run_id, timeout=20)
    assert (refused.state, str(refused.error).endswith(": not today")) == (RunState.FAILED, True)
    assert run_of(client, "sorry") == "7"
    assert len(client.runs.list(job_id="go").runs) == 1
    page.goto(f"{site.url}runs/{run_id}")
    expect(page.locator("dl.facts")).to_contain_text("not today")
