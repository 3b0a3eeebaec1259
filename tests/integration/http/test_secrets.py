"""Secrets of jobs at a real node: jobs get them, and nothing shows them."""

import json
import os
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of
from tests.programs.forked import PROGRAM

VALUE = "correct/horse+battery"
KEY = "-----BEGIN KEY-----\nabcdefghijklmnop\n-----END KEY-----\n"


def given(program: Program, text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The program, with this text as its standard input."""
    return subprocess.run(
        [PROGRAM, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=program.home,
        env=program.environment,
        timeout=60,
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """One with a key and two secrets, whose requests may go to this machine."""
    found = Program(tmp_path_factory.mktemp("secrets"))
    found.environment |= {
        "TOKIMORI_TARGETS_PRIVATE_ADDRESSES": "127.0.0.0/8",
        "TOKIMORI_HTTP_ACCESS_LOG": "true",
        "TOKIMORI_SECRETS_KEY_FILE": str(found.home / "keys"),
    }
    found("secret", "key")
    assert given(found, f"{VALUE}\n", "secret", "set", "DB", "--jobs", "web-").stdout == "set secret DB\n"
    assert given(found, KEY, "--json", "secret", "set", "KEY").returncode == 0
    return found


@pytest.fixture(scope="module")
def site(program: Program) -> Iterator[Site]:
    """Its node, with a door."""
    with site_of(program) as found:
        yield found


def ran(program: Program, job: str, *command: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """The run of a new job that has ended, and what it wrote."""
    program("job", "add", job, *command)
    ended = program.run("--json", "job", "trigger", job, "--wait")
    run = json.loads(ended.stdout)
    assert ended.returncode == code, (run["error"], program("run", "logs", run["id"]))
    return program.json("run", "show", run["id"]), program("run", "logs", run["id"])


def kept(program: Program) -> Iterator[tuple[str, str]]:
    """All that is in the store, and in each file of the state folder."""
    yield "the store", "\n".join(program.contents())
    for path in (program.home / "state").rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes().decode(errors="replace")


def test_a_job_gets_its_secret_and_nothing_shows_it(program: Program, site: Site) -> None:
    """From its environment, its arguments and its input, also where it is written in two parts, or in base64."""
    script = (
        'test "$PASS" = "$1" && test "$PASS" = "$(cat)" && echo "got $PASS" && printf correct/ && sleep 0.2 && '
        'echo horse+battery && printf %s "me:$PASS" | base64 && printf %s "$KEY" | sed "s/^/> /" && '
        'test "$(printf %s "$KEY" | wc -l)" = 3 && '
        f'{PROGRAM} run report succeeded --result "the password is $PASS"'
    )
    places = ["--env", "PASS={{ secret.DB }}", "--env", "KEY={{ secret.KEY }}", "--stdin", "{{ secret.DB }}"]
    run, text = ran(program, "web-a", *places, "--", "sh", "-c", script, "sh", "{{ secret.DB }}")
    assert run["state"] == "succeeded", text
    assert text.splitlines()[:2] == ["got ***", "***"]
    assert text.splitlines()[3:] == ["> ***", "> ***", "> ***"]
    assert text.splitlines()[2].endswith("***")
    assert run["result"] == "the password is ***"
    shown = program("job", "show", "web-a")
    assert "PASS={{ secret.DB }}" in shown
    assert [name for name, content in (*kept(program), ("log", site.log)) if VALUE in content] == []
    assert [name for name, content in kept(program) if "abcdefghijklmnop" in content] == []
    assert [each["name"] for each in program.json("secret", "list")] == ["DB", "KEY"]


def test_an_error_shows_no_secret(program: Program, site: Site) -> None:
    """Of a command that reports one, at the end of a text that is cut off; and of one that can't begin."""
    script = f'{PROGRAM} run report failed "no $PASS"'
    run, _ = ran(program, "web-b", "--env", "PASS={{ secret.DB }}", "--", "sh", "-c", script, code=1)
    assert run["error"] == "no ***"
    bad = (
        'printf "{\\"outcome\\": \\"failed\\", \\"error\\": \\"x\\", \\"%0460d%s\\": 1}" 0 "$PASS" '
        '> "$TOKIMORI_OUTCOME_FILE"'
    )
    run, _ = ran(program, "web-c", "--env", "PASS={{ secret.DB }}", "--", "sh", "-c", bad, code=1)
    assert "unknown field `000" in run["error"]
    assert "correct" not in run["error"]
    assert [name for name, content in (*kept(program), ("log", site.log)) if VALUE in content] == []


def test_nothing_starts_without_its_secret(program: Program, site: Site) -> None:
    """One that is not there, and one that is for other jobs: the error names it, and the command that mends it."""
    canary = program.home / "canary"
    for job, name, why in (
        ("web-d", "NONE", "there is no secret 'NONE': `tokimori secret set NONE`"),
        ("mail-a", "DB", "'DB' is for jobs web-*, and not for 'mail-a': `tokimori secret set DB --jobs PREFIX`"),
    ):
        run, _ = ran(program, job, "--", "touch", str(canary), f"{{{{ secret.{name} }}}}", code=1)
        assert why in run["error"]
        assert run["started"] is None
    assert not canary.exists()


class Echo(BaseHTTPRequestHandler):
    """A service that answers with all that it was sent."""

    def do_POST(self) -> None:
        """Answer."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        text = f"{self.path} {self.headers['Authorization']} {body}".encode()
        self.send_response(307 if self.path.startswith("/away") else 200)
        self.send_header("Location", f"http://other.example/{'x' * 463}{self.path}")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Not a word."""


def test_a_request_carries_its_secret(program: Program, site: Site) -> None:
    """In its path, a header and the body; what the service says of it is hidden, and a payload names none."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as service:
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        fields = {
            "headers": {"Authorization": "Bearer {{ secret.DB }}"},
            "body": "{{ secret.DB }} and {{ payload }}",
        }
        base = f"http://127.0.0.1:{service.server_port}"
        jobs = [{"id": f"web-{path}", "url": f"{base}/{path}/{{{{secret.DB}}}}", **fields} for path in ("hook", "away")]
        (program.home / "job.json").write_text(json.dumps({"jobs": jobs}))
        program("apply", "job.json", "--set", "s")
        run = program.json("job", "trigger", "web-hook", "--wait", "--payload", '"{{ secret.DB }}"')
        away = program.json("job", "trigger", "web-away", "--wait", code=1)
        service.shutdown()
        thread.join()
    shown = '/hook/*** Bearer *** *** and "{{ secret.DB }}"'
    assert (program("run", "logs", run["id"]), program.json("run", "show", run["id"])["result"]) == (shown, shown)
    error = program.json("run", "show", away["id"])["error"]
    assert "x/away/***" in error
    assert "correct" not in error


def test_the_key_of_a_node_is_nobody_elses(program: Program, site: Site, tmp_path: Path) -> None:
    """A node without the key fails the attempt; a command that it starts has no key in its environment."""
    other = Program(tmp_path)
    other.environment |= {"TOKIMORI_SECRETS_KEYS": os.urandom(32).hex()}
    error = json.loads(given(other, VALUE, "--json", "secret", "set", "DB").stderr)["error"]
    assert (error["code"], error["field"]) == ("refused", "secrets.key_file")
    _, text = ran(program, "web-f", "--env", "PASS={{ secret.DB }}", "--", "env")
    assert "PASS=***" in text
    assert "SECRETS" not in text


def test_the_log_shows_none(program: Program, site: Site) -> None:
    """Though somebody asks for it by its value, when a run has got it."""
    ran(program, "web-g", "--env", "PASS={{ secret.DB }}", "--", "true")
    asked = urllib.request.Request(f"{site.url}api/v2/jobs/{VALUE}", headers={"Authorization": f"Bearer {site.secret}"})  # noqa: S310 its own address
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(asked)  # noqa: S310
    until(lambda: "/api/v2/jobs/***" in site.log)
    assert VALUE not in site.log


def test_over_http(program: Program, site: Site) -> None:
    """The command line sets and lists them by the node, whose key it is; the value is read from standard input."""
    server = ("--server", site.entry)
    assert given(program, VALUE, *server, "secret", "set", "OTHER", "--jobs", "a-").stdout == "set secret OTHER\n"
    assert program(*server, "secret", "list") == program("secret", "list")
    assert program(*server, "secret", "rotate") == "encrypted 3 secrets with the first key\n"
    assert program(*server, "secret", "delete", "OTHER") == "deleted secret OTHER\n"
    assert program.error("secret", "delete", "OTHER", code=3)["code"] == "not_found"
    assert VALUE not in site.log
