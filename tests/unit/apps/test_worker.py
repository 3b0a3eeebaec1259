"""A worker whose settings a function of its program gives, and the nodes that it has."""

import io
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from tokimori.apps.worker import Worker, _Said


class NobodyReads(io.StringIO):
    """Standard output behind `| head -1`."""

    def write(self, _: str) -> int:
        """It has gone."""
        raise BrokenPipeError


def test_who_reads_no_more_keeps_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node says may be read by nobody: it still is heard that it works, and that it has ended."""
    worker, node = Worker("jobs:app"), SimpleNamespace(stdout=["works\n", "stops\n"], wait=lambda: 0)
    monkeypatch.setattr(sys, "stdout", NobodyReads())
    worker._listen(cast("subprocess.Popen[str]", node))
    assert [cast(_Said, worker._events.get_nowait()).works for _ in range(2)] == [True, False]


class Node:
    """A node of a worker, as far as that sees it."""

    def __init__(self, code: int) -> None:
        self.returncode = code
        self.told: list[int] = []

    def send_signal(self, number: int) -> None:
        """See `subprocess.Popen`."""
        self.told.append(number)

    def terminate(self) -> None:
        """See `subprocess.Popen`."""
        self.send_signal(signal.SIGTERM)

    @property
    def works(self) -> _Said:
        """Its first line."""
        return _Said(cast("subprocess.Popen[str]", self), works=True)

    @property
    def gone(self) -> _Said:
        """It has ended."""
        return _Said(cast("subprocess.Popen[str]", self), works=False)


def a_worker(nodes: Sequence[Node], event: Sequence[signal.Signals | _Said], *config: BaseException | None) -> Worker:
    """One that starts these nodes and hears this; each time that settings are asked for, this is raised (None: not)."""
    left, faults = list(nodes), list(config)

    def settings() -> Mapping[str, object]:
        if (fault := faults.pop(0)) is not None:
            raise fault
        return {}

    worker = Worker("jobs:app", config=settings)
    setattr(worker, "_started", lambda *_: left.pop(0))  # noqa: B010  mypy knows that it is a method
    for each in event:
        worker._events.put(each)
    return worker


@pytest.mark.parametrize("fault", [ValueError("no settings"), SystemExit("no settings")])
def test_a_node_that_can_not_be_replaced_ends_the_worker(fault: BaseException) -> None:
    """When those before it have ended, too: what `config` has raised is told then, and nobody is left behind."""
    one, two = Node(0), Node(-9)
    worker = a_worker([one, two], [one.works, signal.SIGHUP, two.works, two.gone, one.gone], None, None, fault)
    with pytest.raises(type(fault), match="no settings"):
        worker.run()
    assert (worker._events.empty(), one.told) == (True, [signal.SIGTERM])


@pytest.mark.parametrize("fault", [ValueError("no settings"), SystemExit("no settings")])
@pytest.mark.parametrize("works", [True, False])
def test_settings_that_can_not_be_asked_for_end_no_node(fault: BaseException, works: bool) -> None:
    """Neither one that works nor one that is still to say so."""
    one = Node(3)
    event: list[signal.Signals | _Said] = [one.works, signal.SIGHUP]
    if not works:
        event.reverse()
    worker = a_worker([one], [*event, one.gone], None, fault)
    assert (worker.run(), one.told, worker._events.empty()) == (3, [], True)


def test_a_node_that_comes_is_waited_for() -> None:
    """The one before it may end by itself meanwhile."""
    one, two = Node(2), Node(0)
    worker = a_worker([one, two], [one.works, signal.SIGHUP, one.gone, two.works, two.gone], None, None)
    assert (worker.run(), worker._events.empty()) == (0, True)


def test_a_worker_that_stops_tells_each_node_once() -> None:
    """One that has just come takes over from nobody: whoever is told twice hands back its runs at once."""
    one, two = Node(0), Node(0)
    event: list[signal.Signals | _Said] = [one.works, signal.SIGHUP, signal.SIGTERM, two.works, two.gone, one.gone]
    worker = a_worker([one, two], event, None, None)
    assert (worker.run(), one.told, two.told) == (0, [signal.SIGTERM], [signal.SIGTERM])
