"""The services of `examples/web`, each under the server with which people run it, on PostgreSQL."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.integration.apps.conftest import until
from tests.programs.forked import BARE, ROOT
from tests.servers.postgres import Server

SERVERS = {
    "fastapi, uvicorn, 3 workers": ["uvicorn", "fastapi_service:service", "--workers", "3", "--port"],
    "starlette, uvicorn": ["uvicorn", "starlette_service:service", "--port"],
    "flask, gunicorn": ["gunicorn", "flask_service:service", "--workers", "2", "--threads", "4", "--bind"],
    "django, gunicorn --preload": ["gunicorn", "project.wsgi", "--preload", "--workers", "3", "--bind"],
    "flask, gunicorn --preload": ["gunicorn", "flask_service:service", "--preload", "--workers", "2", "--bind"],
}
pytestmark = [pytest.mark.prove, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of its own, which is restarted."""
    found = Server()
    yield found
    found.remove()


class Service:
    """A service at work, in a folder of its own."""

    def __init__(self, folder: Path, store: str, port: int, words: list[str], **settings: str) -> None:
        self.folder, self.port, self.store = folder, port, store
        is_django = "project.wsgi" in words
        shutil.copytree(ROOT / "examples" / ("django" if is_django else "web"), folder, dirs_exist_ok=True)
        self.deliveries = folder / "deliveries"
        environment = {
            **BARE,
            "HOME": str(folder),
            "TOKIMORI_STORE": store,
            "TOKIMORI_STATE_DIR": str(folder / "state"),
            "DELIVERIES": str(self.deliveries),
            "PYTHONPATH": str(folder),
            **settings,
        }
        self.environment = environment | (of_django(store) if is_django else {})
        self.beside = [self._start("manage.py", "tokimori", "worker")] if is_django and self.manage("migrate") else []
        where = f"127.0.0.1:{port}" if words[0] == "gunicorn" else str(port)
        self.program = self._start("-m", *words, where)

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "log").open("a") as log:
            command = [sys.executable, *words]
            return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)

    def manage(self, *words: str) -> bool:
        """What `manage.py` does."""
        subprocess.run([sys.executable, "manage.py", *words], cwd=self.folder, env=self.environment, check=True)
        return True

    def runs(self) -> list[dict[str, Any]]:
        """What the store knows of the deliveries."""
        command = [sys.executable, "-m", "tokimori", "--json", "run", "list", "--job", "deliver", "-n", "200"]
        known = self.environment | {"TOKIMORI_STORE": self.store}
        said = subprocess.run(command, cwd=self.folder, env=known, check=True, capture_output=True)
        found: list[dict[str, Any]] = json.loads(said.stdout)
        return found

    def ask(self, path: str, *, post: bool = False) -> Any:
        """What the service answers. Raises `OSError` if it does not, and for errors."""
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method="POST" if post else "GET")
        with urllib.request.urlopen(asked, timeout=90) as answer:  # noqa: S310
            return json.load(answer)

    def order(self, number: int, seconds: float = 0) -> str:
        """The run of an order that is taken, however often it has to be asked for."""
        end = time.monotonic() + 120
        while True:
            try:
                return str(self.ask(f"/orders/{number}?seconds={seconds}", post=True)["run"])
            except OSError:
                assert self.program.poll() is None and time.monotonic() < end, self.said()
                time.sleep(0.2)

    def noted(self) -> list[list[str]]:
        """What the deliveries have written."""
        return [line.split() for line in self.deliveries.read_text().splitlines()] if self.deliveries.exists() else []

    def said(self) -> str:
        """What the server has printed."""
        return (self.folder / "log").read_text()

    def stop(self) -> None:
        """SendSignal it to end, which it does by itself; uvicorn raises the signal once more when it is done."""
        self.program.terminate()
        assert self.program.wait(120) in (0, -signal.SIGTERM), self.said()

    def end(self) -> None:
        """Kill whatever is left of it."""
        for each in (*self.beside, self.program):
            if each.poll() is None:
                each.terminate() if each in self.beside else each.kill()
            each.wait(60)


def of_django(store: str) -> dict[str, str]:
    """The variables that `examples/django` reads: it finds the store by its own database."""
    parts = urlsplit(store)
    return {
        "TOKIMORI_STORE": "",
        "PGDATABASE": parts.path.lstrip("/"),
        "PGHOST": parse_qs(parts.query)["host"][0],
        "PGPORT": parse_qs(parts.query)["port"][0],
        "PGUSER": parts.username or "postgres",
    }


@pytest.fixture
def started(tmp_path: Path, server: Server, unused_tcp_port: int, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Starts a service."""
    begun: list[Service] = []

    def start(words: list[str], modules: Mapping[str, str] = MappingProxyType({}), **settings: str) -> Service:
        for module, text in modules.items():
            (tmp_path / f"{module}.py").write_text(text)
        name = f"s{os.getpid()}_{abs(hash(request.node.name))}"
        server.make(name)
        begun.append(Service(tmp_path, server.url(name), unused_tcp_port, words, **settings))
        return begun[0]

    yield start
    for each in begun:
        each.end()


@pytest.mark.parametrize("name", SERVERS)
def test_a_restart_of_the_database_loses_nothing(name: str, started: Any, server: Server) -> None:
    """Each order that was taken is delivered, and its delivery begins once; the next request works."""
    service = started(SERVERS[name])
    runs = {0: service.order(0)}
    assert service.ask(f"/runs/{runs[0]}") == {"result": "order 0 is delivered"}

    def take() -> None:
        for number in range(1, 40):
            runs[number] = service.order(number, 0.5)

    orders = threading.Thread(target=take)
    orders.start()
    until(lambda: len(runs) >= 10, 60)
    server.stop()
    server.start()
    runs[100] = str(service.ask("/orders/100", post=True)["run"])
    orders.join()
    for number, run in runs.items():
        assert service.ask(f"/runs/{run}") == {"result": f"order {number} is delivered"}
    known = service.runs()
    assert {(run["id"], run["state"], run["lost"]) for run in known} == {(run, "succeeded", 0) for run in runs.values()}
    if not service.beside:  # where the functions use no database themselves, none has to be tried again
        noted = service.noted()
        begun = Counter(order for word, order, *_ in noted if word == "begun")
        assert begun == {str(number): 1 for number in runs}, noted
        assert {run for word, _, run, _ in noted if word == "ended"} == set(runs.values())
    service.stop()


@pytest.mark.parametrize("name", [name for name in SERVERS if not name.startswith("django")])
def test_a_stop_waits_for_what_runs(name: str, started: Any) -> None:
    """TERM leaves a function the time that it needs, within the grace of the settings."""
    service = started(SERVERS[name])
    service.order(1, seconds=6)
    until(lambda: bool(service.noted()))
    service.stop()
    assert [word for word, *_ in service.noted()] == ["begun", "ended"]


@pytest.mark.parametrize("preload", [[], ["--preload"]])
def test_a_program_that_stops_nothing_waits_as_well(started: Any, preload: list[str]) -> None:
    """An app that is at work since its module was imported has its grace when the program ends."""
    run = "from flask_service import app, service\nrunning = app.running()\nrunning.start()\n"
    words = ["gunicorn", "at_import:service", "--config", "nothing.py", *preload, "--bind"]
    service = started(words, modules={"at_import": run, "nothing": ""})
    service.order(1, seconds=6)
    until(lambda: bool(service.noted()))
    service.stop()
    assert [word for word, *_ in service.noted()] == ["begun", "ended"]


@pytest.mark.parametrize("name", ["starlette, uvicorn", "flask, gunicorn"])
def test_a_stop_waits_no_longer_than_the_grace(name: str, started: Any) -> None:
    """A function that needs longer is another node's afterwards, and the server goes."""
    service = started(SERVERS[name], TOKIMORI_NODE_STOP_GRACE="1")
    service.order(1, seconds=300)
    until(lambda: bool(service.noted()))
    began = time.monotonic()
    service.stop()
    assert time.monotonic() - began < 60
    assert [word for word, *_ in service.noted()] == ["begun"]


ASKED = """
import uuid
from jobs import app, deliver
from flask_service import service
from tokimori.testing import Rehearsal
asks = service.test_client()
with Rehearsal(app):
    run = deliver.enqueue(1).id
    print([asks.get(f"/runs/{each}").status_code for each in (run, "nobody", uuid.uuid4())])
"""


def test_a_service_answers_with_the_status_of_an_error(tmp_path: Path) -> None:
    """Whoever asks for a run that is not there gets a 404, and for what is no id a 422: both were a 500."""
    shutil.copytree(ROOT / "examples" / "web", tmp_path, dirs_exist_ok=True)
    said = subprocess.run([sys.executable, "-c", ASKED], cwd=tmp_path, env=BARE, check=True, capture_output=True)
    assert said.stdout.decode() == "[200, 422, 404]\n"
