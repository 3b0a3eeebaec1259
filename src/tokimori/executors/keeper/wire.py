"""Messages between the engine and the keeper: frames of JSON, each a list of messages.

A frame is its length (four bytes, big-endian) and a JSON list; a message is `[kind, field, …]`. Every time is in
seconds of CLOCK_BOOTTIME, so that wall clocks do not matter and both sides agree.
"""

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar


class EndCause(StrEnum):
    """Causes of an attempt's end."""

    EXIT = "exit"
    """By itself."""
    TIMEOUT = "timeout"
    COST = "cost"
    """It used more processors or memory than it may; `error` says how much."""
    STOP = "stop"
    """The engine ordered it, or is gone."""
    LEASE = "lease"
    """The node's lease ran out."""
    NOT_STARTED = "not started"
    """It could not be started; `error` says why."""
    SHORT = "short"
    """The same, because this machine lacked processes, files or memory."""


class Start(NamedTuple):
    """Order to spawn a process; `number` names it in every later message. `account` is (uid, gid, groups) to change to.

    `log` is where its output goes, below the folder of all runs. `lease_bound`: end it when the lease runs out.
    `foreground`: it has the keeper's own standard output and error, and the standard input that the keeper was given.
    `or_root`: if another user can't enter `cwd`, the process starts in the root. `hidden` are texts that are hidden in
    its output. `max_cpu` (seconds) and `max_memory` (MiB) are what its group may use.
    """

    number: int
    argv: list[str]
    env: dict[str, str]
    cwd: str
    log: str
    account: tuple[int, int, list[int]] | None
    stdin: str | None
    timeout: float | None
    grace: float
    lease_bound: bool
    foreground: bool = False
    or_root: bool = False
    hidden: Sequence[str] = ()
    max_cpu: float | None = None
    max_memory: int | None = None


class Stop(NamedTuple):
    """Order to end a process: TERM, after `grace` seconds KILL."""

    number: int
    grace: float


class Pass(NamedTuple):
    """Order to pass a signal on to a process and its group."""

    number: int
    signal: int


class Bind(NamedTuple):
    """Order to bind a process to the lease, or not, as its work has changed."""

    number: int
    lease_bound: bool


class Lease(NamedTuple):
    """Lease: at `term_at` TERM, at `kill_at` KILL, for every process that is bound to it. `Ready` answers it."""

    term_at: float
    kill_at: float


class Shutdown(NamedTuple):
    """Order to end all processes at once, report it, and exit."""


class Ready(NamedTuple):
    """Report that the keeper takes orders, and has ended the processes that dead keepers had left."""

    pid: int


class ProcessStarted(NamedTuple):
    """Report of a process that has been running since `at`."""

    number: int
    pid: int
    at: float


class OutputGrew(NamedTuple):
    """New output of a process: `size` bytes so far, the last of them in `tail`, and its `times` (both base64)."""

    number: int
    size: int
    tail: str
    times: str = ""


class ProcessEnded(NamedTuple):
    """End of a process that has left no others. `status` is its exit code, or minus the signal that ended it.

    `at` is when it exited. `status` is None if it never began; `head`, `tail` and `times` are base64. `cpu`
    (microseconds) and `memory` (bytes) are what it and its children cost, None if that is unknown.
    """

    number: int
    at: float
    status: int | None
    cause: str
    error: str
    size: int
    head: str
    tail: str
    times: str = ""
    cpu: int | None = None
    memory: int | None = None


Order = Start | Stop | Pass | Bind | Lease | Shutdown
"""Messages of the engine."""
Notice = Ready | ProcessStarted | OutputGrew | ProcessEnded
"""Messages of the keeper."""

_M = TypeVar("_M", bound=Order | Notice)

ORDERS: Mapping[str, Callable[..., Order]] = {
    "start": Start,
    "stop": Stop,
    "pass": Pass,
    "bind": Bind,
    "lease": Lease,
    "shutdown": Shutdown,
}
NOTICES: Mapping[str, Callable[..., Notice]] = {
    "ready": Ready,
    "started": ProcessStarted,
    "grew": OutputGrew,
    "ended": ProcessEnded,
}
_KIND: Mapping[object, str] = {message: kind for kind, message in (*ORDERS.items(), *NOTICES.items())}


def encode(messages: Iterable[Order | Notice]) -> bytes:
    """Return the messages as one frame."""
    body = json.dumps([[_KIND[type(message)], *message] for message in messages], separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + body


class Frames(Generic[_M]):
    """Assembly of frames from the pieces that arrive."""

    def __init__(self, kinds: Mapping[str, Callable[..., _M]]) -> None:
        self._kinds = kinds
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[_M]:
        """Return the messages that are complete with this piece."""
        rest = self._rest
        rest += data
        messages: list[_M] = []
        while len(rest) >= 4 and len(rest) >= 4 + (length := int.from_bytes(rest[:4], "big")):
            messages += [self._kinds[kind](*fields) for kind, *fields in json.loads(rest[4 : 4 + length])]
            del rest[: 4 + length]
        return messages


def to_text(data: bytes) -> str:
    """Return bytes as a text (base64), as messages have them."""
    return b2a_base64(data, newline=False).decode() if data else ""


def to_bytes(text: str) -> bytes:
    """Return the bytes of a text that `to_text` made."""
    return a2b_base64(text) if text else b""
