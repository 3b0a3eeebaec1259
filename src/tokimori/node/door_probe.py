"""Asking the door of a node on this machine whether the node is ready."""

import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from msgspec import DecodeError, Struct, json

READY, SILENT = "ready", "its HTTP server does not answer"
_PATIENCE = 5.0
"""Seconds that a door has to answer."""


class _Told(Struct):
    status: str


def readiness(address: str) -> str:
    """`ready`, or why the node at that address is not, in words, which begin with `SILENT` where nobody answers."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port
    door = HTTPConnection(host, port, timeout=_PATIENCE)
    if parts.scheme == "https":  # the certificate is for the names by which others come; nothing secret is sent
        door = HTTPSConnection(host, port, timeout=_PATIENCE, context=ssl._create_unverified_context())  # noqa: S323
    try:
        door.request("GET", f"{parts.path.rstrip('/')}/readyz")
        return json.decode(door.getresponse().read(4096), type=_Told).status
    except (OSError, HTTPException, DecodeError) as fault:
        return f"{SILENT}: {fault}"
    finally:
        door.close()
