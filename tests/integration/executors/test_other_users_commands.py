"""What the owner of a job can do to its node by what is his: his folders, his programs, his files."""

import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.executors.workshop import Workshop, pids_in, shell, written
from tokimori.model.outcome import Failed, Succeeded, TimedOut
from tokimori.model.target import Command
from tokimori.ports.executor import Ended, Report, Started

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as somebody else")

HOLD = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print(os.getpid(), flush=True)
signal.pause()
"""
"""Keeps a lease on a file: who opens it waits until the kernel takes the lease away, after 45 s."""


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder of nobody's, to which all get."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        os.chown(path, *pwd.getpwnam("nobody")[2:4])
        yield path


def python_of_all() -> str:
    """A Python that every user may start."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if found is None:
        pytest.skip("no Python outside this user's folders, with which another user could attack")
    return found


async def test_a_link_leads_nowhere_that_its_owner_does_not_get_himself(workshop: Workshop, theirs: Path) -> None:
    """A folder that only root gets to is not entered for somebody else; as his HOME it is replaced by the root."""
    inner = theirs / "private" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("a secret")
    inner.parent.chmod(0o700)
    (theirs / "link").symlink_to(inner)
    link = str(theirs / "link")
    ended = await workshop.run(shell("cat file", user="nobody", cwd=link))
    assert (ended.outcome, written(ended)) == (Failed(f"cwd '{link}': Permission denied"), b"")
    ended = await workshop.run(shell("pwd; cat file", user="nobody", env={"HOME": link}))
    assert written(ended).startswith(b"/\n")
    assert b"secret" not in written(ended)


@pytest.mark.parametrize(
    ("command", "exit_code", "error"),
    [
        (Command(argv=("no-such-program",), user="nobody"), 127, "'no-such-program': program not found"),
        (Command(argv=("/etc/passwd",), user="nobody"), 126, "'/etc/passwd' can't be executed: Permission denied"),
        (Command(argv=("true",), user="nobody", cwd="/no/such"), None, "cwd '/no/such': No such file or directory"),
        (Command(argv=("true", "x" * 200_000), user="nobody"), None, "'true' could not be started: Argument list"),
    ],
)
async def test_what_can_not_begin_says_why(
    workshop: Workshop, command: Command, exit_code: int | None, error: str
) -> None:
    """A command of another user that can't begin fails in the words in which one of the node's user does."""
    outcome = (await workshop.run(command)).outcome
    assert isinstance(outcome, Failed)
    assert outcome.exit_code == exit_code
    assert outcome.error.startswith(error)


async def test_a_program_that_does_not_begin_holds_up_only_its_own_run(workshop: Workshop, theirs: Path) -> None:
    """While the kernel waits for the owner of a program, other runs begin and end; its own one ends in its time."""
    program = theirs / "sh"
    shutil.copy("/bin/sh", program)
    os.chown(program, *pwd.getpwnam("nobody")[2:4])
    (theirs / "hold.py").write_text(HOLD)
    workshop.start("holder", shell(f"exec {python_of_all()} {theirs}/hold.py {program} >{theirs}/pid", user="nobody"))
    await pids_in(theirs / "pid")
    workshop.start("held", shell("true", shell_path=str(program), user="nobody"), timeout=1.0, timeout_grace=0.5)
    assert (await workshop.run(shell("exit 0"))).outcome == Succeeded(0)
    assert workshop.all(Ended, "held") == []
    assert isinstance((await workshop.next(Ended, "held")).outcome, TimedOut)


async def test_a_report_that_its_owner_keeps_closed_is_none(workshop: Workshop, theirs: Path) -> None:
    """A run ends though a process of its owner keeps everybody from opening its report."""
    (theirs / "hold.py").write_text(HOLD)
    hold = f'setsid {python_of_all()} {theirs}/hold.py "$TOKIMORI_OUTCOME_FILE" >{theirs}/pid'
    text = f"{hold} & until [ -s {theirs}/pid ]; do sleep 0.01; done"
    outcome = (await workshop.run(shell(text, user="nobody", cwd="/"))).outcome
    (holder,) = await pids_in(theirs / "pid")
    os.kill(holder, signal.SIGKILL)
    assert isinstance(outcome, Failed)
    assert "can't be understood" in outcome.error


async def test_a_report_that_is_nested_too_deeply_costs_nobody_his_keeper(workshop: Workshop) -> None:
    """A command that reports nonsense of any shape fails, and what ran beside it goes on."""
    workshop.start("beside", shell("exec sleep 1000"))
    await workshop.next(Started, "beside")
    nested = "(printf '{\"a\":'; head -c 300000 /dev/zero | tr '\\0' '[')"
    outcome = (await workshop.run(shell(f'{nested} >"$TOKIMORI_OUTCOME_FILE"', user="nobody", cwd="/"))).outcome
    assert isinstance(outcome, Failed)
    assert "nested too deeply" in outcome.error
    assert workshop.all(Ended, "beside") == []


async def test_what_it_left_is_removed_beside_the_loop(workshop: Workshop, theirs: Path) -> None:
    """An end is told before the files of another user are removed, which may take long: he may leave gigabytes."""
    heard = workshop.executor._report
    assert heard is not None
    were_there = []

    def hear(report: Report) -> None:
        if isinstance(report, Ended):
            were_there.append(Path((theirs / "where").read_text().strip()).parent.exists())
        heard(report)

    await workshop.executor.close()
    await workshop.executor.open(hear)
    text = f'echo "$TOKIMORI_OUTCOME_FILE" >{theirs}/where'
    assert (await workshop.run(shell(text, user="nobody", cwd="/"))).outcome == Succeeded(0)
    assert were_there == [True]
