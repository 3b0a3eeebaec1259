"""`tokimori job next`"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.completion import zones
from tokimori.cli.moment import AHEAD
from tokimori.cli.output import local, print_json, print_lines, print_notice
from tokimori.cli.session import Absent, in_service, load
from tokimori.cli.table import print_table
from tokimori.clock import Moment, SystemClock
from tokimori.errors import InvalidInput, InvalidSchedule, NotFound
from tokimori.schedules.business_days import Shift
from tokimori.schedules.schedule import Fold, Gap
from tokimori.schedules.stamp import future_moment_text
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
    from tokimori.service.views.schedules import Explanation as ExplanationView

    start = None if after is None else future_moment_text("after", after, SystemClock().now())
    if calendars or options().server is not None or options().context is not None:
        explanation = in_service(
            lambda service: service.schedules.explain(
                text, time_zone, count, start, gap=gap, fold=fold, calendars=calendars, shift=shift
            )
        )
    else:  # no store is needed: only the text matters
        explanation = _explained(text, count, time_zone, start, gap=Gap(gap), fold=Fold(fold))
    if options().as_json:
        print_json(ExplanationView.made(explanation))
    else:
        print_explanation(explanation)


def _explained(
    text: str, count: int, time_zone: str | None, after: str | None, *, gap: Gap, fold: Fold
) -> "Explanation":
    from tokimori.schedules.explain import explain
    from tokimori.service.validation import moment_of

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


if TYPE_CHECKING:
    from tokimori.service.service import Service

Row = tuple[str | None, str, Moment]
"""The id of a job, a zone, and a moment."""


@click.command(cls=Command)
@click.argument("subject", metavar="[ID | TEXT]", required=False)
@click.option("-n", "count", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many.")
@click.option("--after", metavar="TIME", help=f"{AHEAD[0].upper()}{AHEAD[1:]}; now by default.")
@click.option("--schedule", metavar="TEXT", help="A schedule, even if a job has such an id.")
@click.option(
    "--timezone",
    "time_zone",
    metavar="ZONE",
    shell_complete=zones,
    help="The zone of a schedule, and of the moments shown.",
)
def next_moments(
    subject: str | None, count: int, after: str | None, schedule: str | None, time_zone: str | None
) -> None:
    """Print the next moments of a job, of a schedule's text, or of all enabled jobs together."""
    from tokimori.schedules.zones import check_zone

    if schedule is not None and subject is not None:
        message = "ID and --schedule can't be combined"
        raise InvalidInput(message, field="schedule", value=schedule, allowed="one of ID, --schedule")
    if time_zone is not None:
        check_zone(time_zone)

    async def act(service: "Service") -> list[Row]:
        start = None if after is None else future_moment_text("after", after, await service.db.now())
        if schedule is not None:
            return await _of_text(service, schedule, count, start, time_zone)
        if subject is not None:
            return await _of_job_or_text(service, subject, count, start, time_zone)
        upcoming = await service.schedules.upcoming(count, start)
        return [(found.id, time_zone or found.definition.time_zone, moment) for found, moment in upcoming]

    is_text = schedule is not None or (subject is not None and (" " in subject or subject.startswith("@")))
    rows = in_service(act, Absent.EMPTY if is_text else Absent.REFUSED)
    _print(rows, with_ids=subject is None and schedule is None)


async def _of_job_or_text(
    service: "Service", subject: str, count: int, after: str | None, time_zone: str | None
) -> list[Row]:
    """Return the moments of the job with that id, else of that schedule.

    Raises `NotFound` for a text that could be an id, otherwise `InvalidInput`.
    """
    from tokimori.service.reasons import reason_text
    from tokimori.service.why.stops import stopped

    try:
        found = await service.jobs.get(subject)
    except (NotFound, InvalidInput) as fault:
        try:
            return await _of_text(service, subject, count, after, time_zone)
        except InvalidSchedule:
            if isinstance(fault, InvalidInput):
                raise
            raise fault from None
    if (why := stopped(found)) is not None:
        print_notice(f"none of these starts while {reason_text(why)}")
    moments = await service.jobs.next(subject, count, after)
    return [(found.id, time_zone or found.definition.time_zone, moment) for moment in moments]


async def _of_text(service: "Service", text: str, count: int, after: str | None, time_zone: str | None) -> list[Row]:
    explanation = await service.schedules.explain(text, time_zone, count, after)
    return [(None, explanation.time_zone, moment) for moment in explanation.moments]


def _print(rows: Sequence[Row], *, with_ids: bool) -> None:
    from tokimori.clock import format_moment

    if options().as_json:
        print_json([{"job_id": job_id, "time": format_moment(moment)} for job_id, _, moment in rows])
    elif with_ids:
        print_table(("TIME", "JOB"), [(local(moment, zone), job_id) for job_id, zone, moment in rows])
    elif rows:
        print_lines(*(local(moment, zone) for _, zone, moment in rows))
    else:
        print_notice("no moment is known in advance: `tokimori job explain` and `schedule explain` say why")
