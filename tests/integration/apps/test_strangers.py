"""What another user of the machine, and a process that is no worker, get from the socket of worker processes."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import stop
from tokimori.executors.functions.wire import by_descriptor

ATTACK = r"""
import os, socket, sys
state = sys.argv[1]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
reached = []
for folder in (f"{state}/sockets", state):
    try:
        names = [f"{folder}/{name}" for name in os.listdir(folder)]
    except PermissionError:
        names = sys.argv[2:]
    for name in names:
        try:
            socket.socket(socket.AF_UNIX).connect(name)
        except OSError:
            continue
        reached.append(name)
print(reached)
"""


def sockets_of(program: AppProgram) -> list[Path]:
    """Where worker processes connect."""
    return list((program.home / "state/sockets").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_does_not_reach_the_socket_of_workers() -> None:
    """Also where all may enter the state folder: he can't keep the node busy by connecting, nor fill its log."""
    with tempfile.TemporaryDirectory() as folder:  # its path is short enough for the address of a socket
        Path(folder).chmod(0o755)
        program = AppProgram(Path(folder))
        state = program.home / "state"
        state.mkdir(mode=0o755)
        node = program.work()
        try:
            (found,) = sockets_of(program)
            done = subprocess.run(
                [sys.executable, "-c", ATTACK, str(state), str(found)], capture_output=True, text=True, check=False
            )
            assert (done.stdout, done.stderr) == ("[]\n", "")
            assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700
        finally:
            assert stop(node) == 0
        assert sockets_of(program) == []


def test_who_is_no_worker_is_cut_off(working: AppProgram) -> None:
    """Of our own user, too: it says nonsense, or the number of no process that is awaited; and work goes on."""
    (found,) = sockets_of(working)
    for said in (b"\xff" * 8, b"\0\0\0\1\x90", b"GET / HTTP/1.1\r\n\r\n"):
        with socket.socket(socket.AF_UNIX) as stranger, by_descriptor(found) as path:
            stranger.connect(path)
            stranger.settimeout(10)
            stranger.sendall(said)
            if said != b"\0\0\0\1\x90":  # that is an empty list of messages
                assert stranger.recv(100) == b""
    assert working.outcome("double", '{"number": 2}')["result"] == "4"


def test_what_a_killed_node_left_is_removed(program: AppProgram) -> None:
    """The next node takes away the socket of a dead one, and leaves that of a living one alone."""
    killed, living = program.work(), program.work()
    before = set(sockets_of(program))
    killed.kill()
    killed.communicate()
    last = program.work()
    try:
        assert len(before) == 2 and len(sockets_of(program)) == 2
        until(lambda: program.outcome("double", '{"number": 2}')["result"] == "4")
    finally:
        assert (stop(living), stop(last)) == (0, 0)
    assert sockets_of(program) == []
