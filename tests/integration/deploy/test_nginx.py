"""A node behind a real nginx with TLS, with the site that `deploy/` has for it."""

import http.client
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of
from tests.programs.forked import ROOT

SITE = (ROOT / "deploy/nginx.conf").read_text()
NGINX, OPENSSL = shutil.which("nginx"), shutil.which("openssl")
pytestmark = [
    pytest.mark.prove,
    pytest.mark.skipif(NGINX is None or OPENSSL is None, reason="nginx or openssl is not installed"),
]
MAIN = """
daemon off;
master_process off;
error_log {home}/nginx.err;
pid {home}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    {site}
}}
"""
PREFIX = "location /below/ {{ proxy_pass http://tokimori{end}; proxy_set_header Host $http_host; }}\n    location / {{"
NAME = "tokimori.example"


class Answer(NamedTuple):
    """What came back through the proxy."""

    status: int
    headers: http.client.HTTPMessage
    body: str


class Proxied(NamedTuple):
    """A node, and the port of the proxy before it."""

    site: Site
    port: int
    home: Path

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] = MappingProxyType({}), body: str | None = None
    ) -> Answer:
        """Ask the proxy as somebody who knows it by its name."""
        context = ssl.create_default_context(cafile=str(self.home / "cert.pem"))
        connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=30)
        connection.request(method, path, body, {"Host": f"{NAME}:{self.port}", **headers})
        answer = connection.getresponse()
        found = Answer(answer.status, answer.headers, answer.read().decode())
        connection.close()
        return found


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def proxied(program: Program) -> Iterator[Proxied]:
    """A node that has the proxy's name for itself."""
    with behind_nginx(program) as proxied:
        yield proxied


@contextmanager
def behind_nginx(program: Program, end: str = "/") -> Iterator[Proxied]:
    """A node that knows its public address, and nginx before it; what is below `/below/` it passes on to that `end`."""
    home = program.home
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    made = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test -addext"
    certificate = [str(OPENSSL), *made.split(), f"subjectAltName=DNS:{NAME},DNS:localhost"]
    subprocess.run(certificate, cwd=home, check=True, capture_output=True)
    program.environment["TOKIMORI_HTTP_PUBLIC_URL"] = f"https://{NAME}:{port}"
    with site_of(program) as site:
        text = SITE.replace("443 ssl", f"127.0.0.1:{port} ssl").replace("127.0.0.1:8000", site.url.split("/")[2])
        text = re.sub(r"/etc/ssl/\S+\.pem", str(home / "cert.pem"), text).replace(
            f"/etc/ssl/{NAME}.key", str(home / "key.pem")
        )
        (home / "nginx.conf").write_text(
            MAIN.format(home=home, site=text.replace("location / {", PREFIX.format(end=end)))
        )
        command = [str(NGINX), "-e", str(home / "nginx.err"), "-p", str(home), "-c", str(home / "nginx.conf")]
        with subprocess.Popen(command) as nginx:
            try:
                until(lambda: nginx.poll() is not None or answers(port))
                assert nginx.poll() is None
                yield Proxied(site, port, home)
            finally:
                nginx.terminate()


def test_a_browser_behind_the_proxy(proxied: Proxied) -> None:
    """The address with the secret becomes a cookie, the page works with it, and so do orders; a stranger's do not."""
    entered = proxied.ask("GET", f"/?secret={proxied.site.secret}")
    assert (entered.status, entered.headers["location"]) == (303, "/")
    cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}
    assert proxied.ask("GET", "/", cookie).status == 200
    assert proxied.ask("GET", "/").status == 401
    order = '{"id": "a", "noop": true}'
    ours = {"content-type": "application/json", "origin": f"https://{NAME}:{proxied.port}", **cookie}
    assert proxied.ask("POST", "/api/v2/jobs", ours, order).status == 201
    for stranger in ("https://evil.example", f"http://{NAME}:1", f"https://{NAME}"):
        assert proxied.ask("POST", "/api/v2/jobs", {**ours, "origin": stranger}, order).status == 403


def test_names_behind_the_proxy(proxied: Proxied) -> None:
    """Another name is refused."""
    assert proxied.ask("GET", "/readyz", {"Host": "evil.example"}).status == 403
    assert proxied.ask("GET", "/readyz").status == 200


@pytest.mark.parametrize("end", ["/", ""])
def test_a_node_below_a_prefix(program: Program, end: str) -> None:
    """Whether the proxy takes the prefix away (`/`) or leaves it there, the page and the API are whole below it."""
    program.environment["TOKIMORI_HTTP_PATH_PREFIX"] = "/below"
    with behind_nginx(program, end) as proxied:
        entered = proxied.ask("GET", f"/below/?secret={proxied.site.secret}")
        assert (entered.status, entered.headers["location"]) == (303, "/below/")
        kept, _, rest = entered.headers["set-cookie"].partition(";")
        assert "Path=/below;" in rest
        page = proxied.ask("GET", "/below/", {"cookie": kept}).body
        style = re.search(r'href="(/below/static/console.css[^"]*)"', page)
        assert style is not None and proxied.ask("GET", style[1], {"cookie": kept}).status == 200
        order = {"content-type": "application/json", "origin": f"https://{NAME}:{proxied.port}", "cookie": kept}
        made = proxied.ask("POST", "/below/api/v2/jobs", order, '{"id": "a", "noop": true}')
        assert proxied.ask("GET", made.headers["location"], {"cookie": kept}).status == 200
