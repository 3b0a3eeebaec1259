"""The access log says what was asked and how it ended, and nothing that lets somebody in."""

import logging

import pytest
from starlette.types import Receive, Scope, Send

from tests.unit.api.asgi import BEARER, SECRET, Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import World
from tokimori.api.access_log import AccessLog


def logged(world: World) -> Asker:
    """The door of this world, whose requests are logged; who asks brings nothing by himself."""
    app = an_app(world)
    return Asker(AccessLog(app, world.clock), bare=True)


async def test_a_line_for_each_request(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Method, path, status, size, time and address; the secret neither from the query nor from headers and cookies."""
    caplog.set_level(logging.INFO, logger="tokimori.api.access_log")
    door, host = logged(world), ("host", "localhost")
    entered = await door.ask("GET", f"/?secret={SECRET}&q=hidden", headers=[host])
    assert entered.status == 303
    await door.ask("GET", "/api/v2/jobs", headers=[host, *BEARER.items(), ("cookie", entered.headers["set-cookie"])])
    await door.ask("GET", "/a\nGET /forged", headers=[host])
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(",")[0] for line in lines] == [
        "GET / 303",
        "GET /api/v2/jobs 200",
        "GET /a%0AGET%20/forged 401",
    ]
    assert " bytes in 0.0 ms, to " in lines[1]
    cookie = entered.headers["set-cookie"].partition(";")[0].partition("=")[2]
    assert not any(word in line for line in lines for word in (SECRET, cookie, "hidden"))


async def test_a_request_that_fails_is_logged_too(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """As one that was not answered."""

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a bug")

    caplog.set_level(logging.INFO, logger="tokimori.api.access_log")
    with pytest.raises(RuntimeError):
        await Asker(AccessLog(broken, world.clock)).get("/x")
    assert caplog.records[0].getMessage().startswith("GET /x not answered, 0 bytes")
