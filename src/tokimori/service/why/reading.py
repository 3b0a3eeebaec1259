"""Reading of the store for reasons why something does not start."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate
from tokimori.model.job import Job
from tokimori.model.lanes import Pause
from tokimori.model.parents import ParentRun
from tokimori.model.run import Run, Skip
from tokimori.ports.nodes import NodeRecord
from tokimori.service.reasons import HeldBy


class Units(Struct, frozen=True, kw_only=True):
    """A semaphore as it was read: `fault` says why it could not be; all else is empty then.

    `taken` units count for its rate now, and its line goes on at `goes_on`.
    """

    limit: int = 1
    used: int = 0
    holders: tuple[HeldBy, ...] = ()
    others: int = 0
    rate: ClaimRate | None = None
    taken: int = 0
    goes_on: Moment | None = None
    fault: str | None = None


class WhyReading(Struct, frozen=True, kw_only=True):
    """State of the store at `now`: a run, its job, and all that may hold it.

    `siblings` are running or ready runs of the job, `running` the running runs of all jobs (`many`: there are more).
    `units` are semaphores by name. `tail` is the newest row of the job's ledger, if it is a skip. `doubted`: the asked
    node distrusts its clock. `apart`: the store of the semaphores is known. `ahead`: the job has decided future
    moments. `beside` is a run that holds the key which this one, as it is unique, held before. `spawned` are some
    of the `live` runs for whose ends the run waits.
    """

    now: Moment
    job: Job | None
    run: Run | None = None
    pauses: Sequence[Pause] = ()
    nodes: Sequence[NodeRecord] = ()
    siblings: Sequence[Run] = ()
    running: Sequence[Run] = ()
    many: bool = False
    units: Mapping[str, Units] = field(default_factory=dict)
    tail: Skip | None = None
    ahead: bool = False
    doubted: bool = False
    apart: bool = False
    beside: Run | None = None
    live: int = 0
    spawned: Sequence[ParentRun] = ()
