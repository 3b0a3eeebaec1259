"""A command whose job asks for it may ask its node, about its own job alone, as long as its run goes on."""

import sys
from pathlib import Path

from tests.integration.cli.conftest import Program, stop
from tests.integration.http.site import site_of
from tests.integration.http.test_tokens import ask

ASKS = """
import os, subprocess, sys, tokimori
server = os.environ["TOKIMORI_SERVER"]
print("at", server)
with tokimori.open(server) as client:
    run = client.jobs.trigger("pay", at="2099-01-01T00:00:00Z")
    seen = [job.id for job in client.jobs.list()]
    try:
        client.jobs.get("payroll")
    except tokimori.NotFound:
        seen.append("no payroll")
    try:
        client.jobs.get("bills")
    except tokimori.NotFound:
        seen.append("no bills")
said = subprocess.run([sys.executable, "-m", "tokimori", "job", "list", "-o", "ids"], capture_output=True, text=True)
open("told", "w").write("\\n".join([server, str(run.parent_id), *seen, said.stdout.strip(), *sorted(os.environ)]))
"""


def test_a_command_asks_its_node(tmp_path: Path) -> None:
    """By a token of its own, which its output does not show and which is dead when it ends; never by the store."""
    program = Program(tmp_path)
    (tmp_path / "asks.py").write_text(ASKS)
    with site_of(program) as site:
        for other in ("payroll", "bills"):
            program("job", "add", other, "--noop")
        program("job", "add", "pay", "--client", "--cwd", str(tmp_path), "--", sys.executable, "asks.py")
        ended = program.json("job", "trigger", "pay", "--wait")
        assert ended["state"] == "succeeded", program("run", "logs", ended["id"])
        server, parent, *told = (tmp_path / "told").read_text().splitlines()
        assert told[:4] == ["pay", "no payroll", "no bills", "pay"]
        assert (parent, "TOKIMORI_STORE" in told) == (ended["id"], False)
        url, _, token = server.partition("?secret=")
        assert (url, token.startswith("tkm_run-")) == (site.url, True)
        assert token not in program("run", "logs", ended["id"])
        assert ask(site.url, token, "api/v2/jobs") == 401
        (entry,) = [
            each
            for each in program.json("audit", "list")
            if each["what"] in ("jobs.request", "jobs.trigger") and "run-" in each["who"]
        ]
        assert entry["who"] == f"run-{ended['id']}"
        assert not any(token in line for line in program.contents())
    assert program.error("job", "add", "x", "--noop", "--client")["field"] == "client"
    node = program.serve()
    try:
        run = program.run("--json", "job", "trigger", "pay", "--wait")
        assert "this node does not answer over HTTP" in run.stdout
    finally:
        stop(node)
