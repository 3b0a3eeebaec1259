"""Programs on Windows and macOS: the client over HTTP works there, and what needs Linux says so."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.client.served import served

HIDES = """
import asyncio, http.client, logging.handlers, os, signal, socket, subprocess, sys, tempfile, time, uuid, zoneinfo

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

NAMES = {"fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "syslog", "spwd", "crypt", "curses", "_curses"}
for name in NAMES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hidden())
for module, names in {
    os: "geteuid getuid getgid getegid fork register_at_fork sched_getaffinity memfd_create pidfd_open setsid getpgid "
        "killpg fchown chown fchmod sysconf O_NOFOLLOW O_CLOEXEC O_PATH O_DIRECTORY O_NONBLOCK WNOHANG getloadavg",
    time: "CLOCK_BOOTTIME clock_gettime pthread_getcpuclockid",
    signal: "SIGHUP SIGUSR1 SIGUSR2 SIGQUIT SIGKILL SIGCHLD SIGPIPE pthread_sigmask",
    socket: "SO_PEERCRED send_fds recv_fds",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
"""
ASKS = """
import tokimori
from tokimori.apps import names
for name in names.__all__:
    getattr(tokimori, name)
from tokimori.client import opening
from pathlib import Path
opening.BOOT_ID = Path("/no/such/file")

with tokimori.open(URL, author="somebody") as client:
    client.jobs.add("one", noop=True, schedule=tokimori.every(10).minutes)
    print(client.jobs.trigger("one").state, client.jobs.get("one").state)
app = tokimori.App("shop", url=URL)

@app.job
def sell(number: int) -> None: ...

print(sell.enqueue(1).state)
app.client.close()
"""
SERVES = """
import tokimori
app = tokimori.App("shop", url=URL)

from click.testing import CliRunner
from tokimori.cli.serve import serve
from tokimori.cli.app import worker
sys.platform = SYSTEM
for run in (app.run, tokimori.Worker(app).run, app.running, lambda: tokimori.open("sqlite:////tmp/t.db").list()):
    try:
        run()
    except tokimori.TokimoriError as fault:
        print(fault)
for command, arguments in ((serve, []), (worker, ["a:b"])):
    print(CliRunner().invoke(command, arguments).exception)
"""


def run(source: str, folder: Path) -> str:
    """What a program prints on a system that has nothing of what it hides."""
    command = [sys.executable, "-W", "ignore", "-c", source]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={"HOME": str(folder)}, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_client_works_without_linux(tmp_path: Path) -> None:
    """It is imported, with all its names, asks a node, and declares the jobs of an app there."""
    with served() as url:
        assert run(f"URL = {url!r}\n{HIDES}{ASKS}", tmp_path) == "ready enabled\nready\n"


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_what_needs_linux_says_so(system: str, tmp_path: Path) -> None:
    """A node, in every way that one is started, and an SQLite store."""
    said = run(f"URL, SYSTEM = 'http://127.0.0.1:1/?secret=x', {system!r}\n{HIDES}{SERVES}", tmp_path).splitlines()
    assert len(said) == 6
    assert [f"needs Linux, and this is {system}" in line for line in said] == [True] * 6, said
