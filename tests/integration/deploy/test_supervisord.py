"""A node under a real supervisord, with the program that `deploy/` has for it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program
from tests.programs.forked import PROGRAM, ROOT

CONFIG = ROOT / "deploy/supervisord.conf"
HEAD = """
[supervisord]
nodaemon=true
user={user}
logfile={home}/supervisord.log
pidfile={home}/supervisord.pid
[unix_http_server]
file={home}/s.sock
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://{home}/s.sock
"""


class Supervisor:
    """A supervisord at work on our program, in a folder of its own."""

    def __init__(self, program: Program) -> None:
        home = program.home
        text = CONFIG.read_text().replace("/opt/tokimori/bin/tokimori", str(PROGRAM)).replace("/var/log", str(home))
        text = re.sub(r"^user=.*\n", "", text, flags=re.MULTILINE)
        said = ",".join(f'{name}="{value}"' for name, value in program.environment.items())
        text = re.sub(r"^environment=.*$", f'environment={said},TOKIMORI_HTTP_PORT="0"', text, flags=re.MULTILINE)
        self.config = home / "supervisord.conf"
        self.config.write_text(HEAD.format(home=home, user=os.getuid()) + text)
        self.program = program
        self.process = subprocess.Popen(
            [sys.executable, "-m", "supervisor.supervisord", "-c", str(self.config)], stdout=subprocess.DEVNULL
        )

    def ctl(self, *arguments: str) -> str:
        """What `supervisorctl` prints."""
        command = [sys.executable, "-m", "supervisor.supervisorctl", "-c", str(self.config), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False).stdout

    @property
    def log(self) -> str:
        return (self.program.home / "supervisord.log").read_text()


@pytest.fixture
def supervisor(program: Program) -> Iterator[Supervisor]:
    """One that ends with all that it started."""
    found = Supervisor(program)
    try:
        yield found
    finally:
        found.process.send_signal(signal.SIGTERM)
        try:
            found.process.wait(60)
        finally:
            found.process.kill()
            found.process.wait()


def nodes(program: Program) -> list[str]:
    """The states of all nodes so far."""
    return sorted(node["state"] for node in program.json("node", "list")) if program.database.exists() else []


@pytest.mark.prove
def test_a_node_is_started_drained_and_started_again(program: Program, supervisor: Supervisor) -> None:
    """TERM lets its run finish, which no second node takes; after a death it is started again."""
    until(lambda: nodes(program) == ["alive"])
    program("job", "add", "slow", "--command", "echo $$ > pid; read line < go; echo done", "--cwd", str(program.home))
    os.mkfifo(program.home / "go")
    run = program.json("job", "trigger", "slow")["id"]
    until(lambda: program.json("run", "show", run)["state"] == "running" and (program.home / "pid").exists())
    with subprocess.Popen(
        [sys.executable, "-m", "supervisor.supervisorctl", "-c", str(supervisor.config), "restart", "tokimori"],
        stdout=subprocess.DEVNULL,
    ) as restarting:
        until(lambda: "The node stops: its runs get" in (program.home / "tokimori.out.log").read_text())
        (program.home / "go").write_text("\n")
        assert restarting.wait(90) == 0
    found = program.json("run", "show", run)
    assert (found["state"], len(found["attempts"])) == ("succeeded", 1)
    until(lambda: nodes(program) == ["alive", "left"])
    pid = int(supervisor.ctl("pid", "tokimori"))
    os.kill(pid, signal.SIGKILL)
    until(lambda: supervisor.ctl("pid", "tokimori").strip() not in ("0", str(pid)))
    until(lambda: nodes(program).count("alive") == 1)
    assert "stopped: tokimori (exit status 0)" in supervisor.log
    assert "SIGKILL; not expected" in supervisor.log
    assert "secret=" not in (program.home / "tokimori.out.log").read_text()
