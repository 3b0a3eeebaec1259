"""Jobs of an app whose runs are asked for before any node has declared them."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.client.shops import by_sqlalchemy
from tests.servers import mariadb, postgres, redis
from tests.unit.client.served import served
from tokimori.apps.app import App
from tokimori.client.client import open as open_client
from tokimori.client.facade import done
from tokimori.errors import NotFound, Refused
from tokimori.executors.functions.wire import Declared as Task
from tokimori.model.ids import JobId
from tokimori.model.transitions import RunState
from tokimori.service.service import service_for
from tokimori.service.sets.app_jobs import Declared, declare

SERVERS: dict[str, Any] = {"postgres": postgres.loans, "mariadb": mariadb.loans, "redis": redis.loans}


@pytest.fixture(params=["sqlite", *SERVERS, "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty store, or the door of one."""
    if request.param == "http":
        with served() as door:
            yield door
    elif request.param == "sqlite":
        yield f"sqlite://{tmp_path}/t.db"
    else:
        yield SERVERS[request.param].url_of(tmp_path)
        SERVERS[request.param].give_back(tmp_path)


class Shop:
    """An app with three jobs."""

    def __init__(self, url: str) -> None:
        self.app = app = App("shop", url=url)

        @app.job(attempts=3)
        def sell(number: int = 1) -> int:
            return number

        @app.job("0 3 * * *", runs_remaining=4)
        def count(number: int = 1) -> int:
            return number

        @app.job(parents=[{"job": "sell"}])
        def thank() -> None: ...

        self.sell, self.count, self.thank = sell, count, thank


def test_what_is_asked_for_is_declared_first(url: str) -> None:
    """Once, with all its terms and the jobs after which it runs; the run waits for a node."""
    app = Shop(url)
    assert app.sell.enqueue(5).state is RunState.READY
    runs = app.count.enqueue_many([app.count.request(n) for n in (1, 2)])
    assert [each.run.payload for each in runs] == ['{"number":1}', '{"number":2}']
    with open_client(url) as client:
        sell, count = client.jobs.get("sell"), client.jobs.get("count")
        assert (sell.function, sell.owner) == ("shop.sell", "shop")
        assert (sell.retry.attempts, count.runs_remaining) == (3, 4)
        assert [job.id for job in client.jobs.list()] == ["count", "sell"]
        another = Shop(url)
        assert another.thank.enqueue().state is RunState.READY
        assert client.jobs.get("sell") == sell
    for each in (app, another):
        each.app.client.close()


def test_a_job_of_another_app_is_not_asked_for(url: str) -> None:
    """Its run would be carried out by that app's code: alone, as one of many or in a family it is refused.

    What somebody has made of the job by hand is asked for as it is.
    """
    first, other = Shop(url), App("other", url=url)

    @other.job
    def sell(number: int = 1) -> int:
        return number

    first.sell.enqueue(5)
    for ask in (
        lambda: sell.enqueue(7),
        lambda: sell.enqueue_many([sell.request(7)]),
        lambda: sell.request(7).then(sell.request(8)).enqueue(),
    ):
        with pytest.raises(Refused, match=r"the job 'sell' is that of the app 'shop', whose code") as found:
            ask()
        assert found.value.field == "id"
    with open_client(url) as client:
        assert len(client.runs.list(job_id="sell").runs) == 1
        client.jobs.update("sell", function="by-hand")
    assert sell.enqueue(7).state is RunState.READY
    for each in (first.app, other):
        each.client.close()


def test_what_a_job_names_is_declared_before_it(url: str) -> None:
    """Wherever the app declares it: whom it follows, and what runs when it fails."""
    app = App("shop", url=url)

    @app.job(parents=[{"job": "late"}], on_failure_job="alarm")
    def early() -> None: ...

    @app.job(on_failure_job="alarm")
    def late() -> None: ...

    @app.job
    def alarm() -> None: ...

    assert early.enqueue().state is RunState.READY
    assert [job.id for job in app.client.jobs.list()] == ["alarm", "early", "late"]
    assert app.client.jobs.get("late").on_failure_job == "alarm"
    app.client.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_circle_of_new_jobs_is_named(url: str) -> None:
    """No order of declaring them is right, so that each would only miss another one."""
    app = App("shop", url=url)
    egg = app.job(id="egg", parents=[{"job": "hen"}])(lambda: None)
    app.job(id="hen", parents=[{"job": "egg"}])(lambda: None)
    with pytest.raises(NotFound, match=r"parents: (egg → hen → egg|hen → egg → hen) is a cycle"):
        egg.enqueue()
    app.client.close()


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_older_code_brings_no_job_back(url: str) -> None:
    """What a newer version of the app has deleted is not declared by a program that still runs the older code."""
    old, new = App("shop", url=url, version=1), App("shop", url=url, version=2)
    for app in (old, new):
        app.job(id="sell")(lambda: None)
    weekly = old.job("0 3 * * mon", id="weekly")(lambda: None)
    assert weekly.enqueue().state is RunState.READY
    newest = Declared(app="shop", jobs={"sell": {"function": "shop.sell"}}, vanished="delete", version="2")
    old.client._run(lambda client: declare(service_for(client._shared, client._caller).jobs, newest), "")
    old.client.jobs.delete("weekly")
    with pytest.raises(NotFound, match="version 2 of the app shop has declared its jobs, without this one") as found:
        weekly.enqueue()
    assert "this code is version 1" in found.value.message and "app version shop 1" in str(found.value.allowed)
    assert [job.id for job in new.client.jobs.list()] == ["sell"]
    for app in (old, new):
        app.client.close()


class Project(App):
    """One with a task, as the app of a Django project has: the first request declares it."""

    def _with_named(self, job_id: str, below: tuple[str, ...] = ()) -> dict[str, Task]:
        return {job_id: Task(id=job_id, fields={"noop": True})}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_older_code_declares_what_no_version_does(url: str) -> None:
    """A task of Django is requested by older code beside newer: no version has declared its jobs without this one."""
    app = Project("shop", url=url, version=1)
    newest = Declared(app="shop", jobs={}, version="2")
    app.client._run(lambda client: declare(service_for(client._shared, client._caller).jobs, newest), "")
    way = app.ways.blocking("")
    assert (
        done(app._ask(way, JobId("mail"), lambda way: way(lambda client: client.jobs.trigger("mail")))).job_id == "mail"
    )
    app.client.close()


def test_many_processes_may_ask_at_once(url: str) -> None:
    """Each gets its run, and the job is there once."""
    apps = [Shop(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        runs = list(threads.map(lambda app: app.sell.enqueue(1), apps))
    assert len({run.id for run in runs}) == 4
    assert [job.id for job in apps[0].app.client.jobs.list().jobs] == ["sell"]
    for app in apps:
        app.app.client.close()


@pytest.mark.parametrize("url", ["postgres", "mariadb"], indirect=True)
def test_in_a_transaction_too(url: str) -> None:
    """The job is declared beside it, and the run is there once it commits."""
    app, program = Shop(url), by_sqlalchemy(url)
    with open_client(url) as client:
        client.db.migrate()
        program.execute("SELECT 1")
        run = app.sell.asked(connection=program.connection).enqueue(5)
        assert client.runs.list().runs == []
        program.commit()
        assert [found.id for found in client.runs.list()] == [run.id]
    program.close()
    app.app.client.close()


def test_where_it_cannot_be_declared_the_error_says_what_to_do(tmp_path: Path) -> None:
    """A transaction on SQLite may have locked the file that the job would be written to."""
    url = f"sqlite://{tmp_path}/t.db"
    with open_client(url) as client:
        client.db.migrate()
    app = Shop(url)
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(NotFound, match="no job 'sell' yet, and it can't be declared here: your trans") as found:
            app.sell.asked(connection=connection).enqueue()
        assert "tokimori worker" in str(found.value.allowed)
    app.app.client.close()
