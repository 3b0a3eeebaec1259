"""A client in a process that forks, as servers with worker processes do."""

import os
import subprocess
import sys
from pathlib import Path

FORKING = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # that forking with threads is dangerous is the point
import tokimori

client = tokimori.open(sys.argv[1])
client.jobs.add("parent", noop=True)
child = os.fork()
if child == 0:
    client.jobs.add("child", noop=True)
    print([job.id for job in client.jobs.list()], flush=True)
    client.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
client.jobs.add("after", noop=True)
print([job.id for job in client.jobs.list()])
client.close()
"""


def test_a_client_survives_a_fork(tmp_path: Path) -> None:
    """The child gets a service of its own on the same store, and the parent's goes on."""
    ended = subprocess.run(
        [sys.executable, "-c", FORKING, f"sqlite://{tmp_path}/t.db"],
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )
    assert [line.partition(" ")[0] for line in ended.stderr.splitlines()] == ["the"]  # store is made: said once
    assert ended.stdout.splitlines() == ["['child', 'parent']", "['after', 'child', 'parent']"]


ENDING = """
import asyncio, sys, tokimori

async def never(_):
    await asyncio.Event().wait()

client = tokimori.open(sys.argv[1])
left = client._begin(never)
client.jobs.add("one", noop=True)
"""


def test_a_program_that_closes_nothing_ends_without_a_word(tmp_path: Path) -> None:
    """What its client still waited for is given up: nobody has to close the client of an app."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, f"sqlite://{tmp_path}/t.db"],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )
    assert "Task was destroyed" not in ended.stderr
