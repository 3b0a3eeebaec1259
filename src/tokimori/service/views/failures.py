"""Failures by cause as JSON."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.service.failures import FoundFailures


class FailureCauseView(Struct, frozen=True, kw_only=True):
    """Failures with one cause, which `id` names. `sample` is the newest run, and `line` what its error says last."""

    id: str
    cause: str
    count: int
    jobs: tuple[str, ...]
    more_jobs: int
    first: str
    last: str
    histogram: tuple[int, ...]
    sample: str
    line: str


class FailuresView(Struct, frozen=True, kw_only=True):
    """Failures of a period by cause. `looked`: so many failed runs were looked at; `next`: go on `before` this one."""

    causes: tuple[FailureCauseView, ...]
    since: str
    until: str
    count: int
    looked: int
    more_causes: int
    next: str | None


def failures_view(found: FoundFailures) -> FailuresView:
    """Return the failures as JSON shows them."""
    return FailuresView(
        causes=tuple(
            FailureCauseView(
                id=each.id,
                cause=each.cause,
                count=each.count,
                jobs=each.jobs,
                more_jobs=each.more_jobs,
                first=format_moment(each.first),
                last=format_moment(each.last),
                histogram=each.histogram,
                sample=each.sample,
                line=each.line,
            )
            for each in found.causes
        ),
        since=format_moment(found.since),
        until=format_moment(found.until),
        count=found.count,
        looked=found.looked,
        more_causes=found.more_causes,
        next=found.next,
    )
