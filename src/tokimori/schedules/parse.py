"""The one door for schedule texts: it finds the notation and hands the text to that notation's file."""

from tokimori.clock import Moment
from tokimori.errors import InvalidSchedule
from tokimori.schedules.cron import MACROS, parse_cron
from tokimori.schedules.every import parse_every
from tokimori.schedules.grid import MonthEnd
from tokimori.schedules.once import parse_once
from tokimori.schedules.repeating import parse_repeating
from tokimori.schedules.schedule import Fold, Gap, OnDemand, Reboot, Schedule
from tokimori.schedules.zoned import ZoneRules
from tokimori.schedules.zones import check_zone

_EPOCH = Moment(0)
_ALLOWED = "cron (5 to 7 fields), @hourly … @yearly, @reboot, R[n]/start/period, every N units, at TIME, on demand"


def parse_schedule(
    text: str,
    *,
    zone: str = "UTC",
    anchor: Moment = _EPOCH,
    gap: Gap = Gap.SHIFT,
    fold: Fold = Fold.FIRST,
    month_end: MonthEnd = MonthEnd.CLAMP,
    job_id: str = "",
) -> Schedule:
    """Read a schedule text of any notation. Raises `InvalidSchedule` naming the field, the value and what is allowed.

    `zone` is where its wall-clock times are meant; `anchor` is the moment from which `every …` counts, which is when
    the job was added; `job_id` decides what `H` stands for.
    """
    rules = ZoneRules(check_zone(zone), gap, fold)
    text = text.strip()
    first, _, rest = text.partition(" ")
    match first.lower():
        case "every":
            return parse_every(text, anchor, rules)
        case "at":
            return parse_once(text, rules)
        case "@reboot" if not rest:
            return Reboot()
        case "on" if rest.lower().split() == ["demand"]:
            return OnDemand()
    if rest == "" and first not in MACROS:
        if "/" in first:
            return parse_repeating(text, rules, month_end)
        raise InvalidSchedule(f"schedule: {text!r} is none", field="schedule", value=text, allowed=_ALLOWED)
    return parse_cron(text, rules, job_id)
