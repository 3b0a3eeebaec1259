"""The plugin of pytest, in a user's own project: a fixture without an import, for tests of all kinds."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.laws import one_in

SHOP = """
import anyio, asyncio, tokimori
app = tokimori.App("shop")

@app.job("@daily")
def nightly() -> str:
    return tokimori.current_task().scheduled_at.isoformat()

@app.job(attempts=3, retry_delay="10m")
def flaky(name: str) -> str:
    if tokimori.current_task().attempt < 3:
        raise ValueError("not yet")
    return name

@app.job
async def slow(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return (await flaky.aenqueue("inner")).attempt

begun = []

@app.job
def nosy() -> None:
    begun[0].pass_time(hours=1)

@app.job
async def any_way() -> int:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 0)
    return await anyio.to_thread.run_sync(lambda: 7)
"""
TESTS = """
import asyncio, threading
import pytest, tokimori
from shop import any_way, begun, flaky, nightly, nosy, slow

def test_days_pass(tokimori_rehearsal):
    tokimori_rehearsal.pass_time(days=30)
    assert len(tokimori_rehearsal.runs("nightly")) == 30

@pytest.mark.tokimori(at="2026-07-01T12:00:00Z", time_zone="Asia/Tokyo")
def test_from_a_moment_on(tokimori_rehearsal):
    tokimori_rehearsal.pass_time(hours=4)
    assert [run.result for run in tokimori_rehearsal.runs("nightly")] == ['"2026-07-01T15:00:00+00:00"']

def test_retries(tokimori_rehearsal):
    handle = flaky.enqueue("a")
    tokimori_rehearsal.drain()
    assert (handle.result(), handle.refresh().attempt) == ("a", 3)

@pytest.mark.asyncio
async def test_asyncio(tokimori_rehearsal):
    handle = await slow.aenqueue(0)
    tokimori_rehearsal.drain()
    assert await handle.aresult() == 0
    assert await (await flaky.aenqueue("b")) == "b"
    assert len(tokimori_rehearsal.runs("flaky")) == 2

@pytest.mark.asyncio
async def test_asyncio_waits_for_many(tokimori_rehearsal):
    handles = [await flaky.aenqueue(str(number)) for number in range(4)]
    assert await asyncio.gather(*(each.aresult() for each in handles)) == list("0123")
    await asyncio.to_thread(tokimori_rehearsal.pass_time, hours=1)
    assert await tokimori.agather(handles) == list("0123")

def test_a_function_moves_no_clock(tokimori_rehearsal):
    begun.append(tokimori_rehearsal)
    with pytest.raises(tokimori.RunFailed, match="can't let time pass"):
        nosy.enqueue().result()

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_anyio(tokimori_rehearsal, anyio_backend):
    handle = await any_way.aenqueue()
    tokimori_rehearsal.run_due()
    assert await handle == 7

def test_threads(tokimori_rehearsal):
    found = []
    threads = [threading.Thread(target=lambda n=n: found.append(flaky.enqueue(str(n)).result())) for n in range(4)]
    for each in threads:
        each.start()
    tokimori_rehearsal.drain()
    for each in threads:
        each.join()
    assert sorted(found) == list("0123")
"""
SETTINGS = """
[pytest]
tokimori_app = shop:app
filterwarnings = error
asyncio_default_fixture_loop_scope = function
"""
UNUSED = """
import sys

def test_nothing_is_imported():
    assert [name for name in sys.modules if name.startswith("tokimori")] == ["tokimori", "tokimori.pytest_plugin"]
"""


def said_by_pytest(folder: Path, *options: str) -> str:
    """What pytest says in this folder, in which the plugins of the environment are found as ever."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", *options]
    return subprocess.run(command, capture_output=True, check=False, cwd=folder, text=True, timeout=100).stdout


def test_tests_of_all_kinds_rehearse_the_app(tmp_path: Path) -> None:
    """Of a setting, without an import or a conftest: functions, coroutines of two libraries, threads."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "test_shop.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    said = said_by_pytest(tmp_path, "--strict-markers")
    assert "8 passed" in said, said


@pytest.mark.prove
def test_who_has_no_jobs_pays_nothing(tmp_path: Path) -> None:
    """When pytest starts nothing of Tokimori is imported but the plugin; without an app the fixture says what to do."""
    (tmp_path / "test_unused.py").write_text(UNUSED)
    assert "1 passed" in (said := said_by_pytest(tmp_path)), said
    (tmp_path / "test_lost.py").write_text("def test_lost(tokimori_rehearsal):\n    pass\n")
    assert 'the setting `tokimori_app = "MODULE:NAME"`' in said_by_pytest(tmp_path)


def test_pytest_reads_no_assertions_of_ours(tmp_path: Path) -> None:
    """As it would of all packages of a distribution that has a plugin: an import of ours took four times as long."""
    installed = tmp_path / "installed.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[pytest11]\ntokimori = tokimori.pytest_plugin\n")
    (installed / "RECORD").write_text("tokimori/__init__.py,,\n")
    lines = ["import tokimori.errors", "def test_it():", "    assert 'SourceFile' in repr(tokimori.errors.__loader__)"]
    (tmp_path / "test_it.py").write_text("\n".join(lines))
    assert "1 passed" in (said := said_by_pytest(tmp_path)), said


@pytest.mark.parametrize("given", one_in(3, ["module", "conftest", "mark"]))
def test_an_app_is_found(tmp_path: Path, given: str) -> None:
    """It is the one of a fixture of the user's own, of the test's module, or of a mark."""
    (tmp_path / "shop.py").write_text(SHOP)
    rest = "def test_it(tokimori_rehearsal):\n    assert tokimori_rehearsal.app.name == 'shop'\n"
    conftest = "import pytest, shop\n@pytest.fixture\ndef tokimori_app():\n    return shop.app\n"
    (tmp_path / "conftest.py").write_text(conftest if given == "conftest" else "")
    mark = "import pytest\npytestmark = pytest.mark.tokimori(app='shop:app')\n"
    (tmp_path / "test_it.py").write_text({"module": "from shop import app\n", "mark": mark}.get(given, "") + rest)
    assert "1 passed" in (said := said_by_pytest(tmp_path)), said
