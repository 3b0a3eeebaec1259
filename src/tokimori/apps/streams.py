"""Streams that lead what functions print and log to the output of their run."""

import codecs
import ctypes
import io
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from tokimori.apps.task import task_in_hand

if TYPE_CHECKING:
    from tokimori.apps.attempt import RunningAttempt

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MOST_NAMED = 5
_MOST_READ, _MOST_READS = 2**16, 2**8
"""Bytes at a time, and how often at once: a child may write faster than they are read."""
_PUNCH_HOLE = 3
"""FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE: see fallocate(2)."""
_STDOUT = 1


class RunStream(io.TextIOBase):
    """Stream in place of standard output or error.

    Output of a function goes to its run, all other output where it went before; with `both` that of functions, too.
    `outputs` finds the run of output from elsewhere.
    """

    def __init__(self, otherwise: TextIO, outputs: "Outputs | None" = None, *, both: bool = False) -> None:
        self._otherwise = otherwise
        self._outputs = outputs
        self._both = both

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the encoding of texts that a run keeps."""
        return "utf-8"

    @property
    def buffer(self) -> "io.RawIOBase":
        """Return the same for bytes, as programs have it that choose how their output is encoded."""
        return _Bytes(self)

    def detach(self) -> "BinaryIO":
        """Return the same, for programs that put another text stream around it."""
        return cast("BinaryIO", self.buffer)

    @property
    def line_buffering(self) -> bool:
        """Return True, for programs that make another stream like this one."""
        return True

    def reconfigure(self, **_: object) -> None:
        """Change nothing: a run keeps UTF-8, line by line."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Write the text; how many characters."""
        task = task_in_hand()
        if task is not None:
            task.write(text)
        if task is None and self._outputs is not None:
            self._outputs.write(text, self._otherwise)
        elif task is None or self._both:
            self._otherwise.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream of the process: nothing that runs write is held back."""
        self._otherwise.flush()

    def close(self) -> None:
        """Stay open, for later output."""
        with suppress(ValueError):  # as a program ends that of the process may be closed before
            self.flush()

    def fileno(self) -> int:
        """Return the descriptor of the process, for libraries that ask for it."""
        return self._otherwise.fileno()


class _Bytes(io.RawIOBase):
    """A stream of bytes that are UTF-8, or are shown as well as can be."""

    def __init__(self, stream: RunStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: object) -> int:
        """Write the bytes; how many."""
        found = bytes(cast("bytes", data))
        self._stream.write(self._decoder.decode(found))
        return len(found)

    def flush(self) -> None:
        """Hold nothing back."""
        self._stream.flush()

    def fileno(self) -> int:
        """See `RunStream`."""
        return self._stream.fileno()


class Outputs:
    """The output of a worker process, and the attempts to which it may belong, by their numbers.

    Threads that a function has begun, writes to descriptor 1, and children that inherit it have no run. Their output
    belongs to the only running attempt; if there are several the log of the process names them. To look for it takes
    as long as a no-op, so nobody looks at the end of an attempt beside others: it is `_lately` ended until the next
    look.
    """

    def __init__(self) -> None:
        self.attempts: dict[int, RunningAttempt] = {}
        self._lately: list[RunningAttempt] = []
        self._rests = threading.local()
        self._read = 0
        self._lock = threading.RLock()  # a handler of a signal may end the process within
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._file: int | None = None
        self._size = ctypes.PyDLL(None).lseek
        """Unlike `os.lseek` it keeps the interpreter's lock: to get that back costs more than a no-op."""
        self._size.restype, self._start = ctypes.c_ssize_t, ctypes.c_ssize_t(0)
        self._otherwise = sys.stderr
        self._held: tuple[TextIO, TextIO] | None = None

    def take_over(self) -> None:
        """Replace the streams of the process, so that modules imported from now on print and log to runs.

        Descriptor 1 becomes a file in memory, not a pipe: a writer that lets no other thread run would wait for ever
        once the pipe is full. Descriptor 2 stays: a dying process writes its reason there.
        """
        import fcntl  # noqa: PLC0415  programs on other systems have none, and come here for no worker process

        self._file = os.memfd_create("tokimori-output")
        fcntl.fcntl(self._file, fcntl.F_SETFL, os.O_APPEND)
        os.dup2(self._file, _STDOUT)
        sys.stdout, sys.stderr = (cast("TextIO", RunStream(self._otherwise, self)) for _ in range(2))
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[assignment, misc]  # handlers name them

    def hold(self) -> None:
        """See that the app, which is loaded now, has left streams; log to runs, unless it has set up logging itself."""
        for name in ("stdout", "stderr"):
            if not isinstance(found := getattr(sys, name), RunStream):
                setattr(sys, name, RunStream(found or self._otherwise, self))
        self._held = sys.stdout, sys.stderr
        root = logging.getLogger()
        if not root.handlers:
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(logging.Formatter(FORMAT))
            root.addHandler(handler)
            root.setLevel(logging.INFO)

    def put_back(self) -> None:
        """Put back the streams that earlier attempts have replaced, while none runs."""
        if self._held is not None:
            sys.stdout, sys.stderr = self._held

    def write(self, text: str, otherwise: TextIO, lately: "Sequence[RunningAttempt]" = ()) -> None:
        """Write output that belongs to no function; in whole lines if several attempts run, or ended `lately`."""
        running = [each for each in list(self.attempts.values()) if not each.is_over]
        found = list(dict.fromkeys([*lately, *running]))
        is_sure = found == running and len(found) == 1
        if found and not is_sure:
            lines, end, rest = (getattr(self._rests, "text", "") + text).rpartition("\n")
            self._rests.text = rest
            names = ", ".join(f"{each.begin.job_id} {each.begin.run_id}" for each in found[:_MOST_NAMED])
            more = "" if len(found) <= _MOST_NAMED else f" or {len(found) - _MOST_NAMED} more"
            text = "".join(f"(of one of the runs {names}{more}) {line}\n" for line in lines.split("\n")) if end else ""
        if is_sure:
            found[0].write(text)
        elif text:
            otherwise.write(text)

    def ends(self, attempt: "RunningAttempt") -> None:
        """Pass on that output before an attempt is over; of one beside others it is soon enough at `gather_late`."""
        if len(self.attempts) > 1:
            self._lately.append(attempt)
        else:
            self.gather()

    def gather_late(self) -> None:
        """Pass on the output of attempts that ended beside others."""
        if self._lately:
            self.gather()

    def gather(self) -> None:
        """Pass on the output to descriptor 1 since the last call."""
        lately, self._lately = self._lately, []
        try:
            if self._file is not None and self._size(self._file, self._start, os.SEEK_END) != self._read:
                self._read_on(self._file, lately)
        except OSError:  # the app has closed all that it did not open
            self._file = None

    def _read_on(self, file: int, lately: "Sequence[RunningAttempt]") -> None:
        with self._lock:  # another thread may have read past the size that was seen before
            size = self._size(file, self._start, os.SEEK_END)
            if size < self._read:  # a child has opened /dev/stdout anew, which empties a file
                self._read = 0
            for _ in range(_MOST_READS):
                data = os.pread(file, _MOST_READ, self._read)
                self._read += len(data)
                self.write(self._decode(data), self._otherwise, lately)
                if len(data) < _MOST_READ:
                    break
            _give_back(file, self._read)


def _give_back(file: int, size: int) -> None:
    """Free the memory of the first `size` bytes of the file. Its size stays, as other processes append to it."""
    ctypes.CDLL(None).fallocate(file, _PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(size))


@contextmanager
def kept_streams() -> Iterator[None]:
    """Store the output and logs of functions with their runs, and pass them to the old streams, too.

    The streams of the program, and those of its log handlers, are replaced until the end.
    """
    before = {"stdout": sys.stdout, "stderr": sys.stderr}
    ours = {name: cast("TextIO", RunStream(stream, both=True)) for name, stream in before.items()}
    instead = {id(before[name]): ours[name] for name in before}
    moved = [(handler, handler.stream) for handler in _stream_handlers() if id(handler.stream) in instead]
    for handler, stream in moved:
        handler.setStream(instead[id(stream)])
    sys.stdout, sys.stderr = ours["stdout"], ours["stderr"]
    try:
        yield
    finally:
        for name, stream in before.items():
            if getattr(sys, name) is ours[name]:
                setattr(sys, name, stream)
        for handler in _stream_handlers():
            for name, stream in before.items():
                if handler.stream is ours[name]:
                    handler.setStream(stream)


def _stream_handlers() -> "list[logging.StreamHandler[TextIO]]":
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    found = {id(each): each for logger in loggers if isinstance(logger, logging.Logger) for each in logger.handlers}
    return [each for each in found.values() if isinstance(each, logging.StreamHandler)]


def open_standard_streams() -> None:
    """Open the standard streams again. Else the next opened file, here or in a child, would receive the output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
