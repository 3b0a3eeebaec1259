"""`tokimori schedule …`"""

from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group, options
from tokimori.cli.completing import zones
from tokimori.cli.moment import AHEAD
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.session import in_service, load
from tokimori.clock import SystemClock
from tokimori.schedules.business_days import Shift
from tokimori.schedules.schedule import Fold, Gap
from tokimori.schedules.typed import told_ahead
from tokimori.schedules.zones import on_clocks

if TYPE_CHECKING:
    from tokimori.schedules.explain import Explanation

schedule = Group("schedule", help="Schedules: what a text means.")


@schedule.command()
@click.argument("text")
@click.option("-n", "count", type=click.IntRange(1, 10_000), default=5, show_default=True, help="How many moments.")
@click.option(
    "--timezone",
    "time_zone",
    metavar="ZONE",
    shell_complete=zones,
    help="The zone of the schedule, such as Europe/Paris.",
)
@click.option("--after", metavar="TIME", help=f"{AHEAD[0].upper()}{AHEAD[1:]}; now by default.")
@click.option(
    "--gap",
    type=click.Choice([each.value for each in Gap]),
    default="shift",
    help="What to do with times that clocks skip.",
)
@click.option(
    "--fold",
    type=click.Choice([each.value for each in Fold]),
    default="first",
    help="What to do with times that clocks show twice.",
)
@click.option("--calendar", "calendars", multiple=True, metavar="NAME", help="Days off, on which nothing runs.")
@click.option(
    "--shift", type=click.Choice([each.value for each in Shift]), help="Instead of a day off, run on that business day."
)
def explain(
    *,
    text: str,
    count: int,
    time_zone: str | None,
    after: str | None,
    gap: str,
    fold: str,
    calendars: tuple[str, ...],
    shift: str | None,
) -> None:
    """Explain a schedule: in English, with its next moments and warnings."""
    from tokimori.service.views.schedules import explanation_view

    start = None if after is None else told_ahead("after", after, SystemClock().now())
    if calendars or options().server is not None or options().context is not None:
        explanation = in_service(
            lambda service: service.schedules.explain(
                text, time_zone, count, start, gap=gap, fold=fold, calendars=calendars, shift=shift
            )
        )
    else:  # no store is needed: only the text matters
        explanation = _explained(text, count, time_zone, start, gap=Gap(gap), fold=Fold(fold))
    if options().as_json:
        print_json(explanation_view(explanation))
    else:
        print_explanation(explanation)


def _explained(
    text: str, count: int, time_zone: str | None, after: str | None, *, gap: Gap, fold: Fold
) -> "Explanation":
    from tokimori.schedules.explain import explain
    from tokimori.service.given import moment_of

    zone = time_zone or load().settings.time_zone
    return explain(
        text,
        zone=zone,
        after=SystemClock().now() if after is None else moment_of("after", after, zone),
        n=count,
        gap=gap,
        fold=fold,
    )


def print_explanation(explanation: "Explanation") -> None:
    """Print the sentence, the moments with offset and zone, and the warnings."""
    print_lines(f"{explanation.sentence} ({explanation.time_zone})")
    for moment in explanation.moments:
        local = on_clocks(explanation.time_zone, moment)
        precision = "milliseconds" if local.microsecond else "seconds"
        letters = local.tzname() or ""  # many zones have none but the offset again
        name = f" {letters}" if letters.isalpha() else ""
        print_lines(f"  {local:%a} {local.isoformat(' ', precision)}{name}")
    print_lines(*(f"warning: {warning}" for warning in explanation.warnings))
