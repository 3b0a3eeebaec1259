"""Tokens of one queue at real nodes: what had an id in another queue is not theirs, whoever has the id now."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.integration.cli.conftest import Program
from tests.integration.http.site import site_of
from tests.servers import mariadb, postgres, redis
from tokimori.model.build import MAIN, Manifest, digest_of, frozen, pieces_of
from tokimori.service.doors.sessions import KNOWN_FOR

STORES = [
    pytest.param(lambda _: None, id="sqlite"),
    pytest.param(postgres.loans.url_of, id="postgres"),
    pytest.param(mariadb.loans.url_of, id="mariadb"),
    pytest.param(redis.loans.url_of, id="redis"),
]
SECRET = "salaries-of-all"


class Holder:
    """Somebody with a token at a node."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url.rstrip("/"), token

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """The status of the answer, and what it says."""
        said = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", **headers}
        asked = urllib.request.Request(f"{self._url}/api/v2{path}", said, sent, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(asked) as answer:  # noqa: S310
                return answer.status, _read(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, _read(refused.read())


def _read(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


class Shop:
    """A node with two queues and a token for each; the owner has the secret."""

    def __init__(self, program: Program, url: str, secret: str) -> None:
        self.program, self.url, self.owner = program, url, Holder(url, secret)
        self.qa, self.qb = (
            Holder(url, program("token", "create", name, "--role", "operate", "--queues", name).strip())
            for name in ("qa", "qb")
        )

    def ran(self, who: Holder, job_id: str, **fields: object) -> str:
        """The id of a run that has ended."""
        assert self.owner.ask("POST", "/jobs", {"id": job_id, **fields})[0] == 201
        status, run = who.ask("POST", f"/jobs/{job_id}/trigger", {"payload": f'"{SECRET}"'})
        assert status == 201
        until = time.monotonic() + 30
        while who.ask("GET", f"/runs/{run['id']}")[1]["state"] not in ("succeeded", "failed"):
            assert time.monotonic() < until
            time.sleep(0.05)
        return str(run["id"])


@pytest.fixture(params=STORES)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    program = Program(tmp_path)
    if (url := request.param(tmp_path)) is not None:
        program.environment = {**program.environment, "TOKIMORI_STORE": url}
    program("secret", "key", str(tmp_path / "keys"))
    program.environment = {**program.environment, "TOKIMORI_SECRETS_KEY_FILE": str(tmp_path / "keys")}
    with site_of(program) as site:
        yield Shop(program, site.url, site.secret)


def deleted(shop: Shop) -> None:
    assert shop.qb.ask("DELETE", "/jobs/payroll")[0] == 200
    assert shop.qa.ask("POST", "/jobs", {"id": "payroll", "noop": True, "queue": "qa"})[0] == 201


def renamed(shop: Shop) -> None:
    assert shop.owner.ask("POST", "/jobs/payroll/rename", {"id": "wages"})[0] == 200
    assert shop.qa.ask("POST", "/jobs", {"id": "payroll", "noop": True, "queue": "qa"})[0] == 201


def moved(shop: Shop) -> None:
    assert shop.owner.ask("PATCH", "/jobs/payroll", {"queue": "qa", "command": ["true"]})[0] == 200


@pytest.mark.parametrize("became", [deleted, renamed, moved])
def test_whoever_has_the_id_now(shop: Shop, became: Callable[[Shop], None]) -> None:
    """Runs, output, counts, statistics, events and searches of another queue stay that queue's."""
    run = shop.ran(shop.qb, "payroll", command=["echo", SECRET], queue="qb")
    became(shop)
    for path in ("", "/logs", "/why"):
        assert shop.qa.ask("GET", f"/runs/{run}{path}")[0] == 404
        assert shop.qb.ask("GET", f"/runs/{run}{path}")[0] == 200
    assert SECRET in shop.qb.ask("GET", f"/runs/{run}/logs")[1]
    for path in (
        "/jobs/payroll/counts",
        "/jobs/payroll/skips",
        "/runs?job_id=payroll",
        "/runs?job_prefix=pay",
        "/runs",
    ):
        assert (path, shop.qa.ask("GET", path)[1]) == (path, [])
    told = [
        shop.qa.ask("GET", path)[1]
        for path in ("/jobs/payroll/stats", "/jobs/payroll/ledger", "/jobs/payroll/why", "/jobs?last_runs=5", "/events")
    ]
    assert told[0]["outcomes"] == {}
    assert run not in json.dumps(told) and SECRET not in json.dumps(told)
    for what in ("cancel", "retry", "hold", "restart"):
        assert shop.qa.ask("POST", f"/runs/{run}/{what}", {})[0] in (403, 404)
    mine = shop.qa.ask("POST", "/jobs/payroll/trigger", {})[1]["id"]
    assert [each["id"] for each in shop.qa.ask("GET", "/runs?job_id=payroll")[1]] == [mine]
    assert [each["id"] for each in shop.qb.ask("GET", "/runs?job_id=payroll")[1]] == [run]


def test_secrets_builds_and_keys(shop: Shop) -> None:
    """A queue gives no secret, nobody changes a build that is whole, and the key of a request is its sender's."""
    assert shop.owner.ask("PUT", "/secrets/PAY", {"value": SECRET, "jobs": ["pay-"]})[0] in (200, 201)
    theirs = {"id": "pay-mine", "queue": "qa", "url": "https://example.org/?{{secret.PAY}}"}
    assert shop.qa.ask("POST", "/jobs", theirs)[0] == 403
    assert shop.qa.ask("GET", "/secrets")[1] == []
    content = frozen({MAIN: b"print('hello')\n"}, Manifest(task="ping"))
    digest, pieces = digest_of(content), pieces_of(content)
    place = f"/tasks/ping/builds/{digest}/0"
    assert shop.owner.ask("PUT", place, {"piece": pieces[0]})[0] == 200
    said = {"digest": digest, "size": len(content), "pieces": 1}
    assert shop.owner.ask("POST", "/tasks/ping/builds", said)[0] == 200
    ops = Holder(shop.url, shop.program("token", "create", "ops", "--role", "operate").strip())
    assert ops.ask("PUT", place, {"piece": "AAAA"})[0] == 409
    assert ops.ask("PUT", f"/tasks/ghost/builds/{digest}/0", {"piece": "AAAA"})[0] in (200, 403)  # not by root
    entries = [each["what"] for each in shop.owner.ask("GET", "/audit")[1]]
    assert {"tasks.put_piece", "tasks.build"} <= set(entries)
    put = {"noop": True, "queue": "qa"}
    assert [ops.ask("PUT", "/jobs/new", put, **{"If-None-Match": "*"})[0] for _ in range(2)] == [201, 412]
    key = {"Idempotency-Key": "17"}
    runs = [who.ask("POST", "/jobs/new/trigger", {}, **key)[1]["id"] for who in (ops, ops, shop.qa)]
    assert runs[0] == runs[1] != runs[2]
    assert ops.ask("POST", "/jobs/new/trigger", {"payload": "1"}, **key)[0] == 422


def test_sets_within_a_scope(shop: Shop) -> None:
    """A token of some ids or of a queue applies what lies wholly within it; a dry run needs `read`."""
    ci = Holder(shop.url, shop.program("token", "create", "ci", "--role", "operate", "--jobs", "ci-").strip())
    reader = Holder(shop.url, shop.program("token", "create", "reader", "--role", "read", "--queues", "qa").strip())
    mine, theirs = {"id": "ci-a", "noop": True, "queue": "qa"}, {"id": "other", "noop": True, "queue": "qb"}

    def put(who: Holder, *jobs: object, **how: bool) -> int:
        return who.ask("PUT", "/sets/prod", {"jobs": jobs, **how})[0]

    assert (put(reader, mine, dry_run=True), put(reader, mine)) == (200, 403)
    assert [put(who, mine) for who in (ci, shop.qa)] == [200, 200]
    for dry_run in (True, False):
        for who in (ci, shop.qa):
            assert [put(who, *jobs, dry_run=dry_run) for jobs in ((theirs,), (mine, theirs))] == [403, 403]
    assert [job["id"] for job in shop.owner.ask("GET", "/jobs")[1]] == ["ci-a"]
    assert put(shop.owner, mine, theirs) == 200
    assert put(ci, prune=True) == 403
    assert [job["id"] for job in shop.owner.ask("GET", "/jobs")[1]] == ["ci-a", "other"]


def test_a_session_that_logged_out_is_dead_at_every_node(shop: Shop, tmp_path: Path) -> None:
    """A copy of its cookie opens neither the node where it was, nor another one."""
    other = Program(tmp_path / "other")
    other.home.mkdir()
    other.environment = {**shop.program.environment, "HOME": str(other.home)}
    with site_of(other) as site:
        cookie = _logged_in(shop.url, shop.program("token", "create", "ada", "--role", "read").strip())
        port = site.url.rstrip("/").rpartition(":")[2]
        there = f"tokimori-{port}={cookie.partition('=')[2]}"
        assert [_page(shop.url, cookie), _page(site.url, there)] == [200, 200]
        assert _page(shop.url, cookie, "logout") == 303
        time.sleep(KNOWN_FOR)
        assert [_page(shop.url, cookie), _page(site.url, there)] == [401, 401]


def _logged_in(url: str, token: str) -> str:
    """The cookie that a browser gets at the form."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with closing(HTTPConnection(url.split("/")[2])) as connection:
        connection.request("POST", "/login", urlencode({"token": token}), form)
        return (connection.getresponse().headers["Set-Cookie"] or "").partition(";")[0]


def _page(url: str, cookie: str, logout: str = "") -> int:
    """The status of the page, or of logging out."""
    with closing(HTTPConnection(url.split("/")[2])) as connection:
        connection.request("POST" if logout else "GET", f"/{logout}", headers={"Cookie": cookie, "Accept": "text/html"})
        return connection.getresponse().status


def test_every_promised_parameter_is_known(shop: Shop) -> None:
    """`from` of the ledger is one."""
    shop.owner.ask("POST", "/jobs", {"id": "j", "noop": True, "schedule": "* * * * *"})
    assert shop.owner.ask("GET", "/jobs/j/ledger?from=2030-01-01T00:00:00Z&to=2030-01-02T00:00:00Z")[0] == 200
