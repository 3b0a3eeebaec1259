"""Settings of all tests."""

import gc
import os
import re
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest

from tests.forks import pytest_addoption, pytest_runtestloop  # noqa: F401  # hooks are found here
from tests.laws import register_profiles
from tests.programs import forked
from tests.servers import mariadb, postgres, redis
from tests.watchdog import Watchdog

register_profiles()


ALWAYS: dict[str, frozenset[str]] = {
    "contract/stores/test_crashes.py": frozenset({"memory", "sqlite"}),
    "contract/stores/test_fights.py": frozenset({"postgres"}),
    "contract/stores/test_struggles.py": frozenset({"sqlite"}),
    "contract/stores/test_same_lines.py": frozenset({"sqlite", "redis"}),
    "contract/stores/test_same_answers.py": frozenset({"postgres", "redis"}),
    "contract/stores/test_refused_claims.py": frozenset({"sqlite", "postgres"}),
    "contract/stores/test_refused_plans.py": frozenset({"sqlite", "mariadb"}),
    "contract/stores/test_refusals.py": frozenset({"sqlite", "mariadb"}),
    "contract/stores/test_semaphores.py::test_units_are_exact_whatever_happens_at_the_same_time": frozenset(
        {"sqlite", "redis"}
    ),
    "contract/stores/test_semaphores.py::test_the_line_is_never_forgotten": frozenset({"postgres", "redis"}),
    "contract/stores/test_families.py": frozenset({"memory", "sqlite", "mariadb"}),
    "contract/stores/test_copying.py": frozenset({"memory", "sqlite", "postgres"}),
    "contract/stores/test_moves.py": frozenset({"memory", "sqlite", "mariadb", "redis"}),
    "contract/stores/test_rates.py": frozenset({"memory", "sqlite", "postgres", "redis"}),
    "contract/stores/test_backfill.py": frozenset({"memory", "sqlite", "postgres", "redis"}),
    "contract/stores/test_rewind.py": frozenset({"memory", "sqlite", "postgres", "redis"}),
    "contract/stores/test_namespaces.py": frozenset({"sqlite", "postgres"}),
    "cluster/test_cancel.py": frozenset({"sqlite"}),
    "cluster/test_two_versions.py": frozenset(),
    "cluster/test_all_faults.py": frozenset(),
    "cluster/test_three_nodes.py": frozenset({"sqlite"}),
    "integration/http/test_scopes.py": frozenset({"sqlite"}),
    "integration/locks/test_exclusion.py": frozenset({"sqlite"}),
    "integration/apps/test_drained.py": frozenset({"sqlite"}),
    "integration/apps/test_forks.py": frozenset({"sqlite"}),
    "integration/apps/test_silent_processes.py": frozenset({"sqlite"}),
    "integration/cli/test_short_machine.py": frozenset({"sqlite"}),
    "integration/cli/test_store_away.py": frozenset(),
    "integration/apps/test_never_begun_again.py": frozenset(),
    "integration/apps/test_handles.py": frozenset({"postgres"}),
    "integration/apps/test_families.py": frozenset({"sqlite", "redis"}),
}
"""Of these tests, which take long, only those on these stores belong to `make test`; all of them to `make prove`."""
TESTS = Path(__file__).parent
LONG = (
    *("three_nodes", "readme", "exclusion", "suspects", "unready", "browser", "functions", "silent_processes"),
    *("running", "drained", "tasks", "messages", "site", "deaths", "workers"),
)
EARLY = {f"test_{name}": n / 2 / len(LONG) for n, name in enumerate(LONG)}
"""Where the files that take longest stand, from 0 to 1: in the first half, not all at once, since they mostly wait."""
STORES = frozenset({"memory", "sqlite", "postgres", "mariadb", "redis"})


@pytest.fixture(scope="session")
def watchdog() -> Iterator[Watchdog]:
    """What watches all loops of this process."""
    watchdog = Watchdog()
    if "MUTANT_UNDER_TEST" in os.environ:  # of mutmut, by whose way around each call no step is as short as ours
        yield watchdog
        return
    watchdog.begin()
    yield watchdog
    watchdog.end()


@pytest.fixture(autouse=True)
def no_step_holds_a_loop(watchdog: Watchdog, request: pytest.FixtureRequest) -> Iterator[None]:
    """The test fails if one step of an event loop takes the product too long, unless it is marked to do so."""
    watchdog.found()
    yield
    for stack in watchdog.found() if request.node.get_closest_marker("holds_its_loop") is None else ():
        pytest.fail(stack, pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is proved only now and then."""
    for item in items:
        file, _, parameters = item.nodeid.removeprefix("tests/").partition("::")
        stores = STORES.intersection(re.split(r"[\[\]-]", parameters))
        test = f"{file}::{parameters.partition('[')[0]}"
        always = ALWAYS.get(test, ALWAYS.get(file, STORES))
        if not stores <= always:
            item.add_marker(pytest.mark.prove)
    items[:] = in_turn(items)


def in_turn(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests file by file, the files of each folder spread evenly, so that beside some that wait others work."""
    folders: dict[str, dict[Path, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        folders[item.path.relative_to(TESTS).parts[0]][item.path].append(item)
    places = [
        (EARLY.get(file.stem, n / len(files)), tests)
        for files in folders.values()
        for n, (file, tests) in enumerate(files.items())
    ]
    return [item for _, tests in sorted(places, key=lambda place: place[0]) for item in tests]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the tests while they are found."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl
def pytest_collection_finish(session: pytest.Session) -> None:
    """Share what all processes need; let each collection of garbage pass what stays: ten thousand tests."""
    if session.config.option.forks and any(TESTS / "integration" in item.path.parents for item in session.items):
        forked.load()
        if postgres.programs() is not None and mariadb.is_there():
            postgres.template()
            mariadb.template()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # else a tenth of the processor's time goes there


@pytest.hookimpl
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave no server behind."""
    postgres.remove_server()
    redis.remove_server()
    mariadb.remove_server()
    for template in (postgres.template, mariadb.template):
        if template.cache_info().currsize and not hasattr(session.config, "workerinput"):  # of forks: their parent's
            template().remove()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what the nodes went through: the table of faults."""
    from tests.cluster.fault_table import ROW, table

    calls = [
        report for each in terminalreporter.stats.values() for report in each if getattr(report, "when", "") == "call"
    ]
    rows = [value for report in calls for name, value in report.user_properties if name == ROW]
    if rows:
        terminalreporter.section("three nodes on one PostgreSQL")
        terminalreporter.write_line(table(rows))
