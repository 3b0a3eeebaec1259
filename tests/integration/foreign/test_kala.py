"""Kala's API at real nodes: who gets in, and what its programs do there."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program, stop
from tests.integration.http.site import site_of
from tests.programs.forked import PROGRAM
from tokimori.kala import KalaClient

EXAMPLE = Path(__file__).parents[3] / "examples/kala_dependent_jobs.py"
NOBODY = 65534
READS_ALL = ("--ambient-caps", "+dac_read_search", "--inh-caps", "+dac_read_search")
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *READS_ALL)
"""Nobody, who may read all the same: Python itself may be in a folder of root's."""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One at home in a folder."""
    return Program(tmp_path)


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of a user who is not root."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
        yield home


def test_a_node_and_kalas_own_example(program: Program) -> None:
    """The example of dependent jobs runs at a real node; commands get no shell, and variables all the same."""
    with site_of(program) as site:
        ran = subprocess.run(
            [sys.executable, str(EXAMPLE)],
            env={**os.environ, "TOKIMORI_ADDRESS": f"{site.url}?secret={site.secret or _secret(program)}"},
            capture_output=True,
            text=True,
            check=True,
        )
        kala = KalaClient(site.url, secret=_secret(program))
        job_id = kala.create_job({"name": "words", "command": "echo one; two > 'it is $TOKIMORI_JOB_ID'"})
        kala.start_job(job_id)
        assert kala.get_job(job_id).success_count >= 1
        newest = program.json("run", "list", "--job", job_id)[0]["id"]
        assert program("run", "logs", newest) == f"one; two > it is {job_id}\n"
    assert ran.stdout.endswith("parent: 1 succeeded, 0 failed\nchild: 1 succeeded, 0 failed\n")


def _secret(program: Program) -> str:
    return (program.home / "state/secret").read_text().strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_a_node_of_root_is_never_open(program: Program) -> None:
    """A node of root does not start with an open API, and says what to do."""
    program.environment["TOKIMORI_HTTP_V1_OPEN"] = "true"
    ended = program.run("serve", "-p", "0")
    assert ended.returncode == 2
    assert "http.v1_open: this node runs as root" in ended.stderr


def test_an_open_api(home: Path) -> None:
    """Where the settings say so the API, and nothing else, needs no secret; pages of others stay out, as ever."""
    program = Program(home)
    environment = {**program.environment, "TOKIMORI_HTTP_V1_OPEN": "true"}
    start = [*(AS_NOBODY if os.geteuid() == 0 else ()), str(PROGRAM), "serve", "-p", "0"]
    with subprocess.Popen(start, cwd=home, env=environment, text=True, stdout=subprocess.PIPE) as node:
        try:
            assert node.stdout is not None
            url = next(line for line in node.stdout if "http://" in line).split()[-1].partition("?")[0]
            kala = KalaClient(url)
            job_id = kala.create_job({"name": "open", "command": "true"})
            kala.start_job(job_id)
            assert kala.get_all_jobs()[job_id].is_done
            paths = ("api/v1/stats/", "api/v2/jobs", "webui/", "")
            assert [_status(url + path) for path in paths] == [200, 401, 401, 401]
            assert _status(url + "api/v1/job/", "-d", "{}", "-H", "Origin: http://evil.example") == 403
            assert _status(url + "api/v1/job/", "-H", "Host: evil.example") == 403
            assert _status(url + "api/v1/../v2/jobs", "--path-as-is") == 404
        finally:
            code = stop(node)
    assert code == 0


def _status(url: str, *options: str) -> int:
    asked = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *options, url]
    return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
