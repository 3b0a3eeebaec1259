"""The program from before the newest schema, as it was.

`previous.tar.xz` is the last program that did not know the newest migrations; whoever adds one packs the program
before it: `git archive --format=tar <commit>:src tokimori | xz -9e > tests/cluster/previous.tar.xz`. Where a migration
shuts out those before it, as the one of dependents does, it is the first program that knows it, until the next one.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

PACKED = Path(__file__).with_name("previous.tar.xz")


def unpack(folder: Path) -> Path:
    """Put the program into the folder; what Python's path is to begin with."""
    with tarfile.open(PACKED) as packed:
        packed.extractall(folder, filter="data")
    return folder


def environment(program: Path | None) -> dict[str, str]:
    """The environment of that program, or of the one of today."""
    return dict(os.environ) if program is None else os.environ | {"PYTHONPATH": str(program)}


def say(program: Path | None, url: str, *words: str) -> str:
    """What the program's command line answers."""
    command = [sys.executable, "-m", "tokimori", "--store", url, *words]
    done = subprocess.run(command, env=environment(program), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
