"""A company to take pictures of: its sixty jobs, how long their runs take, how they fail, and what they write."""

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from tokimori.clock import HOUR, MINUTE, SECOND, Moment, parse_moment
from tokimori.model.outcome import Failed, Hold, Outcome, Succeeded

ZONE: Final = "Europe/Berlin"
NOW: Final = parse_moment("2026-03-24T09:42:10Z")
FIRST: Final = parse_moment("2026-02-22T23:00:00Z")
TROUBLE: Final = parse_moment("2026-03-24T08:58:00Z")
"""Since then db-3 refuses connections."""
DAWN: Final = Moment(NOW - 5 * HOUR)
"""Since then nodes are at work: what was before is written down as they would have."""
FREQUENT: Final = Moment(NOW - 72 * HOUR)
"""Jobs that run more often than every ten minutes are as old as this: their month would be most of all runs."""

# id | schedule, or parents after `<` | queue | owner | seconds that a run takes
TABLE: Final = """
billing-card-expiry|0 6 1 * *|billing|finance|41
billing-dunning|30 9 * * 1-5|billing|finance|184
billing-fx-rates|5 16 * * 1-5|billing|finance|3.1
billing-invoices|0 3 1,15 * *|billing|finance|1520
billing-payouts|0 8 * * 1-5|billing|finance|9
billing-reconcile|20 5 * * *|billing|finance|412
billing-tax-export|0 7 5 1,4,7,10 *|billing|finance|260
billing-usage-rollup|*/10 * * * *|billing|finance|8.4
etl-orders-extract|*/15 * * * *|etl|data|19
etl-orders-load|*/15 * * * *|etl|data|34
etl-orders-daily|< etl-orders-load|etl|data|52
etl-baskets-build|< etl-orders-load|etl|data|66
etl-marts-build|< etl-orders-daily etl-baskets-build|etl|data|240
etl-clicks-extract|2 * * * *|etl|data|71
etl-clicks-clean|12 * * * *|etl|data|133
etl-clicks-load|< etl-clicks-clean|etl|data|88
etl-customers-extract|*/15 * * * *|etl|data|22
etl-customers-load|< etl-customers-extract|etl|data|31
etl-prices-load|0,30 * * * *|etl|data|12
etl-quality-check|50 * * * *|etl|data|57
etl-stock-extract|0 */2 * * *|etl|data|48
etl-stock-load|10 */2 * * *|etl|data|64
etl-warehouse-vacuum|0 4 * * 0|etl|data|2710
hr-payroll-export|0 10 24 * *|default|people|75
hr-timesheet-reminder|0 14 * * 5|mail|people|5.2
infra-cert-renew|17 3 * * *|default|ops|9.8
infra-disk-sweep|45 * * * *|default|ops|14
infra-dns-check|*/5 * * * *|probe|ops|0.9
infra-image-prune|40 1 * * *|default|ops|310
infra-node-metrics|* * * * *|probe|ops|0.4
infra-secrets-rotate|0 9 * * 2|default|ops|33
infra-uptime-probe|* * * * *|probe|ops|1.2
mail-bounces|*/20 * * * *|mail|growth|6
mail-digest-daily|0 7 * * *|mail|growth|540
mail-suppression-sync|25 2 * * *|mail|growth|37
mail-welcome|*/5 * * * *|mail|growth|2.2
ml-forecast-score|30 5 * * *|batch|ml|620
ml-forecast-train|24 10 * * *|batch|ml|1500
ml-fraud-score|*/2 * * * *|batch|ml|4.8
ml-recommend-train|20 10 * * 2|gpu|ml|3900
ml-recommend-push|< ml-recommend-train|batch|ml|58
nightly-backup|30 2 * * *|batch|ops|1502
nightly-backup-copy|< nightly-backup|batch|ops|1130
nightly-backup-verify|< nightly-backup|batch|ops|640
nightly-backup-prune|< nightly-backup-copy nightly-backup-verify|batch|ops|95
nightly-log-rotate|5 0 * * *|default|ops|18
nightly-search-reindex|10 2 * * *|batch|search|2100
nightly-thumbnails|40 2 * * *|batch|shop|880
report-finance-month|0 10 * * 2|report|finance|1320
report-sales-daily|< etl-marts-build|report|data|44
report-sales-weekly|30 7 * * 1|report|data|120
report-sla|15 * * * *|report|ops|16
report-stock-aging|0 5 * * 3|report|data|210
search-index-delta|*/3 * * * *|batch|search|26
search-synonyms|0 4 * * 6|batch|search|29
shop-cart-expire|*/30 * * * *|default|shop|7.7
shop-feed-google|0 */4 * * *|default|shop|330
shop-feed-partners|0 */3 * * *|default|shop|190
shop-price-rules|0 22 * * *|default|shop|66
shop-stock-sync|*/10 * * * *|etl|shop|11
"""
ABROAD: Final = MappingProxyType(
    {
        **dict.fromkeys(("etl-stock-extract", "etl-stock-load", "report-stock-aging"), "Asia/Tokyo"),
        "shop-feed-partners": "Europe/Athens",
    }
)
TERMS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "billing-dunning": {"calendars": ["germany"]},
        "billing-payouts": {
            "retry": {"attempts": 5, "delay": 60},
            "on_exhausted": "park",
            "notify": {"failure": ["ops"], "parked": ["ops"]},
            "calendars": ["germany"],
            "description": "Sends the payouts of the day to the bank, and waits for its receipt.",
        },
        "etl-orders-load": {
            "retry": {"attempts": 3, "delay": 60, "backoff": 2},
            "notify": {"failure": ["ops"], "recovery": ["ops"]},
            "description": "Loads the orders of the last quarter of an hour into the warehouse.",
        },
        "etl-customers-load": {"retry": {"attempts": 2, "delay": 30}},
        "etl-marts-build": {"expect_within": "45m", "notify": {"overdue": ["ops"]}},
        "nightly-backup": {"expect_within": "26h", "timeout": 7200, "notify": {"failure": ["ops"]}},
        "report-finance-month": {"semaphores": ["warehouse"]},
        "shop-stock-sync": {"semaphores": ["warehouse"], "payload": {"shop": "de", "dry_run": False}},
        "hr-payroll-export": {"notify": {"held": ["ops"]}},
        "infra-secrets-rotate": {"approval": True, "approve_within": "4h"},
        "infra-uptime-probe": {"keep_runs": 5000},
        "infra-node-metrics": {"keep_runs": 5000},
    }
)
EPOCHS: Final = 20


class Part(NamedTuple):
    """A job of the table: its fields, and the seconds that its runs take."""

    job_id: str
    fields: Mapping[str, Any]
    seconds: float
    is_frequent: bool


def parts() -> Sequence[Part]:
    """Return the jobs, parents before their children."""
    found = [_part(*line.split("|")) for line in TABLE.strip().splitlines()]
    assert len(found) == 60  # noqa: S101
    return found


def _part(job_id: str, when: str, queue: str, owner: str, seconds: str) -> Part:
    program = f"/opt/{job_id.partition('-')[0]}/bin/{job_id.partition('-')[2]}"
    fields: dict[str, Any] = {"command": f"{program} --log info", "queue": queue, "owner": owner, "time_zone": ZONE}
    if when.startswith("<"):
        parents = [{"job": each} for each in when.split()[1:]]
        fields |= {"parents": parents, "join": "all" if len(parents) > 1 else "any"}
    else:
        fields |= {"schedule": when, "time_zone": ABROAD.get(job_id, ZONE)}
    minute = when.split(maxsplit=1)[0]
    often = minute == "*" or (minute.startswith("*/") and int(minute[2:]) < 10)
    return Part(job_id, {**fields, **TERMS.get(job_id, {})}, float(seconds), often)


class Play(NamedTuple):
    """An attempt as it goes: the seconds that it takes, its end, and its lines, each with the second of its writing."""

    seconds: float
    outcome: Outcome
    lines: Sequence[tuple[float, str]]


class Turn(NamedTuple):
    """An attempt of a run, as far as it decides how that goes."""

    job_id: str
    nominal: Moment
    due: Moment
    attempt: int = 1


def play(task: Turn, usual: float) -> Play:
    """Return how an attempt of a run goes; the same one always goes the same way."""
    chance = random.Random(f"{task.job_id} {task.nominal} {task.attempt}")  # noqa: S311  a picture wants the same
    seconds = usual * chance.lognormvariate(0, 0.16) * _slower(task)
    outcome = _outcome(task, chance)
    if isinstance(outcome, Failed):
        seconds = min(seconds, chance.uniform(4, 9))
    if isinstance(outcome, Hold):
        seconds = 2.4
    lines = sorted(_lines(task, seconds, outcome, chance), key=lambda line: line[0])
    return Play(seconds, outcome, [(max(0.0, at), text) for at, text in lines if at <= seconds])


def _slower(task: Turn) -> float:
    """Return by what factor a run takes longer than usual: the month's report grows, the index has grown."""
    age = (task.due - FIRST) / (NOW - FIRST)
    if task.job_id in ("etl-orders-load", "nightly-search-reindex", "mail-digest-daily"):
        return 0.75 + 0.5 * max(0.0, age) ** 2
    return 2.6 if task.job_id == "report-finance-month" and task.due > TROUBLE else 1.0


REFUSED: Final = "connection refused: db-3:5432"
LAPSED: Final = "bank gateway: 401 token expired"


def _outcome(task: Turn, chance: random.Random) -> Outcome:
    job_id, luck = task.job_id, chance.random()
    if job_id in ("etl-orders-load", "etl-customers-load") and task.due >= TROUBLE:
        return Failed("exit code 1", 1)
    if job_id == "billing-payouts" and task.due > NOW - 6 * HOUR:
        return Failed("exit code 3", 3)
    if job_id == "hr-payroll-export" and task.due > NOW - HOUR:
        return Hold("check the amounts before the bank closes at 12:00")
    limits = {"shop-feed-google": 0.05, "billing-fx-rates": 0.04, "ml-fraud-score": 0.002, "etl-prices-load": 0.004}
    limits |= {"mail-bounces": 0.006, "nightly-thumbnails": 0.04, "infra-dns-check": 0.003, "shop-stock-sync": 0.004}
    if luck < limits.get(job_id, 0.0004):
        return Failed("exit code 1", 1)
    return Succeeded(0)


_FAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "etl": "psycopg.OperationalError: " + REFUSED,
        "billing": LAPSED,
        "shop": "feed: HTTP 502 from merchant-api",
        "infra": "resolver: SERVFAIL for api.example.com",
        "mail": "smtp: 421 too many connections from this host",
        "ml": "MemoryError: 6.2 GiB wanted, 4.0 GiB allowed",
        "nightly": "thumbnail 81442: unexpected end of file",
    }
)


def _lines(task: Turn, seconds: float, outcome: Outcome, chance: random.Random) -> Iterator[tuple[float, str]]:
    family, _, rest = task.job_id.partition("-")
    yield 0.1, f"\x1b[90m{_clock(task.due)}\x1b[0m {rest} 4.18.2, attempt {task.attempt}"
    yield 0.3, "config: /etc/shop.toml, 14 settings"
    if isinstance(outcome, Failed):
        yield 0.4, f"connecting to {'db-3:5432' if family == 'etl' else 'upstream'}"
        if family == "etl" and task.due >= TROUBLE:
            for number in range(1, 4):
                yield number * seconds / 4, f"\x1b[33mWARN\x1b[0m no answer after {number}.0 s, trying again"
        yield seconds - 0.1, f"\x1b[1;31mERROR\x1b[0m {_FAULTS.get(family, 'failed: 1 of 3 parts is missing')}"
        return
    if isinstance(outcome, Hold):
        yield 1.1, "214 employees, 871,402.18 EUR in all: 4.1 % more than last month"
        return
    steps = min(EPOCHS, max(2, int(seconds / 3)))
    for step in range(1, steps + 1):
        rows = chance.randrange(800, 9000)
        warns = "\x1b[33mWARN\x1b[0m slow batch, " if chance.random() < 0.05 else ""
        yield (
            0.35 + (seconds - 0.4) * step / (steps + 1),
            f"\x1b[36minfo\x1b[0m {warns}batch {step} of {steps}: {rows:,} rows",
        )
    yield seconds - 0.05, f"\x1b[32mdone\x1b[0m in {seconds:.1f} s"


def _clock(at: Moment) -> str:
    return f"{datetime.fromtimestamp(at / SECOND, ZoneInfo('Europe/Berlin')):%H:%M:%S}"


def said(job_id: str, elapsed: float, seconds: float) -> tuple[float, str] | None:
    """Return the progress of a long run after so many seconds, with its words."""
    if seconds < MINUTE / SECOND:
        return None
    part = min(0.97, elapsed / seconds)
    if "train" in job_id:
        return part, f"epoch {1 + int(part * EPOCHS)} of {EPOCHS}"
    return part, f"closing month 02, page {1 + int(part * 64)}"
