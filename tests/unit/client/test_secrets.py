"""Secrets by the client, on a store of its own and over HTTP."""

import pytest
from cryptography.fernet import Fernet

from tests.unit.client.served import TRANSPORTS, store_of
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput, NotFound, Refused


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_secrets(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are set, listed without values, encrypted anew and deleted; the keys are those of who has the store."""
    monkeypatch.setenv("TOKIMORI_SECRETS_KEYS", Fernet.generate_key().decode())
    with store_of(transport) as url, open_client(url) as client:
        made = client.secrets.set("DB", "correct horse", jobs=["web-"])
        assert (made.name, made.jobs) == ("DB", ("web-",))
        assert client.secrets.list() == [made]
        assert client.secrets.rotate() == 1
        with pytest.raises(InvalidInput) as fault:
            client.secrets.set("DB", "short")
        assert fault.value.field == "value"
        client.secrets.delete("DB")
        with pytest.raises(NotFound):
            client.secrets.delete("DB")


def test_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that opens the store itself needs one, and is told how it gets one."""
    monkeypatch.delenv("TOKIMORI_SECRETS_KEYS", raising=False)
    with open_client("memory:") as client, pytest.raises(Refused, match="`tokimori secret key FILE`"):
        client.secrets.set("DB", "correct horse")
