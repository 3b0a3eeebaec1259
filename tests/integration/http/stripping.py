"""A proxy that has a node below a path prefix, which it takes away, and nothing else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/tokimori"


@contextmanager
def stripping_proxy(node: str) -> Iterator[str]:
    """One before the node at this host and port; its own."""

    class Proxy(BaseHTTPRequestHandler):
        """Passes on what is below the prefix."""

        def pass_on(self) -> None:
            """Ask the node, and give its answer."""
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            connection = HTTPConnection(node, timeout=30)
            connection.request(self.command, self.path.removeprefix(PREFIX), body, dict(self.headers))
            answer = connection.getresponse()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.read())
            connection.close()

        do_GET = do_POST = pass_on  # noqa: N815  so are they called

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
