"""The ledger of a job as JSON."""

from datetime import datetime

from tokimori.model.ledger import Fate
from tokimori.model.run import SkipReason
from tokimori.model.transitions import RunState
from tokimori.service.views.outside import Outside


class LineView(Outside, frozen=True, kw_only=True):
    """One occurrence, or `count` of them from `first` to `last` with the same `fate` and without runs.

    A run has its id, state and `origin`, a skip its reason.
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
    """Lines, oldest first. `next` is the first occurrence of the next page; null: there are no more."""

    lines: tuple[LineView, ...]
    next: datetime | None


class VerifiedView(Outside, frozen=True, kw_only=True):
    """Number of occurrences by fate (`fates`), of those that do not fit (`wrong`), and the first lines of these."""

    job_id: str
    wrong: int
    fates: dict[str, int]
    faults: tuple[LineView, ...]
    next: datetime | None
