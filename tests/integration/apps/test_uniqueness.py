"""Functions whose runs are unique, and runs that expire: on every store, as programs ask for them."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

import tokimori
from tests.servers import mariadb, postgres, redis
from tokimori.apps.app import App
from tokimori.errors import Duplicate, InvalidInput

SERVERS: dict[str, Any] = {"postgres": postgres.loans, "mariadb": mariadb.loans, "redis": redis.loans}


def both(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The order of both, with the items of both."""
    return {"order": new["order"], "items": [*old["items"], *new["items"]]}


class Shop:
    """An app, and its functions."""

    def __init__(self, url: str) -> None:
        self.app = app = App("shop", url=url)
        self.gate = threading.Event()

        @app.job(unique="until_end", unique_by=lambda order, **_: order)
        def ship(order: int, items: list[str]) -> list[str]:
            self.gate.wait(30)
            return items

        @app.job(unique="until_start", unique_by=lambda order, **_: order, merge=both)
        def gather(order: int, items: list[str]) -> list[str]:
            return items

        @app.job(unique="until_end", on_duplicate="refuse")
        def once(order: int = 1, note: str = "") -> None: ...

        @app.job(unique="until_end", unique_by=lambda mail: mail or None, expires="1s")
        def mail(mail: str) -> None: ...

        self.ship, self.gather, self.once, self.mail = ship, gather, once, mail


STORES = ["sqlite", *(pytest.param(name, marks=pytest.mark.prove) for name in SERVERS)]


@pytest.fixture(params=STORES, scope="module")
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """One whose functions run as soon as a test says so."""
    folder, loans = tmp_path_factory.mktemp("shop"), SERVERS.get(request.param)
    shop = Shop(f"sqlite://{folder}/t.db" if loans is None else loans.url_of(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKIMORI_STATE_DIR", str(folder / "state"))
        yield shop
    shop.app.client.close()
    if loans is not None:
        loans.give_back(folder)


def test_a_second_request_gets_the_same_handle(shop: Shop) -> None:
    """It answers while it waits and while it runs; when it has ended, there is a new one."""
    first, other = shop.ship.enqueue(7, ["a"]), shop.ship.enqueue(8, ["a"])
    assert shop.ship.enqueue(order=7, items=["b"]).id == first.id != other.id
    many = shop.ship.enqueue_many(shop.ship.request(order, ["c"]) for order in (7, 7, 9, 9))
    assert [handle.id == first.id for handle in many] == [True, True, False, False]
    assert many[2].id == many[3].id
    with shop.app.running():
        while first.refresh().state != "running":
            pass
        assert shop.ship.enqueue(7, ["d"]).id == first.id
        shop.gate.set()
        assert first.result(timeout=30) == ["a"]
        assert shop.ship.enqueue(7, ["e"]).result(timeout=30) == ["e"]
        shop.gate.clear()


def test_what_waits_is_merged_and_what_has_begun_is_not(shop: Shop) -> None:
    """Several at once lose nothing: the function of the app makes one request of two, whoever was faster."""
    handles = [shop.gather.enqueue(1, ["0"])]
    threads = [
        threading.Thread(target=lambda n=n: handles.append(shop.gather.enqueue(1, [str(n)]))) for n in range(1, 6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({handle.id for handle in handles}) == 1 and len(handles) == 6
    with pytest.raises(InvalidInput, match="merge"):
        shop.gather.request(1, ["x"])
    with shop.app.running():
        assert sorted(handles[0].result(timeout=30)) == ["0", "1", "2", "3", "4", "5"]
        assert shop.gather.enqueue(1, ["y"]).result(timeout=30) == ["y"]


def test_a_second_request_is_refused_by_code(shop: Shop) -> None:
    """The same arguments are the key, however they are given; the error names the run, and a request may say else."""
    first = shop.once.enqueue(1, note="n")
    with pytest.raises(Duplicate) as refused:
        shop.once.enqueue(note="n", order=1)
    assert (refused.value.code, refused.value.value) == ("duplicate", first.id)
    assert shop.once.asked(on_duplicate="same").enqueue(1, note="n").id == first.id
    assert shop.once.enqueue(2, note="n").id != first.id
    assert shop.once.asked(unique=None).enqueue(1, note="n").id != first.id
    with pytest.raises(tokimori.TokimoriError, match="connection"):
        shop.once.asked(connection=__import__("sqlite3").connect(":memory:")).enqueue(3)


def test_a_run_that_has_not_begun_in_time_is_skipped(shop: Shop) -> None:
    """Nobody runs it: a node that comes later ends it as skipped, and says since when it is too late."""
    late, again = shop.mail.enqueue("a@example.com"), shop.mail.enqueue("")
    assert again.id != shop.mail.enqueue("").id  # no key: not unique
    assert shop.mail.asked(expires="1h").enqueue("b@example.com").run.expires is not None
    with pytest.raises(InvalidInput, match="expires"):
        shop.mail.asked(at="2h", expires="1h").enqueue("c@example.com")
    threading.Event().wait(1.2)
    with shop.app.running():
        for handle in (late, again):
            with pytest.raises(tokimori.RunFailed, match="had not begun by"):
                handle.result(timeout=30)
            assert handle.refresh().state == "skipped"


RACER = """
import sys
import tokimori
app = tokimori.App("race", url=sys.argv[1])
@app.job(unique="until_end", unique_by=lambda order, **_: order)
def pay(order: int, by: str) -> None: ...
sys.stdin.readline()
print(*(pay.enqueue(n, sys.argv[2]).id for n in range(20)))
"""


def test_of_two_processes_one_makes_each_run(shop: Shop) -> None:
    """Both ask for the same twenty orders at the same time: they get the same twenty runs."""
    command = [sys.executable, "-c", RACER, str(shop.app.url)]
    racers = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in "ab"
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=60)[0].split() for racer in racers]
    assert said[0] == said[1]
    assert len(set(said[0])) == len(list(shop.app.client.runs.list(job_id="pay"))) == 20


def test_a_retry_takes_no_key_back(shop: Shop) -> None:
    """`run retry` makes a run that holds the key if nobody else does; else both go on, and the new one says so."""
    client = shop.app.client
    first = shop.once.enqueue(5)
    first.cancel()
    second = shop.once.enqueue(5)
    third = client.runs.retry(first.id)
    assert (third.unique, third.beside) == (None, second.id)
    assert [each.text for each in client.runs.why(third.id).reasons if each.cause == "beside"] != []
    for run in (second.id, third.id):
        client.runs.cancel(run)
    fourth = client.runs.retry(first.id)
    assert (fourth.unique, fourth.beside) == ("until_end", None)
    with pytest.raises(Duplicate):
        shop.once.enqueue(5)


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"unique": "always"}, "unique"),
        ({"unique_by": lambda order: order}, "unique_by"),
        ({"on_duplicate": "refuse"}, "on_duplicate"),
        ({"unique": "until_end", "on_duplicate": "ignore"}, "on_duplicate"),
        ({"unique": "until_end", "unique_by": lambda: 1}, "unique_by"),
        ({"unique": "until_end", "unique_by": 7}, "unique_by"),
        ({"unique": "until_end", "merge": lambda old: old}, "merge"),
        ({"unique": "until_end", "merge": lambda old, new: old, "on_duplicate": "refuse"}, "merge"),
        ({"expires": 60}, "expires"),
        ({"expires": "0s"}, "expires"),
        ({"expires": timedelta(seconds=-1)}, "expires"),
        ({"expires": datetime(2099, 1, 1)}, "expires"),
    ],
)
def test_wrong_terms_are_refused_where_they_are_declared(terms: dict[str, Any], field: str) -> None:
    """The field is named, before any request."""
    app = App("wrong", url="memory:")
    with pytest.raises(InvalidInput) as refused:
        app.job(**terms)(lambda_free)
    assert refused.value.field == field


def lambda_free(order: int = 1) -> None: ...
