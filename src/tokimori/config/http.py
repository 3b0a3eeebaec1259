"""The settings of the HTTP door."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from tokimori.errors import InvalidInput
from tokimori.model.policies import Seconds
from tokimori.model.rate import parse_rate

OWN_PATHS: Final = frozenset(
    (
        *("api", "callbacks", "healthz", "livez", "login", "logout", "readyz", "static", "webui"),
        *(
            "audit",
            "calendar.ics",
            "calendars",
            "channels",
            "do",
            "expectations",
            "failures",
            "find",
            "graph",
            "jobs",
            "nodes",
        ),
        *("notifiers", "plan", "queues", "runs", "secrets", "semaphores", "sets", "tasks", "tokens", "wall"),
    )
)
"""Prefixes of the door's own paths, those of the page in the last two lines."""
_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")


class HttpSettings(Struct, frozen=True, kw_only=True):
    """The HTTP door of a node."""

    enabled: Annotated[bool, Meta(description="Answer over HTTP.")] = True
    interface: Annotated[str, Meta(min_length=1, description="The address that it listens on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port that it listens on; 0: any free one.")] = 8000
    port_fixed: Annotated[bool, Meta(description="Refuse a taken port; otherwise the next free one is used.")] = False
    insecure: Annotated[bool, Meta(description="Listen without TLS also on an address that other machines reach.")] = (
        False
    )
    secret: Annotated[
        Annotated[str, Meta(min_length=43, max_length=512, pattern="^[A-Za-z0-9_-]+$")] | None,
        Meta(
            description="The secret that lets in whoever brings it, 43 to 512 of A-Z a-z 0-9 _ -: nodes behind one"
            " address share it; none: that of the file `secret` in state_dir, which the first node makes."
        ),
    ] = None
    secret_file: Annotated[
        Path | None,
        Meta(
            description="A file that holds the secret. It is read again when it changes, and the secret before lets in"
            " for five minutes more."
        ),
    ] = None
    tls_cert: Annotated[
        Path | None,
        Meta(description="A PEM file with the certificate of the HTTP server; with it and its key it speaks TLS."),
    ] = None
    tls_key: Annotated[Path | None, Meta(description="A PEM file with the key of that certificate.")] = None
    public_url: Annotated[
        str | None,
        Meta(
            description="The address by which others reach the node, through a proxy say: callbacks come there, and its"
            " name may be that of requests; none: where it listens."
        ),
    ] = None
    path_prefix: Annotated[
        str | None,
        Meta(
            description="The path below which others reach the node through a proxy, such as /tokimori; none: it has a"
            " name of its own. Paths are answered with it and without."
        ),
    ] = None
    access_log: Annotated[
        bool, Meta(description="Log each request: method, path, status, size and time, no secrets.")
    ] = False
    drain: Annotated[
        Seconds,
        Meta(
            description="Seconds for which a node that is stopping goes on answering, so that whoever asks /readyz"
            " sends it nothing more."
        ),
    ] = 0
    rate: Annotated[
        str | None,
        Meta(
            description="How often each token may ask, and each address of who has none, such as 100/s, 600/m or"
            " 1000/h; none: without end. /healthz, /livez and /readyz are not counted."
        ),
    ] = None
    streams: Annotated[
        int,
        Meta(
            ge=0,
            le=50_000,
            description="How many streams of events may be open. Each keeps a connection: over 250 of them need as many"
            " file descriptors more (ulimit -n).",
        ),
    ] = 250
    job_users: Annotated[
        tuple[str, ...],
        Meta(description="OS users as whom jobs that come over HTTP may run, besides the node's own."),
    ] = ()
    job_commands: Annotated[
        tuple[str, ...],
        Meta(description="Programs that jobs that come over HTTP may start, such as /usr/bin/rsync; none: every one."),
    ] = ()
    job_hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Services to which requests of jobs that come over HTTP may go, such as *.example.com; none:"
            " every one."
        ),
    ] = ()
    v1_open: Annotated[
        bool,
        Meta(description="Open Kala's API to all users of this machine, without the secret; never as root."),
    ] = False
    v1_default_owner: Annotated[
        str | None, Meta(description="The owner of jobs that name none and come by Kala's API.")
    ] = None

    def below_prefix(self, url: str) -> str:
        """Return the address with the path prefix, if it has no path of its own."""
        if self.path_prefix is None or urlsplit(url).path.strip("/"):
            return url
        return f"{url.rstrip('/')}{self.path_prefix}/"


def http_faults(http: HttpSettings) -> Iterator[str]:
    """Yield the faults of the door's values, alone and together."""
    if (http.tls_cert is None) != (http.tls_key is None):
        missing = "tls_cert" if http.tls_cert is None else "tls_key"
        yield f"http.{missing}: it is missing, and the other is said; allowed: both files, or neither"
    if http.secret is not None and http.secret_file is not None:
        yield "http.secret: it and http.secret_file are both said; allowed: one of them"
    url = http.public_url
    if url is not None and not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", url):
        yield f"http.public_url: {url!r} is not an address; allowed: http://host:port or https://host:port"
    prefix = http.path_prefix
    if prefix is not None and (not _PREFIX.fullmatch(prefix) or prefix.split("/")[1] in OWN_PATHS):
        yield (
            f"http.path_prefix: {prefix!r} can't be put before the paths of the API; allowed: one such as /tokimori or"
            f" /a/b, that ends without / and does not begin as those paths do ({', '.join(sorted(OWN_PATHS))})"
        )
    if http.rate is not None:
        try:
            parse_rate(http.rate, field="http.rate")
        except InvalidInput as fault:
            yield f"{fault.message}; allowed: {fault.allowed}"
