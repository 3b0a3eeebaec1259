"""A node that stops says so before it closes its door."""

import json
import signal
import urllib.error
import urllib.request

from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of


def asked(site: Site, path: str) -> tuple[int, str]:
    """The status of an answer, and what it says of the node."""
    try:
        with urllib.request.urlopen(f"{site.url}{path}", timeout=10) as answer:  # noqa: S310  our own node
            return answer.status, json.load(answer)["status"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["status"]


def test_a_node_that_drains_is_alive_and_not_ready(program: Program) -> None:
    """It answers for as long as `http.drain` says, though it has nothing in hand; told again it goes at once.

    Whoever asks for that is never counted, as others are where `http.rate` is said.
    """
    program.environment |= {"TOKIMORI_HTTP_DRAIN": "600", "TOKIMORI_HTTP_ACCESS_LOG": "true"}
    program.environment["TOKIMORI_HTTP_RATE"] = "2/h"
    with site_of(program) as site:
        assert [asked(site, "api/v2/jobs")[0] for _ in range(3)] == [401, 401, 429]
        assert asked(site, "readyz") == (200, "ready")
        site.node.send_signal(signal.SIGTERM)
        until(lambda: asked(site, "readyz") == (503, "the node stops"))
        until(lambda: "has stopped" not in site.log and program.json("node", "list")[0]["state"] == "left")
        assert asked(site, "readyz") == (503, "the node stops")
    assert "tokimori.api.access_log: GET /readyz 200, " in site.log
