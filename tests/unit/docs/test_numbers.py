"""Numbers in the manual are those of the code, and each promise names tests that there are."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from docs.made.promises import PAGE, PROMISES
from tokimori.api import rates
from tokimori.executors.reported import MOST_TEXT as MOST_REPORTED
from tokimori.model import lease
from tokimori.model.attempt_notes import MOST_INHERITED, MOST_PAYLOAD
from tokimori.model.cause import MOST_MUTED
from tokimori.model.claim_rate import LONGEST as LONGEST_PERIOD
from tokimori.model.claim_rate import MOST_TAKEN
from tokimori.model.claim_rate import SHORTEST as SHORTEST_PERIOD
from tokimori.model.dependents import MOST_CHILDREN
from tokimori.model.email import MOST_RECIPIENTS
from tokimori.model.notification import LONGEST_ERROR, LONGEST_TEXT
from tokimori.model.notifying import MOST_GATHERED, MOST_TROUBLES
from tokimori.model.rewind import MOST_FIRED
from tokimori.model.secret import LARGEST, MOST_LINES, SHORTEST
from tokimori.model.semaphores import LONGEST_KEY
from tokimori.model.target import MOST_NAME
from tokimori.model.words import LONGEST_WORD
from tokimori.node.units import DOUBT
from tokimori.schedules.business_days import MOST_IN_VAIN, MOST_MOVED
from tokimori.schedules.combined import MOST_EXCLUDED
from tokimori.schedules.parse import MOST_CHARACTERS, MOST_MEMBERS
from tokimori.schedules.wallclock import MOST_PIECES
from tokimori.service.jobs.durations import MOST_JOBS as MOST_TIMED
from tokimori.service.jobs.writer import LONGEST as LONGEST_COUNT
from tokimori.service.runs import failures
from tokimori.service.search import jobs as finding
from tokimori.service.search import runs as finding_runs
from tokimori.service.secrets import MOST_PREFIXES
from tokimori.service.validation import MOST_LISTED

ROOT = Path(__file__).parents[3]
KIB = 1024
DAY = 86_400_000_000
SAID: Mapping[str, tuple[str, ...]] = {
    "docs/reference/limits.md": (
        f"`N` is 1 to {MOST_TAKEN:,};",
        f"a length from {SHORTEST_PERIOD // 1000} ms to {LONGEST_PERIOD // DAY} days",
        f"Job ids have {MOST_NAME} characters, words such as queues {LONGEST_WORD}, concurrency keys and keys of "
        f"requests {LONGEST_KEY}, payloads of jobs {MOST_PAYLOAD // KIB} KiB.",
        f"Directly after one job run at most {MOST_CHILDREN:,};",
        f"has at most {MOST_INHERITED:,} / n bytes",
        f"may have {MOST_REPORTED // KIB} KiB.",
        f"ends with {finding_runs.MOST_TEXT:,} characters of payloads",
        f"At most {MOST_LISTED:,} queues can be paused",
        f"has {SHORTEST} characters at least, {LARGEST // KIB} KiB and {MOST_LINES} lines at most; one secret "
        f"is for at most {MOST_PREFIXES} prefixes",
        f"| {MOST_CHARACTERS:,} |",
        f"| {MOST_MEMBERS} each |",
        f"has no bound | {MOST_EXCLUDED} |",
        f"leave some 70 of one line | {MOST_PIECES} |",
        f"; {MOST_IN_VAIN}, if none comes behind them | {MOST_EXCLUDED} |",
        f"| days off in a row with `shift` | {MOST_MOVED} |",
        f"takes more than {LONGEST_COUNT:g} s is refused",
        f"Runs that hold units end {DOUBT} s after its last answer (KILL at {lease.LEASE_KILL} s)",
    ),
    "docs/reference/operations.md": (
        f"{rates.MOST_CLIENTS:,} tokens and {rates.MOST_CLIENTS:,} addresses are remembered",
        f"looks at {finding.MOST_LOOKED_AT:,} jobs or {finding_runs.MOST_LOOKED_AT:,} runs at most, and at the jobs of "
        f"{finding.MOST_JOBS:,}",
        f"For a text one answer looks at {finding_runs.MOST_SEARCHED:,} runs",
        f"One answer looks at {failures.MOST_FAILURES:,} failed runs.",
        f"of {MOST_MUTED} causes at a time",
        f"It is one question for {MOST_TIMED} jobs",
        f"or is over {MOST_FIRED:,} runs)",
    ),
    "docs/reference/notifications.md": (
        f"Errors are cut at {LONGEST_ERROR} characters, a text at {LONGEST_TEXT:,}.",
        f"to whom, at most {MOST_RECIPIENTS}",
        f"beyond {MOST_GATHERED} that are to be sent at a time",
        f"Recoveries are told of the {MOST_TROUBLES:,} jobs",
    ),
    "docs/how-to/locks.md": (f"TERM after {lease.LEASE:g} s without the store, KILL after {lease.LEASE_KILL} s",),
    "docs/coming-from/perfectsched.md": (f"is dead after {lease.DEAD_AFTER:g} s",),
    "docs/coming-from/settings-of-others.md": (f"renewed every {lease.TICK_IDLE:g} s; a dead node is known after",),
}
"""Sentences of the manual, with the values of today."""


@pytest.mark.parametrize("page", SAID)
def test_a_page_has_the_numbers_of_the_code(page: str) -> None:
    """A bound that is changed is changed on its page."""
    text = " ".join((ROOT / page).read_text().split())
    assert [each for each in SAID[page] if each not in text] == []


def test_a_dead_node_is_replaced_in_the_time_that_is_promised() -> None:
    """Ten seconds are what a node's silence takes, with a tick of its neighbour's before and behind it."""
    assert lease.LEASE < lease.LEASE_KILL < lease.DEAD_AFTER
    assert lease.DEAD_AFTER + lease.TICK_IDLE < 10
    for page in ("README.md", "docs/explanation/guarantees.md"):
        assert "within 10 seconds" in (ROOT / page).read_text()


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_names_tests_that_there_are(promise: str) -> None:
    """Each file is there with the test that is named, and the page has the promise with its tests."""
    for named in PROMISES[promise]:
        file, _, test = named.partition("::")
        assert (ROOT / file).is_file(), named
        assert re.search(rf"^(async )?def {test}\w*\(", (ROOT / file).read_text(), re.MULTILINE), named
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {promise} |"))
    assert all(f"`{named.rpartition('/')[2]}`" in row for named in PROMISES[promise])
