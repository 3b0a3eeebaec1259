"""A project of Django: `examples/django` on PostgreSQL, with its own `manage.py`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.integration.apps.conftest import until
from tests.programs.forked import BARE, ROOT
from tests.servers import postgres

PYTHON = os.environ.get("DJANGO_PYTHON", sys.executable)
"""Another Python may have Django 6, whose tasks are its own: this one has django-tasks."""
TESTS = os.environ.get("DJANGO_TESTS", "")
"""The folder `tests/tasks` of the sources of that Django: `pip download --no-binary :all: --no-deps django`."""
MORE_TASKS = """
from pathlib import Path
try:
    from django.tasks import task
    from django.tasks.signals import task_finished, task_started
except ImportError:
    from django_tasks import task
    from django_tasks.signals import task_finished, task_started

class OwnError(Exception):
    pass

def heard(word, sender, task_result):
    with (Path(__file__).parent.parent / "heard").open("a") as file:
        file.write(f"{word} {task_result.id} {task_result.status}\\n")

def started(sender, task_result, **_):
    heard("started", sender, task_result)

def finished(sender, task_result, **_):
    heard("finished", sender, task_result)

task_started.connect(started)
task_finished.connect(finished)

@task
def noop(*args, **kwargs): pass

@task()
async def noop_async(*args, **kwargs): pass

@task
def fails(): raise ValueError("This task failed")

@task
async def fails_async(): raise ValueError("This task failed")

@task
def fails_twice(): raise ValueError(ValueError("This task failed"))

@task
def fails_in_its_own_way(): raise OwnError("two\\nlines")

@task
def exits(): raise SystemExit("This task exits")

@task
def complex_value(): return lambda: True

@task(takes_context=True)
def context(context, number): return [context.task_result.id, context.attempt, number]
"""


class Project:
    """A copy of the example, on a database of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder / "django"
        shutil.copytree(ROOT / "examples/django", self.folder)
        (self.folder / "shop/more_tasks.py").write_text(MORE_TASKS)
        parts = urlsplit(url)
        said = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.environment = {
            **BARE,
            "HOME": str(folder),
            "EXAMPLE": str(self.folder),
            "PGDATABASE": parts.path.lstrip("/"),
            "PGHOST": said["host"],
            "PGPORT": said.get("port", "5432"),
            "PGUSER": parts.username or "postgres",
            "TOKIMORI_STATE_DIR": str(folder / "state"),
        }

    def start(self, *words: str, output: int = subprocess.PIPE) -> "subprocess.Popen[str]":
        """A program of the project."""
        command = [PYTHON, *words]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=output, text=True)

    def manage(self, *words: str, code: int = 0) -> str:
        """What `manage.py` prints."""
        program = self.start("manage.py", *words)
        said, _ = program.communicate(timeout=100)
        assert program.returncode == code, said
        return said


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The project beside its worker."""
    folder = tmp_path_factory.mktemp("project")
    found = Project(folder, postgres.server().url("django"))
    postgres.server().make("django")
    found.manage("migrate", "--verbosity", "0")
    worker = found.start("manage.py", "tokimori", "worker")
    assert worker.stdout is not None
    try:
        assert "runs jobs" in worker.stdout.readline()
        yield found
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
        assert worker.returncode == 0


@pytest.mark.prove
def test_it_does_what_a_backend_of_tasks_does(project: Project) -> None:
    """The expectations of Django's own backends hold, for sync and async tasks, in and beside transactions."""
    begin = "import django, unittest; django.setup(); unittest.main('tests.programs.django_backend', argv=['tests'])"
    known = project.environment | {"PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "project.settings"}
    command = [PYTHON, "-c", begin]
    ended = subprocess.run(
        command, cwd=project.folder, env=known, capture_output=True, check=False, text=True, timeout=110
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.prove
@pytest.mark.skipif(not TESTS, reason="DJANGO_PYTHON has Django 6, and DJANGO_TESTS its tests: Python 3.12 or newer")
@pytest.mark.parametrize("kind", ["dummy", "immediate"])
def test_djangos_own_tests_of_its_backends_hold_of_ours(kind: str, tmp_path: Path) -> None:
    """Unchanged, but for those of what only theirs does, which `django_upstream` names."""
    found = Project(tmp_path, postgres.server().url(f"upstream_{kind}"))
    postgres.server().make(f"upstream_{kind}")
    shutil.copytree(TESTS, found.folder / "tasks")
    found.manage("migrate", "--verbosity", "0")
    worker = found.start("manage.py", "tokimori", "worker") if kind == "immediate" else None
    try:
        known = found.environment | {"PYTHONPATH": f"{ROOT}:.", "DJANGO_SETTINGS_MODULE": "project.settings"}
        command = [PYTHON, "-m", "tests.programs.django_upstream", kind]
        ended = subprocess.run(
            command, cwd=found.folder, env=known, capture_output=True, check=False, text=True, timeout=200
        )
        assert ended.returncode == 0, ended.stderr
    finally:
        if worker is not None:
            worker.terminate()
            worker.communicate(timeout=60)


@pytest.mark.prove
def test_the_command_line_is_that_of_the_project(project: Project) -> None:
    """`manage.py tokimori` knows the store, the jobs of all `tasks.py`, the settings; a wrong setting is named."""
    jobs = {job["id"]: job for job in json.loads(project.manage("tokimori", "--json", "job", "list"))}
    assert {"clean_up", "deliver", "shop.tasks.add", "shop.tasks.write@mail"} <= jobs.keys()
    assert (jobs["shop.tasks.write@mail"]["queue"], jobs["clean_up"]["owner"]) == ("mail", "project")
    shown = project.manage("tokimori", "config", "show")
    assert "node.stop_grace" in shown
    assert "postgresql://" in shown
    assert "nothing changes" in project.manage("tokimori", "app", "check", "--settings=project.settings")
    settings = project.folder / "project/wrong.py"
    settings.write_text("from project.settings import *\nTOKIMORI = {'app': {'proceses': 2}}\n")
    wrong = project.environment | {"DJANGO_SETTINGS_MODULE": "project.wrong"}
    command = [PYTHON, "manage.py", "tokimori", "job", "list"]
    ended = subprocess.run(command, cwd=project.folder, env=wrong, capture_output=True, check=False, text=True)
    assert "TOKIMORI: 'app.proceses' is no setting" in ended.stderr


def test_a_view_asks_in_its_transaction(project: Project) -> None:
    """What a request asked for exists exactly if what it wrote does, and the run finds the row."""
    assert project.manage("shell", "--no-imports", "-c", REQUESTS).splitlines()[-1] == "1 delivered once"


REQUESTS = """
import json
from django.test import Client
from shop.models import Order
from tokimori.django import app
client = Client()
assert client.post("/orders/6?unpaid").status_code == 400
assert client.get("/orders/6").status_code == 404
runs = {client.post("/orders/7").json()["run"] for _ in range(3)}
(run,) = runs
assert client.get(f"/runs/{run}").json() == {"result": "order 7 is delivered"}
assert client.get("/orders/7").json() == {"state": "delivered", "deliveries": 1}
print(len(app.client.runs.list(job_id="deliver", state="succeeded")), "delivered once")
"""


LITE = """
from project.settings import *
OPTIONS = {"timeout": 30, "transaction_mode": "IMMEDIATE"}
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3", "OPTIONS": OPTIONS}}
"""


@pytest.mark.prove
def test_a_file_of_sqlite_is_the_store_as_well(tmp_path: Path) -> None:
    """As a project has one at first: the same transactions, in the same file, of which the settings say no more."""
    found = Project(tmp_path, "postgresql:///unused?host=/nowhere")
    (found.folder / "project/lite.py").write_text(LITE)
    found.environment["DJANGO_SETTINGS_MODULE"] = "project.lite"
    found.manage("migrate", "--verbosity", "0")
    worker = found.start("manage.py", "tokimori", "worker")
    try:
        assert worker.stdout is not None
        assert "runs jobs" in worker.stdout.readline()
        until(lambda: "deliver" in found.manage("tokimori", "job", "list"))
        assert found.manage("shell", "--no-imports", "-c", REQUESTS).splitlines()[-1] == "1 delivered once"
    finally:
        worker.terminate()
        worker.communicate(timeout=60)


REHEARSED = """
import pytest

def test_jobs_and_tasks(tokimori_rehearsal):
    from shop.tasks import add, write
    results = [add.enqueue(1, b=2), write.enqueue("me")]
    tokimori_rehearsal.pass_time(hours=1)
    for result in results:
        result.refresh()
    assert [result.return_value for result in results] == [3, "written to me"]
"""


def test_a_project_is_rehearsed(project: Project) -> None:
    """The plugin of pytest loads the project; its tasks are in the rehearsal, too, whatever the store is."""
    (project.folder / "test_shop.py").write_text(REHEARSED)
    (project.folder / "pytest.ini").write_text("[pytest]\ntokimori_app = tokimori.django.worker:app\n")
    command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "test_shop.py"]
    known = project.environment | {"DJANGO_SETTINGS_MODULE": "project.settings"}
    ended = subprocess.run(command, cwd=project.folder, env=known, capture_output=True, check=False, text=True)
    assert "1 passed" in ended.stdout, ended.stdout


TESTED = """
from django.test import TestCase
from shop.tasks import deliver
from tokimori.django.worker import app
from tokimori.errors import InvalidConfig
from tokimori.testing import Rehearsal

class Deliveries(TestCase):
    def test_rehearsed(self):
        with Rehearsal(app):
            self.assertEqual(deliver.enqueue(7).result(), "order 7 is delivered")

    def test_without(self):
        with self.assertRaisesRegex(InvalidConfig, "in a test, with tokimori.testing.Rehearsal"):
            deliver.enqueue(7)
"""
IN_MEMORY = """
from project.settings import *
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}
"""


def test_djangos_own_tests_rehearse_a_project(tmp_path: Path) -> None:
    """In the transaction of a TestCase, with the database in memory that Django makes; without, the error says how."""
    found = Project(tmp_path, "postgresql:///unused?host=/nowhere")
    (found.folder / "project/in_memory.py").write_text(IN_MEMORY)
    (found.folder / "shop/tests.py").write_text(TESTED)
    command = [PYTHON, "manage.py", "test", "--settings", "project.in_memory"]
    ended = subprocess.run(
        command, cwd=found.folder, env=found.environment, capture_output=True, check=False, text=True
    )
    assert "Ran 2 tests" in ended.stderr and "OK" in ended.stderr, ended.stderr
