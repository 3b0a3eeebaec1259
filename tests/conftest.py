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
