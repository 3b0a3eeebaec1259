"""What Redis's answers mean to who uses the store."""

import pytest
from redis import exceptions

from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreUnavailable
from tokimori.stores.redis.faults import store_error


@pytest.mark.parametrize(
    ("fault", "kind", "advice"),
    [
        (exceptions.BusyLoadingError("loading", status_code="LOADING"), StoreUnavailable, "still loading its data"),
        (
            exceptions.ResponseError("MISCONF Errors writing to the AOF file"),
            StoreUnavailable,
            "can't write to its disk",
        ),
        (exceptions.ResponseError("BUSY Redis is busy running a script"), StoreUnavailable, "busy with a script"),
        (
            exceptions.ResponseError("Error running script (call to f_1): @user_script:4: -OOM command not allowed"),
            StoreUnavailable,
            "has no memory left",
        ),
        (exceptions.MovedError("1 127.0.0.1:1", status_code="MOVED"), StoreError, "one of several nodes of a cluster"),
        (exceptions.ConnectionError("max number of clients reached"), StoreUnavailable, "maxclients"),
        (exceptions.ConnectionError("Connection closed by server."), StoreUnavailable, "lost the connection"),
        (exceptions.TimeoutError("Timeout writing to socket"), StoreUnavailable, "does not answer"),
        (exceptions.ResponseError("NOSCHEMA there are no keys"), SchemaMismatch, "run `tokimori db migrate`"),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), StoreRefused, "can't do what it was asked"),
    ],
)
def test_an_answer_says_what_to_do(fault: Exception, kind: type[StoreError], advice: str) -> None:
    """Each answer of a server is told as what it means, and as unavailable where trying again can help."""
    error = store_error(fault, "redis://h:6379/0")
    assert type(error) is kind
    assert advice in error.message
