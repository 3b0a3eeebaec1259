"""Messages between the engine and a worker process: frames of MessagePack, each a list of messages.

A frame is its length (four bytes, big-endian) and the list. Times are moments, as `Begin` has them, or else seconds of
CLOCK_BOOTTIME.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from tokimori.clock import Moment
from tokimori.executors.keeper.output import EDGE
from tokimori.executors.reported import MOST_TEXT

MOST_FRAME: Final = 64 * 2**20
"""Bytes of a frame: the sender of a larger one is no worker of ours."""
MOST_SAID, MOST_ENDED = 2**20, 8 * 2**20
"""Bytes of several messages, and of a frame behind the hello of a worker process: an end may spawn many runs.

To look through 64 MiB took the node half a second.
"""
MOST_MESSAGES: Final = 1024
"""Messages in a frame, which are taken in one step."""
MOST_OUTPUT: Final = 10 * 2**20
"""Bytes of an attempt's output that its file holds; of more it has the first ones, a gap, and the last ones."""

Text = Annotated[str, Meta(max_length=MOST_TEXT)]
Size = Annotated[int, Meta(ge=0, le=2**62)]
Edge = Annotated[bytes, Meta(max_length=EDGE)]


@contextmanager
def by_descriptor(socket: Path) -> Iterator[str]:
    """Yield the address of a socket, which has 107 bytes, however long its path is. Raises `OSError`."""
    folder = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{socket.name}"
    finally:
        os.close(folder)


# Without `gc`, as `FunctionEnded` below, and what `ports.working` has.
class Facts(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Facts for a function about its attempt. `deadline` is the end of its time.

    `checkpoint` is that of an earlier attempt. `is_inherited`: the payload is the parent run's result.
    """

    job_id: str
    run_id: str
    attempt: int
    token: int
    scheduled_at: Moment
    due_at: Moment
    payload: str | None = None
    is_inherited: bool = False
    checkpoint: str | None = None
    deadline: Moment | None = None
    parent_run_id: str | None = None
    traceparent: str | None = None


class Begin(Facts, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="begin"):
    """Order to run a function: a new attempt, `number` in every later message.

    Without `returning_succeeds` it has to say how it ended. `alone`: no other attempt is ever in this process.
    """

    number: int
    handler: str
    alone: bool = False
    returning_succeeds: bool = True


class End(Struct, frozen=True, kw_only=True, tag="end"):
    """Order to end an attempt, because of `why`.

    It is interrupted if that is possible. `lost`: the run is no longer this node's, so its reports do not count.
    """

    number: int
    why: str
    lost: bool = False


class SendSignal(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tell"):
    """A signal for an attempt: its name, and data as JSON."""

    number: int
    name: str
    data: str | None = None


class Ping(Struct, frozen=True, tag="ping"):
    """Question of the node whether the loop of the process runs."""


class Renew(Struct, frozen=True, tag="renew"):
    """Lease of the node: `until` then (seconds of CLOCK_BOOTTIME) what the node gave may begin.

    It goes ahead of what it counts for, and again with each beat: a process that was frozen begins nothing that may be
    another node's by now.
    """

    until: float


class Leave(Struct, frozen=True, tag="leave"):
    """Order to take no more, and to exit when nothing runs."""


class Declared(Struct, frozen=True, kw_only=True):
    """A job that the app declares: its id, and its fields as `add` takes them."""

    id: str
    fields: dict[str, Any]


class Hello(Struct, frozen=True, kw_only=True, tag="hello"):
    """First message of a worker process that is ready: its `number`, and the content of its app.

    `handlers` are names, `patterns` regular expressions for whole names. `vanished` says what becomes of jobs that the
    app declared once and does not any more, `version` which version of the app this is. `stops`: it has something to do
    before it exits. `language` is that of its code, `stacks` the descriptor of its file of stacks; -1: it has none.
    """

    number: int
    pid: int
    app: str
    handlers: list[str]
    patterns: list[str]
    jobs: list[Declared]
    vanished: str = "report"
    version: str = ""
    stops: bool = False
    language: str = ""
    stacks: int = -1


class Pong(Struct, frozen=True, tag="pong"):
    """The answer to a `Ping`."""


class Unloadable(Struct, frozen=True, kw_only=True, tag="unloadable"):
    """Message in place of a hello: the app can't be loaded. `message` gives the reason, `allowed` the valid forms."""

    number: int
    message: str
    allowed: str | None = None


class FunctionGrew(Struct, frozen=True, kw_only=True, tag="grew"):
    """New output of an attempt: `size` bytes so far, the last of them in `tail`; `times` as in a keeper's notices."""

    number: int
    size: Size
    tail: Edge
    times: Edge = b""


class Noted(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="noted"):
    """Notes of the attempt so far: its progress (0 to 1, and a text), and its checkpoint (JSON)."""

    number: int
    progress: Annotated[float, Meta(ge=0, le=1)] | None = None
    text: Text | None = None
    checkpoint: Text | None = None


class FunctionEnded(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="ended"):
    """End of an attempt. `end` is one of `ENDS`; `text` its result, error or reason; `when` what a retry waits for.

    `when` is seconds for `failed in` and `retry in`, a moment for `retry at`. `size`, `head`, `tail` and `times` are of
    its output. `cpu` (microseconds of processors) and `memory` (bytes at its peak) are what it cost, None if that can't
    be known. `exits`: it ends its process right now. `spawned` are job and payload of the runs that it waits for.
    """

    number: int
    began: float
    at: float
    end: str
    text: Text | None = None
    when: float = 0
    size: Size = 0
    head: Edge = b""
    tail: Edge = b""
    times: Edge = b""
    exits: bool = False
    cpu: Size | None = None
    memory: Size | None = None
    spawned: tuple[tuple[Text, str | None], ...] = ()


SUCCEEDED, FAILED, FAILED_IN, FINAL, RETRY, RETRY_IN, RETRY_AT, HELD, RELEASED, SHORT, LATE, SPAWNED = (
    "succeeded",
    "failed",
    "failed in",
    "final",
    "retry",
    "retry in",
    "retry at",
    "held",
    "released",
    "short",
    "late",
    "spawned",
)
ENDS = (SUCCEEDED, FAILED, FAILED_IN, FINAL, RETRY, RETRY_IN, RETRY_AT, HELD, RELEASED, SHORT, LATE, SPAWNED)
"""`SHORT`: it did not begin, as this machine gave no thread or no memory; `text` says which. `LATE`: nor did this, as
the lease of its node was over."""

ToWorker = Begin | End | SendSignal | Ping | Renew | Leave
"""What the engine says."""
FromWorker = Hello | Pong | Unloadable | FunctionGrew | Noted | FunctionEnded
"""What a worker process says."""


@cache
def language() -> str:
    """Return a digest of all messages, their fields and the defaults.

    A worker process and its node may have two versions of this module: one of them was started after an upgrade. A
    message that comes to mean something else gets another name, or another field.
    """
    kinds = (*get_args(ToWorker), *get_args(FromWorker), Declared)
    words = [(kind.__struct_config__.tag, kind.__struct_config__.array_like, fields(kind)) for kind in kinds]
    return sha256(str((words, ENDS)).encode()).hexdigest()[:16]


class NotUnderstood(ValueError):
    """Fault of a frame (`body`) that holds something else than messages."""

    def __init__(self, why: str, body: bytes) -> None:
        super().__init__(why)
        self.body = body


class _Stranger(Struct, frozen=True):
    """Part of a hello that this version does not understand as a whole."""

    type: Literal["hello"]
    number: int


def stranger_in(body: bytes) -> int | None:
    """Return the number in a hello of any version, alone in its frame; None if it is no hello."""
    hello: _Stranger
    try:
        (hello,) = msgspec.msgpack.decode(body, type=Annotated[list[_Stranger], Meta(min_length=1, max_length=1)])
    except (msgspec.DecodeError, RecursionError):
        return None
    return hello.number


_M = TypeVar("_M", bound=Struct)
_encoder = msgspec.msgpack.Encoder()


def frame(messages: Iterable[ToWorker | FromWorker]) -> bytes:
    """Return the messages as a frame; as several, if they are many or large."""
    parts = list(messages)
    body = _encoder.encode(parts)
    if len(parts) > MOST_MESSAGES or (len(body) > MOST_SAID and len(parts) > 1):
        half = len(parts) // 2
        return frame(parts[:half]) + frame(parts[half:])
    return len(body).to_bytes(4, "big") + body


class Frames(Generic[_M]):
    """Reader of frames that arrive in pieces. `most`: the largest number of bytes of a frame."""

    def __init__(self, kind: Any) -> None:
        self.most = MOST_FRAME
        self._decoder = msgspec.msgpack.Decoder(Annotated[list[kind], Meta(max_length=MOST_MESSAGES)])
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[_M]:
        """Return the messages that are complete with this piece. Raises `ValueError` for an invalid frame."""
        rest = self._rest
        rest += data
        messages: list[_M] = []
        begin = 0
        while len(rest) - begin >= 4:
            length = int.from_bytes(rest[begin : begin + 4], "big")
            if length > self.most:
                raise ValueError(f"a frame of {length} bytes")
            if len(rest) - begin < 4 + length:
                break
            messages += self._decoded(bytes(rest[begin + 4 : begin + 4 + length]))
            begin += 4 + length
        del rest[:begin]
        return messages

    def _decoded(self, body: bytes) -> list[_M]:
        try:
            found: list[_M] = self._decoder.decode(body)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        except msgspec.DecodeError as fault:
            raise NotUnderstood(str(fault), body) from None
        return found
