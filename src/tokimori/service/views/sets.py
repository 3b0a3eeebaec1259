"""Sets as JSON."""

from datetime import datetime

from tokimori.service.views.outside import Outside


class SetState(Outside, frozen=True, kw_only=True):
    """A set: its state (`whole`, `at_work`, `half_applied`), its version, its jobs, who applied it last, and when."""

    name: str
    state: str
    version: int
    jobs: int
    by: str | None
    begun: datetime | None
