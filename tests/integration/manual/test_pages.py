"""Pages of the manual, each typed as it stands there: in a fresh folder, with Tokimori installed in a fresh venv."""

import asyncio
import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.manual.reading import MANUAL, Reader, blocks, free_port
from tests.programs.forked import ROOT
from tests.servers import mariadb, postgres, redis
from tests.servers.post_office import PostOffice

READ_ONLY = {
    *(f"reference/{name}.md" for name in ("alarms", "channels", "notifications", "operations", "orders", "secrets")),
    "reference/tasks.md",
    "how-to/why.md",
    *(f"coming-from/{name}.md" for name in ("moving", "settings-of-others")),
    "reference/events.md",
    "reference/limits.md",
    "explanation/threats.md",
    "explanation/benchmarks.md",
    "explanation/ledger.md",
}
"""Pages whose commands other tests try, or that stand for many."""
ASSUMED = "how-to/index.md"
"""The page with what all pages beside it assume."""
PAGES = sorted(
    name
    for page in MANUAL.rglob("*.md")
    if (name := str(page.relative_to(MANUAL))) not in {*READ_ONLY, ASSUMED}
    and any(each.language in ("console", "python") for each in blocks(page))
)
DATABASE = "postgresql://tokimori:secret@db:5432/tokimori"


def typeable(url: str) -> str:
    """Return an address that a shell takes as one word, without the port that is the default."""
    return url.removesuffix("&port=5432")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """The address of a database of PostgreSQL, empty."""
    yield typeable(postgres.loans.url_of(tmp_path))
    postgres.loans.give_back(tmp_path)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokimori in a venv that has nothing else but what the pages install; the first process makes it."""
    place = tmp_path_factory.getbasetemp()
    venv = (place.parent if place.name.startswith("popen-") else place) / "venv"
    with venv.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (venv / "whole").exists():
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            what = [f"{ROOT}[mysql,postgres,redis]", "celery", "fastapi", "uvicorn", "pytest"]
            constraint = ["--constraint", str(ROOT / "requirements-dev.lock")]
            pip = [str(venv / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
            subprocess.run([*pip, *constraint, *what], check=True)
            (venv / "whole").touch()
    return venv / "bin/tokimori"


@pytest.fixture
def servers(name: str, database: str, program: Path) -> Iterator[dict[str, str]]:
    """What the page of backups calls servers of each kind, each of which has a store with a job."""
    with ExitStack() as stack:
        if name != "how-to/backup.md":
            yield {}
            return
        others, keys, restored = mariadb.Server(), redis.Server(), postgres.Server()
        for each in (others, keys, restored):
            stack.callback(each.remove)
        copy = str(free_port())
        stack.callback(subprocess.run, ["redis-cli", "-p", copy, "shutdown", "nosave"], capture_output=True)
        for store in (database, others.make("tokimori"), keys.url()):
            command = [str(program), "--store", store, "job", "add", "nightly-report", "--noop"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        others.make("restored")
        yield {
            DATABASE.removesuffix("tokimori") + "restored": typeable(restored.make("restored")),
            "--host=db --user=tokimori --password=secret": f"--socket={others.socket} --user=root",
            "redis-cli -u redis://db:6379": f"redis-cli -s {keys.socket}",
            "redis://db:6379": keys.url(),
            "6390": copy,
        }


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PAGES)
async def test_a_page_does_what_it_says(
    name: str, tmp_path: Path, database: str, servers: dict[str, str], program: Path
) -> None:
    """Every command on the page ends and prints as it says there; its mails are sent."""
    async with PostOffice() as office:
        here = {**servers, DATABASE: database, "mail.example.org": office.address, "10.0.0.0/8": "127.0.0.0/8"}
        with Reader(tmp_path / "machines", here, program) as reader:
            if name.startswith("how-to/"):
                await asyncio.to_thread(reader.read, MANUAL / ASSUMED)
            assert await asyncio.to_thread(reader.read, MANUAL / name) > 0
    assert (len(office.letters) > 1) == (name == "tutorials/operator.md")
