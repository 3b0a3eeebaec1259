"""Runs one command for a person who waits for it: with this process's own standard streams, in the care of a keeper.

Whatever becomes of this process, nothing of the command is left: the keeper ends it, and it does so when the lease ran
out, even while this process is frozen.
"""

import asyncio
import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokimori.errors import Refused
from tokimori.executors.keeper import wire
from tokimori.executors.keeper_process import KeeperProcess, KeeperSettings
from tokimori.model.lease import LEASE, LEASE_KILL

_NUMBER = 1


class ForegroundCommand:
    """The command, from its start to its end. `state_dir` is where the keeper notes that it lives."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._keeper: KeeperProcess | None = None
        self._ended: asyncio.Future[wire.ProcessEnded] | None = None
        self._lease: wire.Lease | None = None
        self._runs = False
        self._signals: list[int] = []

    async def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        """Begin it, bound to the lease that was told last. Raises `Refused` where no keeper starts."""
        stdin = _own_input()
        settings = KeeperSettings(
            state_dir=self._state_dir / "keepers",
            runs_dir=self._state_dir / "runs",
            output_limit=0,
            pidfd=True,
            stdin=stdin,
        )
        self._ended = asyncio.get_running_loop().create_future()
        try:
            self._keeper = await KeeperProcess.start(settings, self._heard, self._lost)
        finally:
            if stdin is not None:
                os.close(stdin)
        order = wire.Start(
            number=_NUMBER,
            argv=list(argv),
            env=dict(env),
            cwd=cwd,
            log="",
            account=None,
            stdin=None,
            timeout=None,
            grace=0.0,
            lease_bound=True,
            foreground=True,
        )
        self._send([order] if self._lease is None else [self._lease, order])

    def renew(self, sent: float) -> None:
        """Renew the lease by a beat sent at this `CLOCK_BOOTTIME` (seconds): its deadlines count from there."""
        self._lease = wire.Lease(sent + LEASE, sent + LEASE_KILL)
        self._send([self._lease])

    def send_signal(self, number: int) -> None:
        """Pass on what came for it; as soon as it runs, where it does not yet."""
        if self._runs:
            self._send([wire.Pass(_NUMBER, number)])
        else:
            self._signals.append(number)

    def end(self) -> None:
        """End it as one whose lease ran out: TERM, then KILL."""
        self._send([wire.Stop(_NUMBER, LEASE_KILL - LEASE)])

    async def ended(self) -> wire.ProcessEnded:
        """Return how the command ended, once nothing of it is left. Raises `Refused` if its keeper was killed."""
        if self._ended is None:
            raise Refused("the command was not started")
        return await self._ended

    async def close(self) -> None:
        """End whatever is left, and the keeper."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await keeper.leave()

    def _send(self, orders: Sequence[wire.Order]) -> None:
        if self._keeper is not None:
            self._keeper.send(orders)

    def _heard(self, notice: wire.Notice) -> None:
        match notice:
            case wire.ProcessStarted():
                self._runs = True
                self._send([wire.Pass(_NUMBER, number) for number in self._signals])
            case wire.ProcessEnded() if self._ended is not None and not self._ended.done():
                self._ended.set_result(notice)
            case _:
                pass

    def _lost(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(Refused("the keeper of the command was killed, and the command with it"))


def _own_input() -> int | None:
    """Return a copy of our standard input, under a number that the keeper's own does not take; None where it is
    closed.
    """
    try:
        return fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        return None
