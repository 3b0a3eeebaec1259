"""What a server's own words tell of what it can't promise."""

import pytest

from tokimori.stores.redis.schema import broken_promises, info_of

DURABLE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
INFO = "# Persistence\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"


def test_a_durable_server_promises_everything() -> None:
    """A primary server without replicas that writes before it answers has no faults."""
    assert broken_promises(info_of(INFO), DURABLE) == ()


@pytest.mark.parametrize(
    ("info", "settings", "fault"),
    [
        ({"aof_enabled": "0"}, {}, "appendonly = no"),
        ({}, {"appendfsync": "everysec"}, "appendfsync = everysec"),
        ({}, {"maxmemory-policy": "allkeys-lru"}, "maxmemory-policy = allkeys-lru"),
        ({"role": "slave"}, {}, "is a replica"),
        ({"connected_slaves": "1"}, {}, "has replicas"),
    ],
)
def test_each_broken_promise_is_one_sentence(info: dict[str, str], settings: dict[str, str], fault: str) -> None:
    """Whatever may lose what was acknowledged is told, by the name of the setting."""
    (told,) = broken_promises(info_of(INFO) | info, DURABLE | settings)
    assert fault in told


def test_settings_that_are_not_told_are_faults() -> None:
    """A server that hides its settings, as hosted ones do, can't be trusted to write before it answers."""
    (told,) = broken_promises(info_of(INFO), {})
    assert "does not tell its appendfsync" in told
    policy, _ = broken_promises(info_of(INFO) | {"maxmemory_policy": "volatile-ttl"}, {})[::-1]
    assert "maxmemory-policy = volatile-ttl" in policy
