"""A node that is not root."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(os.geteuid() != 0, reason="giving up root needs root")
def test_only_root_changes_users(tmp_path: Path) -> None:
    """A node that is not root refuses to run a command as somebody else, and says so; as itself it runs it."""
    script = """
import asyncio, sys
from pathlib import Path
from tests.integration.executors.workshop import BOTH_WAYS, Workshop, shell
async def main():
    workshop = Workshop(Path(sys.argv[1]))
    await workshop.open()
    for user in ("root", "nobody"):
        print((await workshop.run(shell("id -un", user=user))).outcome)
    await workshop.executor.close()
asyncio.run(main())
"""
    tmp_path.chmod(0o777)
    capabilities = "+dac_override,+dac_read_search"  # the interpreter may lie in a folder that only root may enter
    ids = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    bare = ["setpriv", *ids, f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}"]
    done = subprocess.run(
        [*bare, sys.executable, "-B", "-c", script, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "Failed(error=\"user 'root': only a node that runs as root can change users\", exit_code=None, signal=None)",
        "Succeeded(exit_code=0, result=None)",
    ], done.stderr
