"""What a command finds, and what becomes of its end. Everything here holds by whichever way exits are noticed."""

import os
import pwd
import resource
import signal
from pathlib import Path

import pytest

from tests.integration.executors.workshop import BOTH_WAYS, Workshop, alive, keeper_of, shell, told, until, written
from tokimori.clock import MILLISECOND, SystemClock
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Cancelled, Failed, Outcome, Released, Succeeded
from tokimori.model.target import Command
from tokimori.ports.executor import Ended, Started, StopReason

pytestmark = pytest.mark.parametrize("workshop", BOTH_WAYS, indirect=True)
ROOT = Path(__file__).parents[3]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="changing users needs root")


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("exit 0", Succeeded(0)),
        ("exit 3", Failed("exit code 3", exit_code=3)),
        ("kill -9 $$", Failed("signal 9 (SIGKILL)", signal=9)),
        ("kill -40 $$", Failed("signal 40 (SIGRTMIN+6)", signal=40)),
    ],
)
async def test_the_end_of_a_process_is_the_outcome(workshop: Workshop, text: str, outcome: Outcome) -> None:
    """Exit code 0 is a success, any other or a signal a failure that says which."""
    assert (await workshop.run(shell(text))).outcome == outcome


@pytest.mark.parametrize(
    ("command", "exit_code", "words"),
    [
        (Command(argv=("no-such-program",)), 127, "'no-such-program': program not found"),
        (Command(argv=("/etc/passwd",)), 126, "'/etc/passwd' can't be executed: Permission denied"),
        (Command(argv=("true",), cwd="/no/such/folder"), None, "cwd '/no/such/folder': No such file or directory"),
        (Command(argv=("true",), cwd="/etc/passwd"), None, "cwd '/etc/passwd': Not a directory"),
        (Command(argv=("true",), user="nobody-at-all"), None, "user 'nobody-at-all': this machine has no such user"),
        (Command(argv=("true", "x" * 200_000)), None, "'true' could not be started: Argument list too long"),
    ],
)
async def test_what_can_not_be_started_says_why(
    workshop: Workshop, command: Command, exit_code: int | None, words: str
) -> None:
    """A command that can't be started fails with a clear sentence, and with the exit code that a shell would give."""
    ended = await workshop.run(command)
    assert isinstance(ended.outcome, Failed)
    assert ended.outcome.error.startswith(words)
    assert ended.outcome.exit_code == exit_code
    assert ended.started is None
    assert ended.pid is None


async def test_the_environment_is_exact(workshop: Workshop) -> None:
    """A command finds the promised variables and its own, and nothing else that the node knows."""
    own = pwd.getpwuid(os.geteuid())
    ended = await workshop.run(Command(argv=("env", "-0"), env={"OWN": "a\nb", "LANG": "C"}), time_zone="Asia/Tokyo")
    found = dict(entry.split("=", 1) for entry in written(ended).decode().split("\0") if entry)
    (exchange,) = (workshop.state / "exchange").iterdir()
    assert found == {
        "PATH": "/usr/bin:/bin",
        "HOME": own.pw_dir,
        "USER": own.pw_name,
        "SHELL": "/bin/sh",
        "LANG": "C",
        "TZ": "Asia/Tokyo",
        "OWN": "a\nb",
        "TOKIMORI_JOB_ID": "job",
        "TOKIMORI_RUN_ID": ended.run_id,
        "TOKIMORI_ATTEMPT": "1",
        "TOKIMORI_TOKEN": "7",
        "TOKIMORI_NOMINAL_TIME": "2030-01-01T00:00:00Z",
        "TOKIMORI_DUE_TIME": "2030-01-01T00:00:01.500000Z",
        "TOKIMORI_OUTCOME_FILE": str(exchange / f"{ended.run_id}.1.outcome"),
    }


async def test_a_shell_text_is_run_by_its_shell(workshop: Workshop) -> None:
    """A shell text is run by `shell_path -c`, which is the command's SHELL too."""
    ended = await workshop.run(shell("[[ a == a* ]] && echo $0 $SHELL", shell_path="/bin/bash"))
    assert written(ended) == b"/bin/bash /bin/bash\n"


async def test_where_a_command_starts(workshop: Workshop, tmp_path: Path) -> None:
    """A command starts in its `cwd`, else in its HOME, else in the root."""
    assert written(await workshop.run(Command(argv=("pwd",), cwd=str(tmp_path)))).decode() == f"{tmp_path}\n"
    assert written(await workshop.run(Command(argv=("pwd",), env={"HOME": "/usr"}))) == b"/usr\n"
    assert written(await workshop.run(Command(argv=("pwd",), env={"HOME": "/no/such"}))) == b"/\n"


async def test_standard_input(workshop: Workshop) -> None:
    """A command reads the text that it was given, or nothing."""
    text = "zeile\n" * 100_000
    assert written(await workshop.run(shell("cksum"), payload=None)) == b"4294967295 0\n"
    assert written(await workshop.run(shell("wc -c; exec cat >/dev/null", stdin=text))) == b"600000\n"
    assert written(await workshop.run(Command(argv=("cat",), stdin="é\udcff"))) == b"\xc3\xa9\xff"


async def test_a_child_inherits_nothing_of_the_keeper(workshop: Workshop) -> None:
    """A command has three open files, no blocked or ignored signal, and the node's limits and file creation mask."""
    # Signals 32 and 33 are glibc's own: its posix_spawn, with which make starts us, leaves them ignored for good.
    signals = "sed -nE 's/^(Sig(Blk|Ign)):.0000000[01][08]0000000$/\\1 none/p' /proc/self/status"
    text = f"umask; ulimit -n; {signals}; ls /proc/self/fd | wc -l"
    mask = os.umask(0o022)
    os.umask(mask)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = f"{mask:04o}\n{limit}\nSigBlk none\nSigIgn none\n4\n"
    assert written(await workshop.run(shell(text))).decode() == expected


async def test_standard_error_comes_with_standard_output(workshop: Workshop) -> None:
    """Both streams arrive as one, in the order in which they were written."""
    assert written(await workshop.run(shell("echo 1; echo 2 >&2; echo 3"))) == b"1\n2\n3\n"


async def test_reports_come_in_order_with_times(workshop: Workshop) -> None:
    """An attempt is reported started with its pid, then ended once, at moments of the wall clock in that order."""
    before = SystemClock().now()
    ended = await workshop.run(shell("echo $$; sleep 0.1"))
    started, *others = workshop.reports
    assert isinstance(started, Started)
    assert others == [ended]
    assert written(ended).decode() == f"{started.pid}\n"
    assert (ended.pid, ended.token) == (started.pid, 7)
    assert ended.started is not None
    assert abs(ended.started - started.at) < MILLISECOND  # each is reckoned from seconds since boot by itself
    assert before - 1000 <= started.at <= ended.at - 100_000 <= SystemClock().now()


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (StopReason.CANCEL, Cancelled("cancelled", signal=15)),
        (StopReason.RELEASE, Released("its node stopped it", signal=15)),
        (StopReason.DISOWN, Released("it is no longer its node's", signal=15)),
    ],
)
async def test_a_stop_decides_the_outcome(workshop: Workshop, reason: StopReason, outcome: Outcome) -> None:
    """A process that is stopped ends by TERM, with the outcome of the first reason; stopping is idempotent."""
    workshop.start("run", shell("exec sleep 1000"))
    started = await workshop.next(Started, "run")
    workshop.executor.stop(started.run_id, started.token, reason)
    workshop.executor.stop(started.run_id, started.token, StopReason.CANCEL)
    assert (await workshop.next(Ended, "run")).outcome == outcome
    workshop.executor.stop(started.run_id, started.token, reason)
    assert (await workshop.run(shell("exit 0"))).outcome == Succeeded(0)


async def test_a_stop_that_comes_too_late_changes_nothing(workshop: Workshop, tmp_path: Path) -> None:
    """A process that had ended by itself when the order to stop was carried out keeps its own outcome."""
    gate = tmp_path / "gate"
    workshop.start("run", shell(f"until [ -e {gate} ]; do sleep 0.01; done"))
    started = await workshop.next(Started, "run")
    keeper = keeper_of(started.pid)
    os.kill(keeper, signal.SIGSTOP)
    workshop.executor.stop(started.run_id, started.token, StopReason.CANCEL)
    gate.touch()
    await until(lambda: not alive(started.pid))
    os.kill(keeper, signal.SIGCONT)
    assert (await workshop.next(Ended, "run")).outcome == Succeeded(0)


async def test_a_stop_before_the_start(workshop: Workshop) -> None:
    """An attempt that is stopped in the same breath never begins, or ends by TERM; it is reported ended once."""
    runs = [RunId(f"run-{number}") for number in range(20)]
    for run in runs:
        workshop.start(run, shell("exec sleep 1000"))
    for run in runs:
        workshop.executor.stop(run, Token(7), StopReason.CANCEL)
    for run in runs:
        outcome = (await workshop.next(Ended, run)).outcome
        began = bool(workshop.all(Started, run))
        assert outcome == Cancelled("cancelled", signal=15 if began else None)
        assert len(workshop.all(Ended, run)) == 1


@as_root
async def test_a_command_of_another_user(workshop: Workshop) -> None:
    """A node that is root runs a command as the user that it names, with all of that user's groups and HOME."""
    entry = pwd.getpwnam("nobody")
    groups = " ".join(map(str, os.getgrouplist("nobody", entry.pw_gid)))
    ended = await workshop.run(shell("id -u; id -g; id -G; echo $USER $HOME", user="nobody"))
    assert written(ended).decode() == f"{entry.pw_uid}\n{entry.pw_gid}\n{groups}\nnobody {entry.pw_dir}\n"


@as_root
async def test_a_command_of_the_node_s_own_user(workshop: Workshop) -> None:
    """Naming the node's own user changes nothing."""
    assert written(await workshop.run(shell("id -u", user="root"))) == b"0\n"


async def test_the_keeper_is_standard_library_only(workshop: Workshop) -> None:
    """The keeper has nothing loaded that is installed."""
    workshop.start("run", shell("exec sleep 1000"))
    keeper = keeper_of((await workshop.next(Started, "run")).pid)
    assert "site-packages" not in told(keeper, "maps")
    assert told(keeper, "status").count("Threads:\t1\n") == (1 if workshop.pidfd else 0)
