"""Functions of a Django program: connections of its ORM are closed between two functions, as between two requests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import stop
from tests.servers.postgres import ACCOUNT, Server

APP = """
import os, time
import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": "shop", "USER": "{account}",
        "HOST": "{host}", "PORT": "{port}", "CONN_MAX_AGE": {max_age},
    }},
)
django.setup()
from django.contrib.contenttypes.models import ContentType
import tokimori

app = tokimori.App("jobs")

@app.job
def count(seconds: float = 0) -> int:
    found = ContentType.objects.count()
    time.sleep(seconds)
    return found

@app.job
async def count_async(seconds: float = 0) -> int:
    return await ContentType.objects.acount()
"""
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'shop'"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of its own, which is restarted."""
    found = Server()
    found.make("shop")
    found.sql("CREATE TABLE django_content_type (id int, app_label text, model text)", "shop")
    yield found
    found.remove()


@pytest.mark.prove
@pytest.mark.parametrize("max_age", ["0", "None"])
def test_a_restarted_server_is_connected_to_again(server: Server, tmp_path: Path, max_age: str) -> None:
    """By functions that wait and by others; and no connection is left open that Django would not keep."""
    program = AppProgram(tmp_path)
    app = APP
    for name, text in {"account": ACCOUNT, "host": str(server.folder), "port": server.port, "max_age": max_age}.items():
        app = app.replace(f"{{{name}}}", text)
    program.app.write_text(app)
    node = program.work("--processes", "1")
    try:
        many = [program.json("job", "trigger", "count", "--payload", '{"seconds": 0.5}')["id"] for _ in range(6)]
        for run in many:
            until(lambda run=run: program.json("run", "show", run)["ended"])  # type: ignore[misc]
            assert program.json("run", "show", run)["state"] == "succeeded", program("run", "logs", run)
        assert program.outcome("count_async")["result"] == "0"
        if max_age == "0":
            until(lambda: server.sql(SESSIONS).strip() == "0")
        server.stop()
        server.start()
        for job in ("count", "count_async"):
            if max_age == "None":  # a broken connection is known by the first error on it
                for _ in range(8):
                    program.run("job", "trigger", job, "--wait")
            assert program.outcome(job)["result"] == "0"
    finally:
        assert stop(node) == 0
