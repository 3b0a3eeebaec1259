"""How many files may be open."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.executors.workshop import Workshop, a_task, shell, written
from tokimori.ports.executor import Ended


async def test_the_limit_of_the_node_binds_commands_but_not_their_number(tmp_path: Path) -> None:
    """The keeper has room for more commands than the node may open files; a command has the node's own limit."""
    runs = [f"run-{number}" for number in range(100)]
    workshop = Workshop(tmp_path)
    with descriptors_limited_to(128):
        await workshop.open()
    workshop.executor.start([a_task(run, shell("sleep 0.5; ulimit -n")) for run in runs])
    for run in runs:
        assert written(await workshop.next(Ended, run)) == b"128\n"
    await workshop.executor.close()


@contextmanager
def descriptors_limited_to(number: int) -> Iterator[None]:
    """This process, and what it starts, may open only so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
