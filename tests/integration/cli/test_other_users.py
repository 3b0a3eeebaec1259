"""What another user of the machine gets at: nothing of the state folder, whatever its mode."""

import os
import pwd
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program, stop

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
SECRET = "very-secret-word"


@pytest.fixture
def shown() -> Iterator[Program]:
    """One whose state folder everybody can look into, as systemd makes them, with the store in it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        program = Program(home)
        (home / "state").mkdir(mode=0o755)
        del program.environment["TOKIMORI_STORE"]
        program.environment["TOKIMORI_LOG_FILE"] = str(home / "state/logs/node.log")
        yield program


def as_nobody(*argv: str) -> "subprocess.Popen[bytes]":
    """A program of another user."""
    nobody = pwd.getpwnam("nobody")
    return subprocess.Popen(
        argv,
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def files_in(folder: Path) -> dict[str, int]:
    """Each file and folder, and its mode."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def run_a_secret(program: Program) -> None:
    """A job with a secret, run to its end."""
    program("job", "add", "j", "--env", f"WORD={SECRET}", "--command", "echo $WORD")
    program("job", "trigger", "j", "--wait")


@ROOT_ONLY
def test_another_user_reads_nothing_in_a_state_folder_that_all_can_enter(shown: Program) -> None:
    """Files are for their owner alone, whatever the folder's mode and the umask: database, logs, locks, output."""
    before = os.umask(0)
    try:
        node = shown.serve()
        run_a_secret(shown)
    finally:
        os.umask(before)
    state = shown.home / "state"
    try:
        assert SECRET.encode() in b"".join(state.joinpath(f"tokimori.db{end}").read_bytes() for end in ("", "-wal"))
        found, _ = as_nobody("/bin/grep", "-r", "-c", SECRET, str(state)).communicate()
        assert found == b""
        modes = files_in(state)
        assert {mode for name, mode in modes.items() if (state / name).is_file()} == {0o600}
        assert {mode for name, mode in modes.items() if (state / name).is_dir()} == {0o700}
        assert {"tokimori.db", "tokimori.db-wal", "tokimori.db-shm", "tokimori.db-lock", "logs/node.log"} < set(modes)
    finally:
        stop(node)


@ROOT_ONLY
def test_another_users_lock_stops_nobody(shown: Program) -> None:
    """Also one who has opened the lock file of an earlier version, when all could, and holds it for ever."""
    shown("job", "add", "j", "--noop")
    lock = shown.home / "state/tokimori.db-lock"
    lock.chmod(0o644)
    (shown.home / "state/tokimori.db").chmod(0o644)
    holder = as_nobody("/usr/bin/flock", "--no-fork", str(lock), "/bin/sh", "-c", "echo locked; exec sleep 60")
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"locked\n"
    try:
        shown("job", "list")
        shown("job", "add", "k", "--noop")
    finally:
        holder.kill()
        holder.communicate()
    assert set(files_in(shown.home / "state").values()) == {0o600}
    refused = as_nobody("/usr/bin/flock", "-n", str(lock), "true")
    refused.communicate()
    assert refused.returncode != 0


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_state_folder_that_others_may_write_is_refused(program: Program, mode: int) -> None:
    """The message has the command that mends it; and then it works."""
    del program.environment["TOKIMORI_STORE"]
    state = program.home / "state"
    state.mkdir()
    os.chown(state, -1, 12345 if os.geteuid() == 0 else -1)
    state.chmod(mode)
    for command in (("serve", "--no-http"), ("job", "add", "j", "--noop")):
        refused = program.error(*command)
        assert (refused["code"], refused["field"]) == ("store_error", "state_dir")
        assert f"`chmod go-w {state}`" in refused["message"]
    subprocess.run(["/bin/chmod", "go-w", str(state)], check=True)
    program("job", "add", "j", "--noop")


@ROOT_ONLY
def test_another_users_state_folder_is_refused(program: Program) -> None:
    """He could give this node any job to run; the message has the commands that mend it."""
    del program.environment["TOKIMORI_STORE"]
    state = program.home / "state"
    state.mkdir(mode=0o700)
    os.chown(state, pwd.getpwnam("nobody").pw_uid, -1)
    message = program.error("job", "add", "j", "--noop")["message"]
    assert "belongs to nobody: run this as nobody, or `chown root" in message


@ROOT_ONLY
def test_root_leaves_another_users_store_to_him(shown: Program) -> None:
    """What root makes beside the database is its owner's, who goes on as before; a third user's file is refused."""
    database = shown.home / "own/t.db"
    shown.environment["TOKIMORI_STORE"] = f"sqlite://{database}"
    database.parent.mkdir()
    shown("job", "add", "j", "--noop")
    nobody = pwd.getpwnam("nobody")
    for path in (database.parent, database):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    (database.parent / "t.db-lock").unlink()
    shown("job", "list")
    assert {path.owner() for path in database.parent.iterdir()} == {"nobody"}
    beside = database.parent / "t.db-journal"
    beside.touch()
    os.chown(beside, pwd.getpwnam("daemon").pw_uid, -1)
    assert f"{beside} belongs to another user" in shown.error("job", "list")["message"]


def test_a_store_in_a_folder_that_all_may_write_is_refused(program: Program) -> None:
    """Anybody could put another database in its place; in a sticky one, as /tmp is, nobody can."""
    folder = program.home / "common"
    folder.mkdir()
    program.environment["TOKIMORI_STORE"] = f"sqlite://{folder}/t.db"
    folder.chmod(0o777)
    assert f"chmod o-w {folder}" in program.error("job", "add", "j", "--noop")["message"]
    folder.chmod(0o1777)
    program("job", "add", "j", "--noop")


@ROOT_ONLY
def test_root_passes_over_settings_that_another_user_may_have_written(shown: Program) -> None:
    """In the working folder or any usual place, owned or writable, itself or by its folder; a warning names it."""
    nobody = pwd.getpwnam("nobody").pw_uid
    folder = shown.home / "work"
    folder.mkdir()
    file = folder / "tokimori.toml"
    file.write_text("time_zone = 'Asia/Tokyo'")
    shown.home = folder
    assert shown.json("config", "check")["warnings"] == []
    assert "Asia/Tokyo" in shown("config", "show")
    for owner, mode, folder_mode in ((nobody, 0o600, 0o755), (0, 0o646, 0o755), (0, 0o644, 0o777)):
        os.chown(file, owner, -1)
        file.chmod(mode)
        folder.chmod(folder_mode)
        passed_over = shown.run("config", "show")
        assert "Asia/Tokyo" not in passed_over.stdout
        assert f"{file} is passed over" in passed_over.stderr
        assert "root trusts no other user" in shown.error("-c", str(file), "config", "show")["message"]
