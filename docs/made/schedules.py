"""The language of schedules: each notation with examples, which the code explains itself."""

from collections.abc import Iterator
from datetime import UTC, datetime

from docs.made.markdown import REFERENCE, code, table, text
from tokimori.clock import Moment
from tokimori.schedules.explain import explain

PAGE = REFERENCE / "schedules.md"
AFTER = Moment(1_767_225_600_000_000)
"""The new year of 2026."""
NOTATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Cron": (
        "Minute, hour, day of month, month, day of week. Lists, ranges, steps and names of months and days are "
        "allowed. Sunday is 0 or 7. If both days are given, one of them suffices.",
        ("0 3 * * *", "*/15 9-17 * * mon-fri", "30 6 1,15 * *", "0 0 1 jan *", "0 12 13 * fri"),
    ),
    "Cron with seconds or a year": (
        "With six fields the first is the second. With seven the last is the year.",
        ("30 */5 * * * *", "0 0 12 1 1 * 2030"),
    ),
    "Days that cron has no word for": (
        "`L` is the last day, `L-3` three days before it. `15W` is the workday nearest to the 15th, `LW` the last "
        "workday. `fri#2` is the second Friday, `friL` the last one.",
        ("0 9 L * *", "0 9 L-3 * *", "0 9 15W * *", "0 9 LW * *", "0 9 * * fri#2", "0 9 * * friL"),
    ),
    "Spread": (
        "`H` is a number that is fixed for each job and differs between jobs. `H(0-5)` is one within bounds.",
        ("H H(0-5) * * *",),
    ),
    "Short forms": (
        'Names of cron. `@reboot` runs once per job, host and boot. With `misfire = "skip"`, as imports from cron have '
        "it, it does not run for a boot before the job was added.",
        ("@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@reboot", "@every 90s"),
    ),
    "Intervals": (
        "The first one is an interval after the job was added. Then they stay on that grid, also across restarts.",
        ("every 10 minutes", "every 90 seconds", "every 2 hours", "every 3 days", "every 2 weeks", "@every 1h30m"),
    ),
    "As people say it": (
        "Times are of 24 hours, or with AM and PM.",
        ("every day at 09:00", "on friday at 10:00PM", "every monday at 08:30"),
    ),
    "ISO 8601": (
        "Repetitions, the first moment, and the period. Ends of months are clamped, counted from the first moment.",
        ("R5/2030-01-31T09:00:00Z/P1M", "R/2026-02-01T00:00:00Z/PT12H"),
    ),
    "Field table": (
        "Year/month/day hour:minute (weekday, 1 is Monday).",
        ("2030/*/* 9:05 (*)", "*/*/* 18:00 (5)"),
    ),
    "Once": ("One moment.", ("at 2030-01-01T00:00:00Z",)),
    "Several": (
        "Schedules are separated by `;` or line ends. `except` takes the times of another schedule away.",
        ("0 9 * * mon-fri; 0 12 * * sat", "0 9 * * mon-fri except 0 9 25 12 *"),
    ),
    "On demand": ("Nothing by itself: it runs when somebody asks, or after another job.", ("on demand",)),
}


def page() -> str:
    """Return the page."""
    return text(_lines())


def _lines() -> Iterator[str]:
    yield from (
        "# Schedules",
        "",
        "Written by `make docs`: the meanings are what `tokimori schedule explain TEXT` answers. The zone is the job's",
        "`time_zone`, by default UTC.",
        "",
        "| you write | it means |",
        "|---|---|",
    )
    for _, texts in NOTATIONS.values():
        yield from list(table((), map(_row, texts)))[2:]
    for title, (meaning, texts) in NOTATIONS.items():
        yield from ("", f"## {title}", "", meaning, "")
        yield from table(("you write", "it means", "first times after 2026-01-01"), map(_with_times, texts))
    yield from ("", *MORE.splitlines())


def _row(text: str) -> tuple[str, str]:
    return code(text), explain(text, zone="UTC", after=AFTER, n=1).sentence


def _with_times(text: str) -> tuple[str, str, str]:
    found = explain(text, zone="UTC", after=AFTER, n=2)
    return code(text), found.sentence, ", ".join(_shown(each) for each in found.moments)


def _shown(moment: Moment) -> str:
    return datetime.fromtimestamp(moment / 1_000_000, UTC).strftime("%a %Y-%m-%d %H:%M:%S")


MORE = """## Clocks that are changed

| option | field | effect |
|---|---|---|
| by default | `gap = "shift"` | a time that clocks skip in spring runs right after the gap |
| `--gap skip` | `gap = "skip"` | it does not run on that day |
| `--gap later` | `gap = "later"` | 02:30 runs at 03:30 |
| by default | `fold = "first"` | a time that comes twice in autumn runs once, the first time |
| `--fold both` | `fold = "both"` | it runs both times |

An interval of hours, minutes or seconds knows no clock: it stays on its grid.

## Missed times

An occurrence that is over a minute late is missed: no node was there, or the job was paused.

| option | effect |
|---|---|
| `--misfire latest` (default) | the newest one still runs |
| `--misfire all` | all of them run |
| `--misfire skip` | none of them runs; each is recorded as skipped |

`tokimori job backfill` runs missed times later.

## Bounds

| option | effect |
|---|---|
| `--starts-at TIME`, `--ends-at TIME` | nothing before, nothing after |
| `--runs-remaining 10` | ends after ten runs |
| `--delay 30` | each run is due 30 s after its nominal time |
| `--jitter 600` | spreads jobs that are due at the same moment over ten minutes, always the same for a job and a time |
| `--anchored-on "last run"` | counts an interval from when the job last ran |

## Days off

A calendar holds days on which nothing runs. With `--shift next` it runs on the next business day instead.

```sh
tokimori calendar add holidays --date 12-25 --date 2030-04-19 --weekday sat --weekday sun
tokimori job update nightly-report --calendar holidays --shift next
```

## In Python

A schedule is the same text, or is built:

```py
from tokimori import every, on

every(10).minutes
every().day.at("09:00")
on("friday").at("10:00PM")
```

A schedule has at most 4,096 characters, and unites at most 64 schedules.
"""
