"""`tokimori job stats`: how a job has done, in numbers and small bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.completing import job_ids
from tokimori.cli.output import NOTHING, print_fields, print_json
from tokimori.cli.session import in_service
from tokimori.clock import Moment

if TYPE_CHECKING:
    from tokimori.model.statistics import Quantiles, Statistics
    from tokimori.service.service import Service

_BARS = "▁▂▃▄▅▆▇█"
_EMPTY = "·"


@click.command("stats", cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
def stats(job_id: str) -> None:
    """Say how often a job succeeds, how long its runs take, and how late they start.

    Counts are those of all days, pruned ones too; times are those of its newest 1,000 ended runs.
    """
    from tokimori.service.views.statistics import statistics_view

    async def act(service: "Service") -> "tuple[Statistics, Moment]":
        return await service.jobs.statistics(job_id), await service.store.now()

    found, now = in_service(act)
    if options().as_json:
        print_json(statistics_view(found))
    else:
        print_fields(_fields(found, now))


def _fields(found: "Statistics", now: Moment) -> Sequence[tuple[str, object]]:
    from tokimori.model.statistics import last_days

    days = last_days(found, now)
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(found.outcomes.items()))
    rate = NOTHING if found.success_rate is None else f"{found.success_rate:.2%}"
    return (
        ("outcomes", (counts or NOTHING) + (" or more" if found.more else "")),
        ("success rate", rate),
        ("duration", _told(found.duration)),
        ("started late", _told(found.lateness)),
        ("by hour, 0 to 23", bars(found.by_hour)),
        ("30 days, succeeded", bars([day.succeeded for day in days])),
        ("30 days, failed", bars([day.failed for day in days])),
        ("30 days, skipped", bars([day.skipped for day in days])),
    )


def _told(lengths: "Quantiles | None") -> str:
    if lengths is None:
        return NOTHING
    named = {"p50": lengths.p50, "p95": lengths.p95, "p99": lengths.p99, "most": lengths.most}
    return ", ".join(f"{name} {_seconds(value)}" for name, value in named.items())


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def bars(counts: Sequence[int]) -> str:
    """Return a bar for each count, the highest for the greatest; a dot for none."""
    most = max(counts, default=0)
    return "".join(_BARS[-(-count * len(_BARS) // most) - 1] if count else _EMPTY for count in counts)
