"""What workers say over HTTP, where it is wrong."""

import os

import pytest

from tests.unit.api.asgi import Asker
from tests.unit.api.conftest import an_app
from tests.unit.service.world import World
from tokimori.locks.membership import Program
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.claims.worker_arguments import MOST_SAID

CLAIMS = "/api/v2/claims"
RUN = "01a1fe76-c901-7d5c-b9f7-4e869d9c8e52"
LONG = "é" * (MOST_SAID // 2) + "x"


@pytest.fixture
def door(world: World) -> Asker:
    """A door with claims."""
    place = ClaimPlace(world.store, world.clock, os.urandom, Program(host="h", boot_id="b", pid=1, version="0"))
    world.give_place(place)
    return Asker(an_app(world))


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("", {}, "types"),
        ("", {"types": "a"}, "types"),
        ("", {"types": ["a|b"]}, "types"),
        ("", {"types": ["a"], "limit": 1000}, "limit"),
        ("", {"types": ["a"], "wait": 61}, "wait"),
        ("", {"types": ["a"], "alive_time": 0}, "alive_time"),
        ("", {"types": ["a"], "what": 1}, "what"),
        (f"/{RUN}/finish", {}, "token"),
        (f"/{RUN}/finish", {"token": "1"}, "token"),
        (f"/{RUN}/finish", {"token": 0}, "token"),
        ("/x/finish", {"token": 1}, "run"),
        (f"/{RUN}/fail", {"token": 1}, "error"),
        (f"/{RUN}/retry", {"token": 1, "after": 1, "at": "2030-01-01T00:00:00Z"}, "at"),
        (f"/{RUN}/heartbeat", {"token": 1, "alive_time": "long"}, "alive_time"),
        (f"/{RUN}/hold", {"token": 1, "reason": "a\0b"}, "reason"),
        (f"/{RUN}/release", {"token": 1, "why": "x"}, "why"),
        (f"/{RUN}/fail", {"token": 1, "error": LONG}, "error"),
        (f"/{RUN}/hold", {"token": 1, "reason": LONG}, "reason"),
        (f"/{RUN}/finish", {"token": 1, "result": LONG}, "result"),
        (f"/{RUN}/finish", {"token": 1, "result": [LONG]}, "result"),
    ],
)
async def test_what_is_wrong_is_named(door: Asker, path: str, body: object, field: str) -> None:
    """Bad input is answered with its field."""
    answer = await door.post(CLAIMS + path, body)
    assert (answer.status, answer.error["field"]) == (422, field)


async def test_a_run_that_nobody_knows_is_not_found(door: Asker) -> None:
    """A word about no run is answered 404."""
    assert (await door.post(f"{CLAIMS}/{RUN}/finish", {"token": 1})).status == 404


async def test_every_word_over_http(world: World, door: Asker) -> None:
    """Each word does what it says, and answers with the state of the run."""
    await world.add({"function": "f", "retry": {"attempts": 9}}, "a")
    said: dict[str, dict[str, object]] = {
        "finish": {},
        "fail": {"error": "x"},
        "retry": {"after": 60},
        "hold": {"reason": "y"},
        "release": {},
    }
    found = {}
    for word, body in said.items():
        await world.service.jobs.trigger("a")
        (run,) = (await door.post(CLAIMS, {"types": ["f"]})).json
        heard = await door.post(f"{CLAIMS}/{run['run_id']}/heartbeat", {"token": run["token"], "alive_time": 90})
        assert heard.json == {"run_id": run["run_id"], "alive_time": 90, "cancel": None}
        answer = await door.post(f"{CLAIMS}/{run['run_id']}/{word}", {"token": run["token"], **body})
        assert answer.json["run_id"] == run["run_id"]
        found[word] = answer.json["state"]
        again = await door.post(f"{CLAIMS}/{run['run_id']}/heartbeat", {"token": run["token"]})
        assert (again.status, again.error["code"]) == (409, "claim_lost")
        await world.service.runs.cancel(run["run_id"])
    assert found == {"finish": "succeeded", "fail": "waiting", "retry": "waiting", "hold": "held", "release": "ready"}
