"""The ledger of a job as JSON."""

from datetime import datetime

from tokimori.model.ledger import Fate
from tokimori.model.run import SkipReason
from tokimori.model.transitions import RunState
from tokimori.service.views.outside import Outside


class LineView(Outside, frozen=True, kw_only=True):
    """One occurrence, or `count` of them from `first` to `last` that became the same and are no runs.

    `fate` is what they became. A run is told by its id and state, and by who made it (`origin`); a skip by its reason.
    """

    first: datetime
    last: datetime
    count: int
    fate: Fate
    run_id: str | None
    state: RunState | None
    origin: str | None
    reason: SkipReason | None


class LedgerView(Outside, frozen=True, kw_only=True):
    """Lines, oldest first. `next` is the first occurrence that is not told of yet; null: all of them are."""

    lines: tuple[LineView, ...]
    next: datetime | None


class VerifiedView(Outside, frozen=True, kw_only=True):
    """Number of occurrences by fate (`fates`), of those that do not fit (`wrong`), and the first lines of these."""

    job_id: str
    wrong: int
    fates: dict[str, int]
    faults: tuple[LineView, ...]
    next: datetime | None
