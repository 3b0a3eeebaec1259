"""Interface of nodes about each other. Every method is one transaction, as in `ports.store`."""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct, field

from tokimori.clock import Moment
from tokimori.model.ids import Lane, NodeId, RunId, Token
from tokimori.ports.working import Claimed


class NodeState(StrEnum):
    """The states of a node. Death is final: a dead node never becomes alive again."""

    ALIVE = "alive"
    LEFT = "left"
    """It stopped by itself, owning nothing."""
    DEAD = "dead"
    """Another node saw no beat for too long."""


class NodeRecord(Struct, frozen=True, kw_only=True):
    """A node's row. `beat` grows while it lives; `left` is when it left or was declared dead.

    A node whose `concurrency` is 0 is a program: it runs no jobs, but holds permits of semaphores or waits for them.
    `drained`: it was ordered to take no new runs; stores do not record that.
    """

    id: NodeId
    host: str
    boot_id: str
    pid: int
    labels: dict[str, str] = field(default_factory=dict)
    concurrency: int
    version: str
    started: Moment
    beat: int = 0
    state: NodeState
    left: Moment | None = None
    drained: bool = False

    @property
    def is_program(self) -> bool:
        """Return whether it runs no jobs."""
        return self.concurrency == 0

    @property
    def runs_jobs(self) -> bool:
        """Return whether it is alive and not a program."""
        return self.state is NodeState.ALIVE and not self.is_program

    @property
    def takes_runs(self) -> bool:
        """Return whether it runs jobs, and is not drained."""
        return self.runs_jobs and not self.drained


class StartedRun(Struct, frozen=True, kw_only=True):
    """A run whose process began; it is noted at the run as long as (node, token) still hold it."""

    run_id: RunId
    token: Token
    pid: int
    at: Moment


class Beat(Struct, frozen=True, kw_only=True):
    """Report of a node at each tick: it is alive, and these processes began since the last one."""

    node: NodeId
    started: tuple[StartedRun, ...] = ()


class Survey(Struct, frozen=True, kw_only=True):
    """Work in the store: the next due time of jobs and waiting runs, and the lanes with ready runs.

    Lanes of paused queues are left out.
    """

    next_due: Moment | None
    lanes: tuple[Lane, ...]


class Pulse(Struct, frozen=True, kw_only=True):
    """Answer to a node's tick, read in the tick's own transaction.

    `now` is the store's time. `owned` are the runs that the store gives this node; `cancels` those of them that are to
    end, with the reason. `peers` are the other living nodes with their beat counters. `orphans`: dead nodes own runs.
    """

    now: Moment
    owned: frozenset[tuple[RunId, Token]]
    cancels: tuple[tuple[RunId, Token, str], ...]
    peers: tuple[tuple[NodeId, int], ...]
    orphans: bool
    survey: Survey


class Nodes(Protocol):
    """Membership and liveness of nodes. No wall clocks are compared."""

    async def now(self) -> Moment:
        """Return the store's time, the same as `tick` returns."""
        ...

    async def register(self, node: NodeRecord) -> None:
        """Add a living node. A known one only updates its labels and concurrency."""
        ...

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        """Raise the node's counter and return its pulse. None: the node was declared dead, for good.

        A few lines of semaphores with free units are served too, in lanes without ready runs: copied runs need it.
        """
        ...

    async def survey(self, now: Moment, *, past: Moment | None = None) -> Survey:
        """Return the survey, without a beat. `past`: leave out work due by that moment."""
        ...

    async def bury(self, dead: NodeId, beat: int, by: NodeId, now: Moment) -> bool:
        """Declare a node dead if its counter still is `beat` and `by` is alive. Returns whether it is dead now.

        Its permits as a program, and its places in line, are freed; its runs keep their permits until settled.
        """
        ...

    async def leave(self, node: NodeId, now: Moment) -> bool:
        """Let the node leave and free its permits; return False while it owns runs. A program's row goes too."""
        ...

    async def orphans(self, limit: int) -> list[Claimed]:
        """Return running runs of dead nodes, oldest rank first."""
        ...

    async def list_nodes(self, *, limit: int = 1000) -> list[NodeRecord]:
        """Return living nodes first, then those that left or died, newest first."""
        ...
