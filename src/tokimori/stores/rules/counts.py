"""Daily counts of runs and skips, pruned ones included."""

from collections.abc import Mapping

from tokimori.clock import Moment
from tokimori.model.retention import DailyCount


def daily_counts(kept: Mapping[tuple[Moment, str], int], pruned: Mapping[tuple[Moment, str], int]) -> list[DailyCount]:
    """Kept and pruned rows by day and outcome, together."""
    return [
        DailyCount(
            day=day,
            outcome=str(outcome),
            count=kept.get((day, outcome), 0) + pruned.get((day, outcome), 0),
            pruned=pruned.get((day, outcome), 0),
        )
        for day, outcome in sorted({*kept, *pruned})
    ]
