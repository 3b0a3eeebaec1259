"""Loop of the keeper: it waits for descriptors, exits of children and a moment at once. Its channel to the node."""

import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from math import inf

from .kernel import boottime
from .wire import ORDERS, Frames, Notice, Order, encode

_LONGEST = 1.0
"""Seconds of sleep at most while a moment is awaited: epoll's time stands still while the machine sleeps."""


class Loop:
    """One epoll, level-triggered."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call back whenever the descriptor can be read or has ended."""
        self._callbacks[descriptor] = callback
        self._epoll.register(descriptor, select.EPOLLIN)

    def forget(self, descriptor: int) -> None:
        """Forget a descriptor before it is closed, which takes it out of the epoll: no child has a copy (O_CLOEXEC)."""
        self._callbacks.pop(descriptor, None)

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor that stays open."""
        self.forget(descriptor)
        self._epoll.unregister(descriptor)

    def watch_room(self, descriptor: int, *, wanted: bool) -> None:
        """Call back also when the descriptor can be written again, if `wanted`."""
        self._epoll.modify(descriptor, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def wait(self, until: float) -> None:
        """Sleep until something happens, or until that moment (seconds since boot; `inf`: for ever), and call back."""
        patience = -1 if until == inf else min(max(until - boottime(), 0), _LONGEST)
        for descriptor, _ in self._epoll.poll(patience):
            callback = self._callbacks.get(descriptor)
            if callback is not None:  # none if another callback of this round has closed it
                callback()


class Exits:
    """Watch of exits by a pidfd for each child (Linux 5.3)."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def watch(self, pid: int, callback: Callable[[], None]) -> int | None:
        """Call back when the child has exited; return the descriptor for `forget`."""
        descriptor = os.pidfd_open(pid)
        self._loop.watch(descriptor, callback)
        return descriptor

    def forget(self, pid: int, descriptor: int | None) -> None:
        """Forget a child that has been collected."""
        if descriptor is not None:
            self._loop.forget(descriptor)
            os.close(descriptor)


class WaiterThread(Exits):
    """Watch of exits by one thread that waits for all children, if there is no pidfd.

    It only looks (WNOWAIT) and leaves collecting to the loop, then rests until the loop has done so.
    """

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._collected = threading.Event()
        self._bell, self._ring = os.pipe2(os.O_CLOEXEC)
        loop.watch(self._bell, self._exited)
        threading.Thread(target=self._wait, daemon=True).start()

    def watch(self, pid: int, callback: Callable[[], None]) -> int | None:
        """Call back when the child has exited."""
        self._callbacks[pid] = callback
        self._collected.set()
        return None

    def forget(self, pid: int, descriptor: int | None) -> None:
        """Forget a child that has been collected."""
        self._callbacks.pop(pid, None)

    def _wait(self) -> None:
        while True:
            self._collected.clear()
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
                os.write(self._ring, b"!")
            except ChildProcessError:
                pass  # no child at all: wait for the next one
            self._collected.wait()

    def _exited(self) -> None:
        os.read(self._bell, 64)
        try:
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                callback = self._callbacks.get(found.si_pid)
                if callback is None:
                    os.waitpid(found.si_pid, os.WNOHANG)  # an orphan that this process has adopted
                else:
                    callback()
        except ChildProcessError:
            pass
        self._collected.set()


def exits_of(loop: Loop, *, pidfd: bool) -> Exits:
    """Return the best way to notice exits that this kernel offers; `pidfd` false: by the thread."""
    try:
        if pidfd:
            os.close(os.pidfd_open(os.getpid()))
            return Exits(loop)
    except (AttributeError, OSError):
        pass
    return WaiterThread(loop)


_FRAME = 64
"""The most messages in one frame. It bounds the memory of a frame, and how long the engine is busy with it."""


class Channel:
    """Channel for orders and notices, in frames. Notices that the engine does not take wait here."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._frames: Frames[Order] = Frames(ORDERS)
        self._notices: deque[Notice] = deque()
        self._partly = memoryview(b"")
        self.open = True

    def fileno(self) -> int:
        """Return the descriptor to watch."""
        return self._socket.fileno()

    @property
    def backlog(self) -> bool:
        """Return if the engine is behind: then optional notices are left out."""
        return bool(self._partly)

    @property
    def waiting(self) -> bool:
        """Return whether there is something to send."""
        return bool(self._partly or self._notices)

    def queue(self, notice: Notice) -> None:
        """Queue a notice for the next `flush`."""
        if self.open:
            self._notices.append(notice)

    def receive(self) -> list[Order]:
        """Return the orders that have arrived. Clears `open` when the engine is gone."""
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._lost()
        return self._frames.feed(data)

    def flush(self) -> None:
        """Send as much as the socket takes."""
        try:
            while self.waiting:
                if not self._partly:
                    self._partly = memoryview(encode(self._next_batch()))
                self._partly = self._partly[self._socket.send(self._partly) :]
        except BlockingIOError:
            pass
        except OSError:
            self._lost()

    def close(self) -> None:
        """Close the channel."""
        self._lost()
        self._socket.close()

    def _next_batch(self) -> list[Notice]:
        return [self._notices.popleft() for _ in range(min(_FRAME, len(self._notices)))]

    def _lost(self) -> None:
        self.open = False
        self._notices.clear()
        self._partly = memoryview(b"")
