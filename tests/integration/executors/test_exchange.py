"""What commands and their node leave each other in files."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.executors.workshop import Workshop, exists, file_descriptors, shell, until, written
from tokimori.clock import Moment
from tokimori.executors.exchange import MOST_IN_ENVIRONMENT
from tokimori.model.outcome import Failed, Hold, Released, RetryIn, Succeeded
from tokimori.ports.executor import Ended, Started

ROOT = Path(__file__).parents[3]


def left(workshop: Workshop) -> list[str]:
    """What stands in the folders of all nodes' attempts."""
    return sorted(file.name for file in (workshop.state / "exchange").glob("*/*"))


async def test_a_report_is_read_and_taken_away(workshop: Workshop) -> None:
    """What a command wrote is its outcome, whatever its exit code, and nothing of it is left for a later attempt."""
    text = """printf '{"outcome": "succeeded", "result": "42"}' > "$TOKIMORI_OUTCOME_FILE"; exit 3"""
    assert (await workshop.run(shell(text))).outcome == Succeeded(3, "42")
    asks = """echo '{"outcome": "retry", "in": 5}' > "$TOKIMORI_OUTCOME_FILE" """
    assert (await workshop.run(shell(asks))).outcome == RetryIn(5)
    assert (await workshop.run(shell("true"))).outcome == Succeeded(0)
    assert left(workshop) == []


@pytest.mark.parametrize(
    "text",
    [
        'mkfifo "$TOKIMORI_OUTCOME_FILE"',
        'mkdir "$TOKIMORI_OUTCOME_FILE"',
        """f=$(mktemp); echo '{"outcome": "succeeded"}' > $f; ln -s $f "$TOKIMORI_OUTCOME_FILE" """,
        ': > "$TOKIMORI_OUTCOME_FILE"',
        'head -c 1000000 /dev/zero > "$TOKIMORI_OUTCOME_FILE"',
    ],
)
async def test_what_is_no_report_fails_the_attempt(workshop: Workshop, text: str) -> None:
    """A pipe keeps no node waiting, a link leads nowhere, and an empty or endless file is no success."""
    outcome = (await workshop.run(shell(text))).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("what it reported can't be understood")


async def test_a_report_nested_deeply_is_the_fault_of_its_run_alone(workshop: Workshop) -> None:
    """A secret that is a number is hidden in it as well, and no other command of the node is lost with it."""
    workshop.start("bystander", shell("sleep 1"))
    writes = f"""printf '{"[" * 900}12345678{"]" * 900}' > "$TOKIMORI_OUTCOME_FILE" """
    outcome = (await workshop.run(shell(writes), hidden=("12345678",))).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("what it reported can't be understood")
    assert "12345678" not in outcome.error
    assert (await workshop.next(Ended, "bystander")).outcome == Succeeded(0)


async def test_a_report_that_cannot_be_read_now_is_read_later(workshop: Workshop) -> None:
    """A node without a file descriptor to read it with waits for one: a success is never taken for a failure."""
    report = """echo '{"outcome": "succeeded", "result": "42"}' > "$TOKIMORI_OUTCOME_FILE" """
    text = f"until test -e go; do sleep 0.05; done; {report}"
    workshop.start("run", shell(text, cwd=str(workshop.folder)))
    pid = (await workshop.next(Started, "run")).pid
    (workshop.folder / "go").touch()
    with file_descriptors(0):
        await until(lambda: not exists(pid))
        await asyncio.sleep(1)
        assert workshop.all(Ended, "run") == []
    assert (await workshop.next(Ended, "run")).outcome == Succeeded(0, "42")
    assert left(workshop) == []


async def test_an_attempt_whose_files_cannot_be_made_now_is_handed_back(workshop: Workshop) -> None:
    """A node without a file descriptor for a payload says nothing of the job: the attempt counts for nothing."""
    with file_descriptors(0):
        ended = await workshop.run(shell("true"), payload="x" * (MOST_IN_ENVIRONMENT + 1))
    assert isinstance(ended.outcome, Released)
    assert "Too many open files" in ended.outcome.reason


@pytest.mark.parametrize("size", [0, 5, MOST_IN_ENVIRONMENT])
async def test_a_payload_is_a_variable(workshop: Workshop, size: int) -> None:
    """Up to the bound a payload stands in the environment, also an empty one."""
    ended = await workshop.run(
        shell('printf %s "$TOKIMORI_PAYLOAD" | wc -c; echo ${TOKIMORI_PAYLOAD+set} $TOKIMORI_PAYLOAD_FILE'),
        payload="x" * size,
    )
    assert written(ended).decode().split() == [str(size), "set"]


async def test_a_large_payload_is_a_file(workshop: Workshop) -> None:
    """Above the bound, counted in bytes, it stands in a file that nobody else can read and that goes with the run."""
    payload = "é" * (MOST_IN_ENVIRONMENT // 2 + 1)
    ended = await workshop.run(
        shell(
            'stat -c %a "$TOKIMORI_PAYLOAD_FILE"; cat "$TOKIMORI_PAYLOAD_FILE" | cksum; echo ${TOKIMORI_PAYLOAD-none}'
        ),
        payload=payload,
    )
    file = workshop.folder / "expected"
    file.write_text(payload)
    expected = await workshop.run(shell(f"cksum < {file}"))
    mode, *sum_and_size, none = written(ended).decode().split()
    assert (mode, none) == ("600", "none")
    assert sum_and_size == written(expected).decode().split()
    assert left(workshop) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_file_of_somebody_else_is_no_report(workshop: Workshop) -> None:
    """A file that the command's account does not own may be a hard link to what that account must not read."""
    text = """echo '{"outcome": "succeeded"}' > "$TOKIMORI_OUTCOME_FILE"; chown nobody "$TOKIMORI_OUTCOME_FILE" """
    assert isinstance((await workshop.run(shell(text))).outcome, Failed)


def list_of(*parts: str) -> list[str]:
    """What stands in a folder."""
    return [path.name for path in Path(*parts).iterdir()]


def python_of_all() -> str:
    """A Python that every user may start."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if found is None:
        pytest.skip("no Python outside this user's folders, with which another user could attack")
    return found


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that everybody can pass through."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        path = Path(folder)
        path.chmod(0o711)
        yield path
        assert list(path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as somebody else")
@pytest.mark.usefixtures("tmp_path", "common")
async def test_another_user_reports_too(workshop: Workshop) -> None:
    """A command of another user, who can't get at the node's folders, finds its payload and reports all the same."""
    text = (
        'wc -c < "$TOKIMORI_PAYLOAD_FILE"; stat -c "%U %a" "${TOKIMORI_OUTCOME_FILE%/*}";'
        """echo '{"outcome": "succeeded", "result": "42"}' > "$TOKIMORI_OUTCOME_FILE" """
    )
    ended = await workshop.run(shell(text, user="nobody", cwd="/"), payload="x" * 200_000)
    assert (ended.outcome, written(ended)) == (Succeeded(0, "42"), b"200000\nnobody 700\n")
    (of_the_node,) = left(workshop)
    await until(lambda: list_of(tempfile.gettempdir(), of_the_node) == [])
    await workshop.executor.close()
    assert left(workshop) == []


ENGINE = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.integration.executors.workshop import Workshop, shell
from tokimori.ports.executor import Started
async def main():
    workshop = Workshop(Path(sys.argv[1]))
    await workshop.open()
    for user in sys.argv[2:]:
        text = 'echo half >"$TOKIMORI_OUTCOME_FILE"; echo done; exec sleep 1000'
        workshop.start(user, shell(text, user=user, cwd="/"), payload="secret" * 50_000)
    for user in sys.argv[2:]:
        await workshop.next(Started, user)
        while not (workshop.log(user).exists() and workshop.log(user).read_text()):
            await asyncio.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
"""A node that runs a command as each user that it is given, and then is killed."""


def killed(folder: Path, *users: str) -> list[Path]:
    """What a node that was killed has left of the attempts' files, for each of these users."""
    theirs = folder / "tmp"
    theirs.mkdir()
    theirs.chmod(0o711)
    done = subprocess.run(
        [sys.executable, "-c", ENGINE, str(folder), *users],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(theirs)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return [*folder.glob("state/exchange/*/*"), *theirs.glob("*/*/*")]


async def test_what_a_killed_node_left_is_taken_away(workshop: Workshop, tmp_path: Path) -> None:
    """The next node on the folder removes its payloads and reports, and touches nothing of a node that lives."""
    own = pwd.getpwuid(os.geteuid()).pw_name
    report = """echo '{"outcome": "hold", "reason": "r"}' >"$TOKIMORI_OUTCOME_FILE" """
    text = f'until [ -e {tmp_path}/go ]; do sleep 0.05; done; wc -c <"$TOKIMORI_PAYLOAD_FILE"; {report}'
    workshop.start("lives", shell(text), payload="x" * 200_000)
    await workshop.next(Started, "lives")
    assert len(killed(tmp_path, own)) == 3
    successor = Workshop(tmp_path)
    await successor.open()
    await until(lambda: left(workshop) == ["lives.1.payload"])
    await until(lambda: len(list((workshop.state / "exchange").iterdir())) == 2)
    (tmp_path / "go").touch()
    ended = await workshop.next(Ended, "lives")
    assert (ended.outcome, written(ended)) == (Hold("r"), b"200000\n")
    await successor.executor.close()


async def test_what_was_killed_beside_a_node_is_taken_away_with_old_output(workshop: Workshop, tmp_path: Path) -> None:
    """A node that runs on does so now and then, so that nothing waits for a start."""
    assert killed(tmp_path, pwd.getpwuid(os.geteuid()).pw_name)
    workshop.executor.forget(Moment(0))
    await until(lambda: left(workshop) == [])


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that everybody can pass through."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o711)
        yield path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as somebody else")
async def test_what_a_killed_node_left_for_other_users_is_taken_away(home: Path) -> None:
    """It lies where they get at it, and links in the node's folder say where; what they put in its place stays."""
    killed(home, "nobody", "daemon")
    places = {path.owner(): path for path in (home / "tmp").glob("*/*")}
    assert sorted(path.name for path in places["daemon"].iterdir()) == ["outcome", "payload"]
    theirs = home / "theirs"
    theirs.mkdir()
    (theirs / "payload").touch()
    (places["nobody"] / "payload").unlink()
    (places["nobody"] / "payload").symlink_to(theirs / "payload")
    (places["nobody"] / "more").symlink_to(theirs)
    successor = Workshop(home)
    await successor.open()
    await until(lambda: left(successor) == [])
    assert list((home / "tmp").iterdir()) == []
    assert (theirs / "payload").exists()
    await successor.executor.close()
    assert list((home / "state/exchange").iterdir()) == []


SWAPS = """
import os, sys, time
from contextlib import suppress
place, victim, seconds = os.path.dirname(os.environ["TOKIMORI_OUTCOME_FILE"]), sys.argv[1], float(sys.argv[2])
def plain(path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o644)  # the other one's pipe must not stop it
    os.write(file, b'{"outcome": "succeeded", "result": "mine"}')
    os.close(file)
def swapped(path):
    os.rename(path, path + ".x")
    os.symlink(victim, path)
WAYS = (
    plain,
    lambda path: os.symlink(victim + "/outcome", path),
    lambda path: os.symlink(victim, path),
    lambda path: os.link(victim + "/shown", path),
    os.mkfifo,
    os.mkdir,
    lambda path: swapped(place),
    lambda path: swapped(os.path.dirname(place)),
    lambda path: os.rename(victim, path),
)
end, turn = time.monotonic() + seconds, os.getpid()
while time.monotonic() < end:
    for name in ("outcome", "payload", "more"):
        path = os.path.join(place, name)
        turn += 1
        with suppress(OSError):
            os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        with suppress(OSError):
            WAYS[turn % len(WAYS)](path)
"""
"""What a hostile command does with its files: all the time, links and other things take each other's place."""


def state_of(folder: Path) -> list[tuple[object, ...]]:
    """Everything that a write, a chown or a removal in the folder would change."""
    places = sorted([folder, *folder.rglob("*")])
    return [
        (
            path,
            found.st_ino,
            found.st_mode,
            found.st_uid,
            found.st_gid,
            found.st_nlink,
            found.st_mtime_ns,
            found.st_size,
        )
        for path in places
        for found in [path.lstat()]
    ]


def attacked(folder: Path) -> Path:
    """A folder of root's, with the names of an attempt's files, of which an attacker may read only some."""
    victim = folder / "victim"
    (victim / "outcome.d").mkdir(parents=True)
    for name in ("outcome", "payload", "shown", "outcome.d/outcome"):
        (victim / name).write_text('{"outcome": "succeeded", "result": "stolen"}')
        (victim / name).chmod(0o644 if name == "shown" else 0o600)
    os.chown(victim / "outcome.d/outcome", *pwd.getpwnam("nobody")[2:4])
    (victim / "outcome.d").chmod(0o700)
    victim.chmod(0o755)
    return victim


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as somebody else")
@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.prove)])
async def test_an_attacker_who_swaps_folders_and_links_moves_root_nowhere(home: Path, seconds: int) -> None:
    """Whatever a command of another user puts in place of its files, its node touches and reads nothing outside."""
    victim = attacked(home)
    before = state_of(victim)
    program = home / "swaps.py"
    program.write_text(SWAPS)
    program.chmod(0o644)
    workshop = Workshop(home)
    await workshop.open()
    try:
        loop = asyncio.get_running_loop()
        begin, rounds = loop.time(), 0
        while loop.time() - begin < seconds:
            rounds += 1
            runs = [f"{rounds}-{number}" for number in range(4)]
            for number, run in enumerate(runs):
                swaps = f"{python_of_all()} {program} {victim}"
                text = f"{swaps} 0.{number + 1} & {swaps} 0.2; exit 0"
                payload = "x" * (MOST_IN_ENVIRONMENT + 1 if number % 2 else 5)
                workshop.start(run, shell(text, user="nobody", cwd="/"), payload=payload)
            outcomes = [(await workshop.next(Ended, run)).outcome for run in runs]
            assert all(outcome in (Succeeded(0), Succeeded(0, "mine")) or is_no_report(outcome) for outcome in outcomes)
    finally:
        await workshop.executor.close()
    assert state_of(victim) == before
    assert rounds > 1


def is_no_report(outcome: object) -> bool:
    """Whether the attempt failed because of what stood in place of its report."""
    return isinstance(outcome, Failed) and outcome.error.startswith("what it reported can't be understood")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as somebody else")
async def test_a_folder_behind_a_link_is_not_read(workshop: Workshop, home: Path) -> None:
    """A command that puts a link in place of its folder has its node read no file that it can't read itself."""
    victim = attacked(home) / "outcome.d"
    swap = f'd="${{TOKIMORI_OUTCOME_FILE%/*}}"; mv "$d" "$d.x" && ln -s {victim} "$d"; exit 0'
    for text in (swap, swap.replace('"$d', '"${d%/*}')):
        assert (await workshop.run(shell(text, user="nobody", cwd="/"))).outcome == Succeeded(0)


def owners_in(folder: Path, pattern: str) -> list[str]:
    """Whose files these are."""
    return [file.owner() for file in folder.glob(pattern)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as somebody else")
async def test_another_users_folder_that_was_moved_in_is_left(workshop: Workshop, common: Path) -> None:
    """What an attacker moved into his folder and could not remove himself, its node does not remove for him."""
    shared = common / "shared"
    (shared / "dir").mkdir(parents=True)
    (shared / "dir" / "file").touch()
    for path in (shared / "dir" / "file", shared / "dir"):
        os.chown(path, *pwd.getpwnam("daemon")[2:4])
    (shared / "dir").chmod(0o1777)
    os.chown(shared, *pwd.getpwnam("nobody")[2:4])
    text = f'mv {shared}/dir "${{TOKIMORI_OUTCOME_FILE%/*}}/dir"; exit 0'
    assert (await workshop.run(shell(text, user="nobody", cwd="/"))).outcome == Succeeded(0)
    await workshop.executor.close()
    assert owners_in(common, "tokimori-*/*/dir/file") == ["daemon"]
    for name in list_of(str(common)):
        shutil.rmtree(common / name)
