"""The ledger of a job as JSON."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.model.ledger import LedgerLine
from tokimori.service.ledger import LedgerPage, Verified
from tokimori.service.views.stamps import stamp


class LineView(Struct, frozen=True, kw_only=True):
    """One occurrence, or `count` of them from `first` to `last` that became the same and are no runs.

    `fate` is what they became. A run is told by its id and state, and by who made it (`origin`); a skip by its reason.
    """

    first: str
    last: str
    count: int
    fate: str
    run_id: str | None
    state: str | None
    origin: str | None
    reason: str | None


class LedgerView(Struct, frozen=True, kw_only=True):
    """Lines, oldest first. `next` is the first occurrence that is not told of yet; null: all of them are."""

    lines: tuple[LineView, ...]
    next: str | None


class VerifiedView(Struct, frozen=True, kw_only=True):
    """Number of occurrences by fate (`fates`), of those that do not fit (`wrong`), and the first lines of these."""

    job_id: str
    wrong: int
    fates: dict[str, int]
    faults: tuple[LineView, ...]
    next: str | None


def line_view(line: LedgerLine) -> LineView:
    """Return the line as JSON shows it."""
    return LineView(
        first=format_moment(line.first),
        last=format_moment(line.last),
        count=line.count,
        fate=line.fate.value,
        run_id=line.run_id,
        state=None if line.state is None else line.state.value,
        origin=line.origin,
        reason=line.reason,
    )


def ledger_view(page: LedgerPage) -> LedgerView:
    """Return the page as JSON shows it."""
    return LedgerView(lines=tuple(map(line_view, page.lines)), next=stamp(page.next))


def verified_view(verified: Verified) -> VerifiedView:
    """Return the result as JSON shows it."""
    return VerifiedView(
        job_id=verified.job_id,
        wrong=verified.wrong,
        fates=verified.fates,
        faults=tuple(map(line_view, verified.faults)),
        next=stamp(verified.next),
    )
