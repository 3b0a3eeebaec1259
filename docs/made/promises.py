"""Writes docs/explanation/promises.md: each promise on each store, its tests and their results (`make promises`).

The tests are run, now and here. Servers that are not installed are unproven, whatever the tests of others say.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/promises.md"
CONTRACT = "tests/contract/stores"
STORES = ("memory", "sqlite", "postgres", "mariadb", "redis")
ABSENT = ("MySQL", "Valkey")
"""Servers that the tests do not start: nothing is proved of them."""
PROMISES: dict[str, Sequence[str]] = {
    "An occurrence becomes at most one run": (
        f"{CONTRACT}/test_planning.py::test_of_two_planners_one_wins",
        f"{CONTRACT}/test_planning.py::test_an_occurrence_that_has_a_run_gets_no_other",
        f"{CONTRACT}/test_fights.py::test_eight_tasks_share_the_work",
    ),
    "Every occurrence ends as a run or a skip": (
        f"{CONTRACT}/test_planning.py::test_consecutive_skips_are_one_row",
        f"{CONTRACT}/test_planning.py::test_of_two_planners_one_wins",
    ),
    "A run is executed again only when its node is lost or its policy retries it": (
        f"{CONTRACT}/test_working.py::test_a_claimed_run_is_owned_by_one_node",
        f"{CONTRACT}/test_working.py::test_a_retry_waits_and_runs_again",
    ),
    "With lost_attempts = 0 a run that was begun is never begun again from outside": (
        f"{CONTRACT}/test_working.py::test_what_is_once_begun_is_never_begun_again",
        "tests/integration/apps/test_never_begun_again.py",
    ),
    "A lost reply strands nothing": (f"{CONTRACT}/test_lost_replies.py", f"{CONTRACT}/test_shared_keys.py"),
    "A live run is never stolen, a dead node's are taken over": (
        f"{CONTRACT}/test_nodes.py::test_a_node_that_beats_is_not_buried",
        f"{CONTRACT}/test_nodes.py::test_a_living_nodes_run_is_never_stolen",
        f"{CONTRACT}/test_nodes.py::test_a_dead_nodes_runs_are_taken_over",
    ),
    "Death is final": (
        f"{CONTRACT}/test_nodes.py::test_death_is_final",
        f"{CONTRACT}/test_nodes.py::test_only_the_living_bury",
        f"{CONTRACT}/test_nodes.py::test_only_the_living_take_over",
    ),
    "A stale worker changes nothing": (
        f"{CONTRACT}/test_working.py::test_a_stale_token_changes_nothing",
        f"{CONTRACT}/test_dependents.py::test_a_stale_settle_has_no_children",
    ),
    "A limit is never exceeded, nor leaked": (
        f"{CONTRACT}/test_limits.py",
        f"{CONTRACT}/test_waiting.py",
        f"{CONTRACT}/test_fights.py::test_eight_tasks_share_the_work",
    ),
    "Nor are those of keys and semaphores; who waits is served in order": (
        f"{CONTRACT}/test_concurrency_keys.py",
        f"{CONTRACT}/test_semaphores.py",
        f"{CONTRACT}/test_same_lines.py",
        f"{CONTRACT}/test_struggles.py",
    ),
    "Parent succeeded ⇔ its children's runs exist": (f"{CONTRACT}/test_dependents.py",),
    "After a pause, edit or delete nothing of the old definition is claimed": (
        f"{CONTRACT}/test_jobs.py::test_nothing_of_a_paused_job_is_claimed",
        f"{CONTRACT}/test_jobs.py::test_a_plan_of_the_old_definition_is_refused",
        f"{CONTRACT}/test_jobs.py::test_a_plan_of_a_paused_job_is_refused",
        f"{CONTRACT}/test_jobs.py::test_a_deleted_jobs_runs_end",
        f"{CONTRACT}/test_pauses.py",
    ),
    "Acknowledged means durable": (
        "tests/unit/stores/sqlite/test_store.py::test_commits_reach_the_disk",
        "tests/integration/stores/test_durability.py",
        "tests/integration/stores/test_redis_restarts.py",
    ),
    "No node is special: losing or freezing one leaves no gap": (
        "tests/cluster/test_three_nodes.py::test_a_kill_and_a_short_freeze_lose_and_double_nothing",
        "tests/cluster/test_all_faults.py::test_all_faults_together_lose_and_double_nothing",
    ),
}
ELSEWHERE = """
That a dead or frozen node leaves no process behind, and that clocks may be wrong, is the node's own doing, whatever
its store: see [guards](guards.md). What three nodes on PostgreSQL went through: [faults](faults.md).

`make test` also runs `test_same_answers.py`, which compares every store with memory.
"""


def run(tests: Sequence[str]) -> dict[str, bool]:
    """Run the tests: of files those of `make test`, whatever is named besides. What was skipped is left out.

    Whether each passed, by its name with its parameters.
    """
    files = [test for test in tests if "::" not in test]
    return _ran(files, "not prove") | _ran([test for test in tests if test not in files], "")


def _ran(tests: Sequence[str], marked: str) -> dict[str, bool]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-m", "pytest", "-q", "-n", "auto", "-m", marked, f"--junitxml={report}", *tests]
        subprocess.run([sys.executable, *words], cwd=ROOT, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314
    ran = [case for case in cases if case.find("skipped") is None]
    return {_name(case): case.find("failure") is None and case.find("error") is None for case in ran}


def _name(case: ElementTree.Element) -> str:
    """`file.py::test[parameters]`."""
    return f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"


def store_of(name: str) -> str | None:
    """The store that a test was run on; None where it belongs to none."""
    file, _, parameters = name.partition("[")
    found = (store for part in (parameters, file) for store in STORES if store in re.split(r"[-_/.\]]", part))
    return next(found, None)


def result(results: dict[str, bool], tests: Sequence[str], store: str) -> str:
    """What came out of these tests on this store."""
    mine = [passed for name, passed in results.items() if name.startswith(tuple(tests)) and store_of(name) == store]
    if not mine:
        return "unproven"
    return f"passed ({len(mine)})" if all(mine) else f"**failed** ({mine.count(False)} of {len(mine)})"


def page(results: dict[str, bool], versions: str) -> str:
    """The page."""
    names = (*STORES, *ABSENT)
    rows = [
        [promise, *(result(results, tests, store) for store in STORES), *("unproven" for _ in ABSENT), _links(tests)]
        for promise, tests in PROMISES.items()
    ]
    return "\n".join(
        [
            "# Promises, store by store",
            "",
            f"Written by `make promises`, which runs the tests: last on {datetime.now(UTC):%Y-%m-%d} with",
            f"{versions}.",
            "In brackets: how many tests. *Unproven*: none of these tests shows it there. MySQL, Valkey and other",
            "versions were not at hand: what is said of MariaDB and Redis is no proof for them.",
            ELSEWHERE,
            f"| promise | {' | '.join(names)} | tests |",
            "|---" * (len(names) + 2) + "|",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
        ]
    )


def _links(tests: Sequence[str]) -> str:
    return ", ".join(f"`{test.rpartition('/')[2]}`" for test in tests)


VERSIONS = {
    "SQLite": [sys.executable, "-c", "import sqlite3; print(sqlite3.sqlite_version)"],
    "PostgreSQL": [
        sys.executable,
        "-c",
        "from tests.servers.postgres import server as s; print(s().sql('SHOW server_version')); s().remove()",
    ],
    "MariaDB": ["mariadbd", "--version"],
    "Redis": ["redis-server", "--version"],
}


def installed() -> str:
    """The servers that the tests start, each with its version."""
    found = []
    for name, words in VERSIONS.items():
        said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout
        version = re.search(r"\d+\.\d+(\.\d+)?", said)
        found.append(f"{name} {version[0] if version else '?'}")
    return ", ".join(found)


if __name__ == "__main__":
    outcome = run(sorted({test for tests in PROMISES.values() for test in tests}))
    PAGE.write_text(page(outcome, installed()))
    sys.exit(not all(outcome.values()))
