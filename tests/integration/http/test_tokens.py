"""Tokens at real nodes: made on the command line, known to every node of the store, gone when they are revoked."""

import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program
from tests.integration.http.site import site_of


def ask(url: str, token: str, path: str, body: bytes | None = None) -> int:
    """The status of the answer."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}{path}", body, headers)) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


@pytest.mark.prove
def test_every_node_knows_a_token_and_its_end(tmp_path: Path) -> None:
    """Two nodes with folders, and so secrets, of their own; two seconds after it was revoked both refuse it."""
    one, two = Program(tmp_path), Program(tmp_path)
    two.environment = {**two.environment, "TOKIMORI_STATE_DIR": str(tmp_path / "other")}
    with site_of(one) as first, site_of(two) as second:
        token = one("token", "create", "ci", "--role", "operate", "--jobs", "mail-", "--expires", "1h").strip()
        for node in (first, second):
            assert ask(node.url, token, "api/v2/jobs") == 200
            assert ask(node.url, token, "api/v2/tokens") == 403
        assert ask(first.url, token, "api/v2/jobs", b'{"id": "mail-1", "noop": true}') == 201
        assert ask(second.url, token, "api/v2/jobs", b'{"id": "x", "noop": true}') == 403
        (listed,) = one.json("token", "list")
        assert (listed["name"], listed["role"], listed["jobs"]) == ("ci", "operate", ["mail-"])
        assert one("token", "list").splitlines()[1].split()[:3] == ["ci", "operate", "mail-*"]
        assert one("token", "revoke", "ci") == "revoked token ci\n"
        revoked = time.monotonic()
        for node in (first, second):
            while ask(node.url, token, "api/v2/jobs") != 401:
                assert time.monotonic() - revoked < 2
        assert not any(token in line for line in one.contents())
    assert one.error("token", "revoke", "ci", code=3)["code"] == "not_found"
    assert one.error("token", "create", "x", "--role", "read", "--expires", "soon")["field"] == "expires"
