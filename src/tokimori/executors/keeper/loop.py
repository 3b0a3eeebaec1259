"""Loop of the keeper: it waits for descriptors, exits of children, and a moment at once."""

import os
import select
import threading
from collections.abc import Callable
from math import inf

from .kernel import boottime

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
        """Also call back when the descriptor can be written again, if `wanted`."""
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
