"""A keeper's post is filled, whatever this machine lacks for a while."""

import asyncio
from itertools import count
from typing import cast

import pytest

from tests.simulation.virtual_time import let_pass, run_virtually
from tokimori.executors import keeper_post
from tokimori.executors.keeper.wire import Lease
from tokimori.executors.keeper_post import DISK_AFTER, ENDED_AFTER, TOLD_AFTER, KeeperPost
from tokimori.executors.keeper_process import KeeperProcess, KeeperSettings


class Unready:
    """A keeper that can be neither started nor buried twice, and then can."""

    pid = 7

    def __init__(self) -> None:
        self.faults: list[Exception] = [OSError("too many open files"), RuntimeError("can't start new thread")]

    async def start(self, *_: object) -> "Unready":
        """See `KeeperProcess.start`."""
        if self.faults:
            raise self.faults.pop()
        return self

    async def bury(self) -> int:
        """See `KeeperProcess.bury`."""
        if self.faults:
            raise self.faults.pop()
        return -9


def post_of(keeper: Unready, monkeypatch: pytest.MonkeyPatch) -> KeeperPost:
    """A post that this keeper fills."""
    monkeypatch.setattr(KeeperProcess, "start", keeper.start)
    return KeeperPost(cast("KeeperSettings", None), 0, lambda _post, _notice: None, lambda _post: None)


def test_a_keeper_starts_when_the_machine_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a lack of files or threads nor a burial that failed leaves a node without a keeper."""

    async def scenario() -> None:
        async def fail() -> None:
            raise OSError("no burial")

        keeper = Unready()
        post = post_of(keeper, monkeypatch)
        post.open_later(0.0, asyncio.get_running_loop().create_task(fail()))
        await let_pass(10)
        assert await post.bury() == (7, -9)

    run_virtually(scenario())


def test_a_burial_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a dead keeper has left is ended as soon as the machine can."""

    async def scenario() -> None:
        keeper = Unready()
        faults, keeper.faults = keeper.faults, []
        post = post_of(keeper, monkeypatch)
        await post.open()
        keeper.faults = faults
        assert await post.bury() == (7, -9)

    run_virtually(scenario())


class Silent(Unready):
    """A keeper that does not answer."""

    def __init__(self) -> None:
        self.faults: list[Exception] = []
        self.silence, self.killed = 0.0, 0

    def silent_for(self) -> float:
        """See `KeeperProcess.silent_for`."""
        return self.silence

    def kill(self) -> None:
        """See `KeeperProcess.kill`."""
        self.killed += 1

    def send(self, orders: object) -> None:
        """See `KeeperChannel.send`."""


@pytest.mark.parametrize(
    ("waits", "after", "told"),
    [(False, ENDED_AFTER, "it is stopped, or hangs"), (True, DISK_AFTER, "it waits for a disk or a file server")],
)
def test_a_keeper_that_waits_for_a_disk_is_given_longer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, waits: bool, after: float, told: str
) -> None:
    """A file server that hangs for some minutes costs no run; what really stands still is killed as before."""
    monkeypatch.setattr(keeper_post, "waits_for_disk", lambda _pid: waits)
    keeper, numbers = Silent(), count(1.0)
    post = post_of(keeper, monkeypatch)

    async def killed_at(*silences: float) -> list[int]:
        await post.open()
        found = []
        for keeper.silence in silences:
            post.send([], Lease(at := next(numbers), at))
            found.append(keeper.killed)
        return found

    assert run_virtually(killed_at(TOLD_AFTER, after - 1, after)) == [0, 0, 1]
    assert caplog.text.count(f"keeper 7 does not answer: {told}; runs of functions") == 1
