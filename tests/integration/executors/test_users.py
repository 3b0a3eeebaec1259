"""A node that is not root."""

import os
import pwd
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
        "Failed(error=\"user 'root': only a node that runs as root can change users\", exit_code=None, signal=None, "
        "final=False, wait=None)",
        "Succeeded(exit_code=0, result=None)",
    ], done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="changing users needs root")
def test_a_command_has_no_groups_of_its_node(tmp_path: Path) -> None:
    """Where root's node has groups besides its own, another user's command has that user's alone, root's keeps them."""
    script = """
import asyncio, sys
from pathlib import Path
from tests.integration.executors.workshop import Workshop, shell, written
async def main():
    workshop = Workshop(Path(sys.argv[1]))
    await workshop.open()
    for user in ("nobody", "root"):
        print(written(await workshop.run(shell("id -G", user=user))).decode().strip())
    await workshop.executor.close()
asyncio.run(main())
"""
    done = subprocess.run(
        ["setpriv", "--groups=4,24", sys.executable, "-B", "-c", script, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    nobody = pwd.getpwnam("nobody")
    theirs = " ".join(map(str, os.getgrouplist("nobody", nobody.pw_gid)))
    assert done.stdout.splitlines() == [theirs, "0 4 24"], done.stderr
