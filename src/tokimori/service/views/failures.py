"""Failures by cause as JSON."""

from datetime import datetime

from tokimori.service.views.outside import Outside


class MuteView(Outside, frozen=True, kw_only=True):
    """A cause of failures that is muted until then, by whom and why."""

    id: str
    cause: str
    since: datetime
    until: datetime
    by: str | None
    reason: str | None


class FailureCauseView(Outside, frozen=True, kw_only=True):
    """Failures with one cause, which `id` names. `sample` is the newest run, and `line` what its error says last.

    `muted` is there while the cause is muted.
    """

    id: str
    cause: str
    count: int
    jobs: tuple[str, ...]
    more_jobs: int
    first: datetime
    last: datetime
    histogram: tuple[int, ...]
    sample: str
    line: str
    muted: MuteView | None


class FailuresView(Outside, frozen=True, kw_only=True):
    """Failures of a period by cause. `looked`: how many failed runs were read; `next`: go on `before` this one."""

    causes: tuple[FailureCauseView, ...]
    since: datetime
    until: datetime
    count: int
    looked: int
    more_causes: int
    next: str | None
