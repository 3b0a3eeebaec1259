"""Kala's client for programs: docs/coming-from/kala.md names every call of the Go client with ours.

from tokimori.kala import KalaClient

kala = KalaClient("http://127.0.0.1:8000", secret="…")
job_id = kala.create_job({"name": "report", "command": "make report", "schedule": "R/2030-01-01T00:00:00Z/P1D"})
print(kala.get_job(job_id).next_run_at)
"""

import http.client
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import msgspec

from tokimori.errors import InvalidInput, StoreUnavailable
from tokimori.errors import InvalidInput as JobCreationError
from tokimori.errors import NotFound as JobNotFound
from tokimori.errors import Refused as GenericError
from tokimori.foreign.kala.shapes import (
    PREFIX,
    Created,
    JobAnswer,
    JobsAnswer,
    JobStat,
    KalaFault,
    KalaStats,
    KalaStatsAnswer,
    Metadata,
    Remote,
    StatsAnswer,
)
from tokimori.foreign.kala.shapes import KalaJob as Job

__all__ = [
    "GenericError",
    "Job",
    "JobCreationError",
    "JobNotFound",
    "JobStat",
    "KalaClient",
    "KalaStats",
    "Metadata",
    "Remote",
]

Send = Callable[[str, str, bytes], tuple[int, bytes]]
"""Sends a request (method, path, body) and gives status and body of the answer."""

_Answer = TypeVar("_Answer")


class KalaClient:
    """Every call of Kala's Go client. Each raises `GenericError` for an answer that it does not expect.

    `url` is the address of the server; that of a node may carry its secret (`?secret=`), as `tokimori node address`
    prints it, or `secret` is given. A server that does not answer within `timeout` seconds raises `StoreUnavailable`;
    `start_job` waits for as long as the job runs, so that there is no such time unless one is given. `send` takes the
    place of the network in tests.
    """

    def __init__(
        self, url: str, *, secret: str | None = None, timeout: float | None = None, send: Send | None = None
    ) -> None:
        self._send = send or Sender(url, secret, timeout)

    def create_job(self, job: Mapping[str, object]) -> str:
        """Create a job from its members in Kala's JSON; its id. Raises `JobCreationError`, which says why."""
        status, body = self._send("POST", f"{PREFIX}job/", msgspec.json.encode(job))
        if status != 201:
            raise JobCreationError(_why(status, body), allowed="a job as docs/coming-from/kala.md describes it")
        return _read(body, Created).id

    def get_job(self, job_id: str) -> Job:
        """Return the job. Raises `JobNotFound`."""
        return _read(self._ask("GET", f"job/{quote(job_id, safe='')}/", 200, job_id), JobAnswer).job

    def get_all_jobs(self) -> Mapping[str, Job]:
        """Return all jobs, by id."""
        return _read(self._ask("GET", "job/", 200), JobsAnswer).jobs

    def delete_job(self, job_id: str) -> None:
        """Delete the job, and those that run after it alone. Raises `JobNotFound`."""
        self._ask("DELETE", f"job/{quote(job_id, safe='')}/", 204, job_id)

    def delete_all_jobs(self) -> None:
        """Delete all jobs that were created by this API."""
        self._ask("DELETE", "job/all/", 204)

    def get_job_stats(self, job_id: str) -> Sequence[JobStat]:
        """Return the runs of the job that have ended, the oldest first. Raises `JobNotFound`."""
        return _read(self._ask("GET", f"job/stats/{quote(job_id, safe='')}/", 200, job_id), StatsAnswer).job_stats or ()

    def start_job(self, job_id: str) -> None:
        """Run the job now, and wait until it and all that runs after it have ended. Raises `JobNotFound`."""
        self._order("start", job_id)

    def enable_job(self, job_id: str) -> None:
        """Enable the job. Raises `JobNotFound`."""
        self._order("enable", job_id)

    def disable_job(self, job_id: str) -> None:
        """Disable the job: it does not run until it is enabled. Raises `JobNotFound`."""
        self._order("disable", job_id)

    def get_kala_stats(self) -> KalaStats:
        """Return all jobs together."""
        return _read(self._ask("GET", "stats/", 200), KalaStatsAnswer).stats

    def _order(self, word: str, job_id: str) -> None:
        self._ask("POST", f"job/{word}/{quote(job_id, safe='')}/", 204, job_id)

    def _ask(self, method: str, path: str, expected: int, job_id: str | None = None) -> bytes:
        status, body = self._send(method, PREFIX + path, b"")
        if status == 404 and job_id is not None:
            raise JobNotFound(f"there is no job {job_id!r}", field="id", value=job_id)
        if status != expected:
            raise GenericError(_why(status, body))
        return body


class Sender:
    """Sends requests to a server, each over a connection of its own."""

    def __init__(self, url: str, secret: str | None, timeout: float | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            allowed = "http://host:port or https://host:port"
            raise InvalidInput(f"url: {url!r} is no address", field="url", value=url, allowed=allowed)
        given = secret or parse_qs(parts.query).get("secret", [None])[-1]
        self._address = parts.netloc.rpartition("@")[2]
        self._path = parts.path.rstrip("/")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json"}
        if given:
            self._headers["Authorization"] = f"Bearer {given}"

    def __call__(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request. Raises `StoreUnavailable`."""
        connection = self._kind(self._address, timeout=self._timeout)
        try:
            connection.request(method, self._path + path, body or None, self._headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as fault:
            why = str(fault) or type(fault).__name__
            raise StoreUnavailable(f"the server at {self._address} does not answer: {why}") from None
        finally:
            connection.close()


def _read(body: bytes, kind: type[_Answer]) -> _Answer:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise GenericError(f"the server's answer can't be read by this version: {fault}") from None


def _why(status: int, body: bytes) -> str:
    """Return the server's message: its `error`, or (Kala of 2015) the text itself."""
    try:
        text = msgspec.json.decode(body, type=KalaFault).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body[:500].decode(errors="replace").strip()
    return text or f"the server answered with HTTP status {status}"
