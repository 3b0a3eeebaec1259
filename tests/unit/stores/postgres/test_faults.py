"""What the driver raises is ours before anybody sees it."""

import asyncpg
import pytest

from tokimori.errors import StoreUnavailable
from tokimori.stores.postgres.faults import FAULTS, store_error


@pytest.mark.parametrize(
    "fault",
    [
        asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
        asyncpg.InterfaceError("the connection is closed"),
        ConnectionResetError("reset by peer"),
        TimeoutError(),
    ],
)
def test_a_lost_session_can_be_tried_again(fault: Exception) -> None:
    """Whatever the driver says of a session that was cut is caught, and means that trying again can help."""
    assert isinstance(fault, FAULTS)
    assert isinstance(store_error(fault, "here"), StoreUnavailable)
