"""The synchronous client, on a memory store."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.client.served import TRANSPORTS, served, store_of
from tokimori.client.asynchronous import client_on
from tokimori.client.client import Client, open_async
from tokimori.client.client import open as open_client
from tokimori.client.opening import Stores
from tokimori.clock import SystemClock
from tokimori.errors import Forbidden, InvalidConfig, InvalidInput, NotFound, Refused, SchemaMismatch, StoreError
from tokimori.locks.membership import Program
from tokimori.model.job import JobState
from tokimori.model.transitions import RunState
from tokimori.ports.store import SchemaStatus
from tokimori.stores.memory.store import MemoryStore


class NewerStore(MemoryStore):
    """A store of a newer Tokimori; counts how often it is closed."""

    closed = 0

    async def schema(self) -> SchemaStatus:
        return SchemaStatus(version=2, newest=1, pending=(), oldest=2)

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture(params=TRANSPORTS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """One on a store of its own, or over HTTP on the store of a node."""
    with store_of(request.param) as url, open_client(url, time_zone="Europe/Paris") as opened:
        yield opened


def test_jobs_are_said_in_keywords(client: Client) -> None:
    """Those of `JobFields`, in the client's zone; None brings a default back."""
    job = client.jobs.add("nightly", schedule="0 3 * * *", command="make report", priority=3)
    assert job.command == "make report"
    assert (job.id, job.time_zone) == ("nightly", "Europe/Paris")
    assert client.jobs.get("nightly") == job
    assert client.jobs.update("nightly", priority=None, owner="ada").priority == 0
    assert [each.id for each in client.jobs.list()] == ["nightly"]


def test_the_time_zone_of_one_client_is_not_that_of_another() -> None:
    """Over one door, of one author: jobs that name no zone get that of the client that adds them."""
    with store_of("http") as url, open_client(url, time_zone="Asia/Tokyo") as one, open_client(url) as other:
        for name, client in (("a", one), ("b", other)):
            client.jobs.add(name, noop=True, schedule="@daily")
        assert [other.jobs.get(name).time_zone for name in "ab"] == ["Asia/Tokyo", "UTC"]


def test_a_job_is_disabled_and_enabled(client: Client) -> None:
    """As other schedulers call what is a pause and a resume."""
    client.jobs.add("j", noop=True)
    assert client.jobs.pause("j", "repairs").state is JobState.PAUSED
    assert client.jobs.resume("j").state is JobState.ENABLED


def test_a_run_is_asked_for_within_another_one(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run within which a program runs is the parent of those that it asks for, unless it says otherwise."""
    client.jobs.add("j", noop=True)
    assert client.jobs.trigger("j").parent_id is None
    monkeypatch.setenv("TOKIMORI_RUN_ID", parent := client.jobs.trigger("j").id)
    with open_client("memory:") as within:
        within.jobs.add("j", noop=True)
        assert within.jobs.trigger("j").parent_id == within.jobs.request("j", throttle=5, key="k").parent_id == parent
        assert within.jobs.trigger("j", parent=None).parent_id is None


async def test_a_run_is_asked_for_by_tasks_within_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds for asynchronous programs."""
    monkeypatch.setenv("TOKIMORI_RUN_ID", parent := "01960000-0000-7000-8000-000000000000")
    async with open_async("memory:") as within:
        await within.jobs.add("j", noop=True)
        assert (await within.jobs.trigger("j")).parent_id == parent
        assert (await within.jobs.request("j", throttle=5, key="k")).parent_id == parent
        assert (await within.jobs.trigger("j", parent=None)).parent_id is None


def test_what_became_of_a_request(client: Client) -> None:
    """`ask` says it, `trigger` gives the run alone."""
    client.jobs.add("j", noop=True)
    first = client.jobs.request("j", "k", debounce=60)
    assert client.jobs.trigger("j", "k", "p", debounce=60).id == first.id
    assert (first.became, client.jobs.request("j", "k", replace=True).became) == ("made", "replaced")


def test_the_graph_of_jobs(client: Client) -> None:
    """Edges come as they are declared."""
    client.jobs.add("a", noop=True)
    client.jobs.add("b", noop=True, parents=[{"job": "a"}])
    assert [(edge.parent, edge.child, edge.on.value) for edge in client.jobs.graph("a")] == [("a", "b", "success")]


def test_runs_are_asked_for_and_waited_for(client: Client) -> None:
    """A call returns when the service has."""
    client.jobs.add("j", noop=True)
    run = client.jobs.trigger("j", payload="p")
    assert client.runs.list().runs == [run]
    client.runs.cancel(run.id)
    assert client.runs.wait(run.id).state is RunState.CANCELLED


def test_a_store_is_copied(tmp_path: Path) -> None:
    """To another URL, with how many rows of each kind were written."""
    with open_client(f"sqlite://{tmp_path}/a.db") as here, open_client(f"sqlite://{tmp_path}/b.db") as there:
        here.jobs.add("nightly", command="make report")
        copied = here.copy_to(f"sqlite://{tmp_path}/b.db")
        assert [(each.kind, each.written) for each in copied if each.rows] == [("jobs", 1), ("documents", 1)]
        assert there.jobs.get("nightly") == here.jobs.get("nightly")


def test_a_store_in_a_folder_of_others_is_a_fault_of_its_address(tmp_path: Path) -> None:
    """What the file system says of a path is told as a fault of the store, never as its own exception."""
    (tmp_path / "t.db").symlink_to("s" * 300)
    with (
        pytest.raises(StoreError, match=r"store .+/t\.db can't be reached: "),
        open_client(f"sqlite://{tmp_path}/t.db") as client,
    ):
        client.jobs.list()


def test_errors_arrive_as_they_are(client: Client) -> None:
    """With their code and what they name."""
    with pytest.raises(NotFound) as caught:
        client.jobs.get("missing")
    assert caught.value.value == "missing"


def test_threads_share_a_client(client: Client) -> None:
    """Each gets its own answer, from one store."""
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda n: client.jobs.add(f"j{n:02}", noop=True).id, range(40)))
    assert added == [f"j{n:02}" for n in range(40)]
    assert [job.id for job in client.jobs.list()] == added


def test_a_closed_client_refuses(client: Client) -> None:
    """And may be closed again."""
    client.jobs.add("j", noop=True)
    client.close()
    client.close()
    with pytest.raises(Refused):
        client.jobs.list()


def test_closing_ends_what_other_threads_wait_for(client: Client) -> None:
    """A thread that waits for a run is told, and not left waiting for ever."""
    client.jobs.add("j", noop=True)
    run = client.jobs.trigger("j")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.runs.wait, run.id)
        while not client._background._by_process[os.getpid()]._calls:
            pass
        client.close()
        with pytest.raises(Refused):
            waiting.result(10)


def test_a_store_that_can_not_be_opened_is_closed_and_tried_again() -> None:
    """Each call says why; no thread is left behind."""
    store = NewerStore(SystemClock())
    program = Program(host="h", boot_id="b", pid=1, version="0")
    with Client(lambda: client_on(Stores(store), SystemClock(), os.urandom, program=program)) as client:
        for tries in (1, 2):
            with pytest.raises(SchemaMismatch):
                client.jobs.list()
            assert store.closed == tries


def test_opening_reads_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad one is an error before anything is opened."""
    monkeypatch.setenv("TOKIMORI_TIME_ZONE", "Mars/Olympus")
    with pytest.raises(InvalidConfig):
        open_client("memory:")
    monkeypatch.delenv("TOKIMORI_TIME_ZONE")
    with open_client("memory:", time_zone="Asia/Tokyo") as client:
        assert client.jobs.add("j", noop=True).time_zone == "Asia/Tokyo"


def test_a_url_that_names_no_store_is_refused_at_once() -> None:
    """By `open`, not by the first call."""
    with pytest.raises(InvalidInput, match="not the URL of a store"):
        open_client("oracle://x")


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (lambda client: client.jobs.trigger(5), "id"),
        (lambda client: client.jobs.get(None), "id"),
        (lambda client: client.runs.get(7), "run"),
        (lambda client: client.runs.cancel(None), "run"),
        (lambda client: client.jobs.trigger("a", key=5), "key"),
        (lambda client: client.jobs.next("a", n="x"), "n"),
        (lambda client: client.jobs.pause("a", reason=5), "reason"),
        (lambda client: client.calendars.add(5), "calendar"),
        (lambda client: client.queues.pause(5), "queue"),
        (lambda client: client.semaphores.set("x", "y"), "limit"),
    ],
)
def test_a_value_of_another_type_is_named(ask: Callable[[Client], object], field: str) -> None:
    """What Python would call a TypeError, deep within, is an error of ours: the field, the value, what may be."""
    with open_client("memory:") as client:
        client.jobs.add("a", noop=True)
        with pytest.raises(InvalidInput) as caught:
            ask(client)
    assert caught.value.field == field
    assert caught.value.allowed


def test_a_file_that_is_not_there_is_made_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As Python's own SQLite does; a path that is misspelt shows itself in the log, once."""
    for warnings in (1, 1):
        with open_client(f"sqlite://{tmp_path}/t.db") as client:
            client.jobs.list()
        assert [record.getMessage() for record in caplog.records] == [
            f"the store {tmp_path}/t.db does not exist: it is made, and is empty"
        ] * warnings


def test_a_token_for_pings_pings() -> None:
    """A client that may read nothing reports, and is told no for all else."""
    with served() as url, open_client(url) as client:
        client.expectations.set("office-backup", 3600)
        token = client.tokens.create("office", "ping", jobs=["office-"]).text
        with open_client(f"{url.partition('?')[0]}?secret={token}") as office:
            assert office.expectations.ping("office-backup").last_good is not None
            with pytest.raises(Forbidden):
                office.jobs.list()
            with pytest.raises(Forbidden):
                office.expectations.ping("other")
