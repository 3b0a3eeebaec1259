"""How often each client may ask."""

import pytest

from tests.unit.api.asgi import SECRET, Answer, Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import World
from tokimori.api.docs import OPENAPI
from tokimori.api.guards import Lenient
from tokimori.api.rates import Rates, client_of
from tokimori.clock import SECOND, Moment
from tokimori.model.access_token import Role
from tokimori.model.rate import Rate, parse_rate
from tokimori.service.access import Access

JOBS = "/api/v2/jobs"
HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


class Door:
    """A door where each client may ask twice a second; each request says who sends it, and from where."""

    def __init__(self, world: World, rate: str | None = "2/s") -> None:
        self.world = world
        app = an_app(
            world,
            rate=None if rate is None else parse_rate(rate, field="rate"),
            lenient=Lenient(open=("/api/v1/",)),
        )
        self.asker = Asker(app, bare=True)

    async def ask(self, bearer: str | None = None, client: str = HERE, path: str = JOBS) -> Answer:
        brought = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
        return await self.asker.ask("GET", path, headers=[*{"host": "localhost", **brought}.items()], client=client)

    async def statuses(self, times: int, bearer: str | None = None, client: str = HERE, path: str = JOBS) -> list[int]:
        return [(await self.ask(bearer, client, path)).status for _ in range(times)]


@pytest.fixture
def gate(world: World) -> Door:
    return Door(world)


async def test_who_asks_too_often_is_told_when_to_ask_again(world: World, gate: Door) -> None:
    """It is a problem with a code of ours, nothing is looked up for it, and after the wait he is answered."""
    assert await gate.statuses(2, SECRET) == [200, 200]
    asked = world.count("list_jobs")
    refused = await gate.ask(SECRET)
    assert (refused.status, refused.headers["retry-after"], len(asked)) == (429, "1", 0)
    assert refused.headers["content-type"] == "application/problem+json"
    assert (refused.error["code"], refused.json["status"]) == ("too_many_requests", 429)
    assert "2 requests in 1 s" in refused.error["message"] and "http.rate" in refused.error["allowed"]
    world.clock.moment = Moment(world.clock.moment + SECOND // 2)
    assert await gate.statuses(2, SECRET) == [200, 429]


async def test_nobody_uses_up_the_requests_of_another(world: World, gate: Door) -> None:
    """Each token is a client, so is the secret, and each address of who has none; naming a token is not having it."""
    ada, ben = [(await world.service.tokens.create(name, "read")).text for name in ("ada", "ben")]
    assert await gate.statuses(3, ada) == [200, 200, 429]
    assert await gate.statuses(3, f"{ben[:-1]}{'0' if ben[-1] != '0' else '1'}") == [401, 401, 429]
    assert await gate.statuses(1) == [429], "whatever he brings, he asks from there"
    assert await gate.statuses(3, ben) == [200, 200, 429]
    assert await gate.statuses(3, SECRET) == [200, 200, 429]
    assert await gate.statuses(1, SECRET, ELSEWHERE) == [429], "the secret is one client, wherever it comes from"
    assert await gate.statuses(3, client=ELSEWHERE) == [401, 401, 429]


async def test_logging_in_is_counted(world: World, gate: Door) -> None:
    """Who tries tokens at the page is counted by his address, who has one by that, and who opens the address, too."""
    text = (await world.service.tokens.create("ada", "read")).text

    async def log_in(token: str) -> int:
        headers = [("host", "localhost"), ("content-type", "application/x-www-form-urlencoded")]
        return (await gate.asker.ask("POST", "/login", headers=headers, chunks=[f"token={token}".encode()])).status

    assert [await log_in("x") for _ in range(3)] == [401, 401, 429]
    assert [await log_in(text) for _ in range(3)] == [303, 303, 429]
    assert await gate.statuses(3, path=f"/?secret={SECRET}") == [303, 303, 429]


async def test_an_open_api_is_counted_by_addresses(gate: Door) -> None:
    """Nobody has brought anything there: strangers don't use up the requests of who has the secret."""
    assert await gate.statuses(3, path="/api/v1/job/") == [404, 404, 429]
    assert await gate.statuses(1, SECRET) == [200]


async def test_probes_are_not_counted(gate: Door) -> None:
    """Load balancers ask as often as they like, and use up nothing."""
    for path in ("/healthz", "/livez", "/readyz"):
        assert set(await gate.statuses(10, path=path)) == {200}
    assert await gate.statuses(1) == [401]


async def test_without_a_rate_nobody_is_counted(world: World) -> None:
    """It is off unless somebody says one."""
    assert set(await Door(world, None).statuses(50, SECRET)) == {200}


async def test_the_document_tells_of_it(gate: Door) -> None:
    """Each operation but the probes may answer so."""
    paths = (await gate.ask(SECRET, path=OPENAPI)).json["paths"]
    assert "retry-after" in {name.lower() for name in paths[JOBS]["get"]["responses"]["429"]["headers"]}
    assert "429" not in paths["/healthz"]["get"]["responses"]


def test_a_bounded_number_of_clients_is_remembered(world: World) -> None:
    """Whoever comes from ever new addresses has only addresses forgotten, and of those the one unseen for longest."""
    rates = Rates(Rate(1, 10**9), world.clock, most=3)
    ada = Access(author="ada", role=Role.READ)

    def is_refused(host: str, access: Access | None = None) -> bool:
        return rates.refusal({"client": (host, 1)}, access) is not None

    assert not is_refused("a", ada)
    assert [is_refused(host) for host in ("a", "b", "a", "c", "d")] == [False, False, True, False, False]
    assert is_refused("a"), "seen after b"
    assert not is_refused("b"), "forgotten"
    assert is_refused("a", ada)
    assert len(rates._addresses._found) == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::2:3:4:5", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
    ],
)
def test_a_network_of_ipv6_is_one_client(one: str, other: str, same: bool) -> None:
    """A machine chooses 64 bits of its address as it likes."""
    assert (client_of({"client": (one, 1)}) == client_of({"client": (other, 1)})) is same
