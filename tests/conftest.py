"""Settings of all tests."""

import pytest
from hypothesis import settings

from tests.servers import mariadb, postgres, redis

settings.register_profile("tokimori", deadline=None, print_blob=True)
settings.load_profile("tokimori")


@pytest.hookimpl
def pytest_sessionfinish() -> None:
    """Leave no server behind."""
    postgres.remove_server()
    redis.remove_server()
    mariadb.remove_server()


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
