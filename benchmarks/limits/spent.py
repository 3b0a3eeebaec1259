"""What a store has cost so far in time of processors: on a busy machine that is what can be compared."""

import os
import time
from pathlib import Path


def processor_seconds(server: int) -> float:
    """Of this process and of the server with all its children; where the store has no server, that is this process."""
    if server == os.getpid():
        return time.process_time()
    try:
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    except OSError:
        children = []
    return time.process_time() + _spent(server, ended=True) + sum(_spent(int(child)) for child in children)


def _spent(process: int, *, ended: bool = False) -> float:
    """`ended`: with those of its children that have ended. 0 when it is gone itself."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15] if ended else fields[11:13])) / os.sysconf("SC_CLK_TCK")
