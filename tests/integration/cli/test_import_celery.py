"""`tokimori job import celery`: the zone of an app, and a program that is imported."""

import json

import pytest

from tests.integration.cli.conftest import Program

SCHEDULE = {"a": {"task": "x.y", "schedule": {"crontab": {"hour": 2, "minute": 30}}}}
APP = """\
import datetime

print("a program may write")


class crontab:
    def __init__(self, minute="*", hour="*"):
        self._orig_minute, self._orig_hour = minute, hour
        self._orig_day_of_week = self._orig_day_of_month = self._orig_month_of_year = "*"


class interval:
    run_every = datetime.timedelta(minutes=5)


class solar:
    event = "sunset"


class conf:
    timezone = "Europe/Berlin"
    enable_utc = True
    beat_schedule = {
        "cron": {"task": "shop.send", "schedule": crontab(30, "2"), "args": (1,), "options": {"queue": "q"}},
        "list": {"task": "shop.send", "schedule": crontab([0, 30], {2, 4})},
        "delta": {"task": "shop.send", "schedule": datetime.timedelta(seconds=30)},
        "number": {"task": "shop.send", "schedule": 10.0},
        "interval": {"task": "shop.send", "schedule": interval()},
        "sun": {"task": "shop.send", "schedule": solar()},
        "object": {"task": "shop.send", "schedule": 5, "kwargs": {"x": object()}},
    }


class app:
    conf = conf
"""


@pytest.mark.parametrize(
    ("said", "words", "zone"),
    [
        ({}, (), "UTC"),
        ({"timezone": "Europe/Berlin"}, (), "Europe/Berlin"),
        ({"timezone": "Europe/Berlin", "enable_utc": False}, ("--timezone", "Asia/Tokyo"), "Asia/Tokyo"),
        ({"enable_utc": True}, ("--timezone", "Asia/Tokyo"), "Asia/Tokyo"),
    ],
)
def test_the_zone_of_an_app_is_kept_and_told(
    program: Program, said: dict[str, object], words: tuple[str, ...], zone: str
) -> None:
    """It is eight hours otherwise; --timezone comes first."""
    (program.home / "beat.json").write_text(json.dumps({**said, "beat_schedule": SCHEDULE}))
    ended = program.run("job", "import", "celery", "beat.json", *words)
    assert f"the times of crontab schedules are in {zone}" in ended.stderr
    assert program.json("job", "show", "a")["time_zone"] == zone


def test_an_app_without_utc_means_the_zone_of_the_machine(program: Program) -> None:
    """As in Celery, and it is told."""
    (program.home / "beat.json").write_text(json.dumps({"enable_utc": False, "beat_schedule": SCHEDULE}))
    told = program.run("job", "import", "celery", "beat.json", "--dry-run").stderr
    assert "times without a zone are read in that of this machine, " in told


def test_the_app_of_a_program_is_imported_in_a_process_of_its_own(program: Program) -> None:
    """Its schedules are what they are; the sun and what JSON can't hold are refused, each alone."""
    (program.home / "shop.py").write_text(APP)
    done = program.json("job", "import", "celery", "shop:app", "--skip-refused")
    assert done["added"] == ["cron", "list", "delta", "number", "interval"]
    assert [each["place"] for each in done["refused"]] == ["shop:app, sun", "shop:app, object"]
    shown = {job["id"]: job for job in program.json("job", "list")}
    assert [shown[name]["schedule"] for name in done["added"]] == [
        "30 2 * * *",
        "0,30 2,4 * * *",
        "every 30 seconds",
        "every 10 seconds",
        "every 300 seconds",
    ]
    assert (shown["cron"]["time_zone"], shown["cron"]["queue"]) == ("Europe/Berlin", "q")


@pytest.mark.parametrize(
    ("source", "more", "told"),
    [
        ("nowhere:app", (), "ModuleNotFoundError: No module named 'nowhere'"),
        ("shop:nothing", (), "has no attribute 'nothing'"),
        ("shop:app", ("--python", "/no/python"), "/no/python could not import it"),
    ],
)
def test_a_program_that_can_not_be_imported_is_told(
    program: Program, source: str, more: tuple[str, ...], told: str
) -> None:
    """With the error, and by which interpreter."""
    (program.home / "shop.py").write_text(APP)
    assert told in program.error("job", "import", "celery", source, *more)["message"]


SETUP = """\
class conf:
    timezone = enable_utc = None
    beat_schedule = {}


class program:
    conf = conf

    @property
    def tasks(self):
        conf.beat_schedule["late"] = {"task": "shop.send", "schedule": 10.0}
        return {}


app = program()
CELERY_TIMEZONE = "Asia/Tokyo"
CELERY_BEAT_SCHEDULE = {"set": {"task": "shop.send", "schedule": 60}}
"""


def test_tasks_that_the_end_of_the_setup_adds_are_read(program: Program) -> None:
    """`on_after_finalize` adds them when the app's tasks are asked for: they vanished without a word."""
    (program.home / "shop.py").write_text(SETUP)
    assert program.json("job", "import", "celery", "shop:app")["added"] == ["late"]


def test_a_schedule_in_settings_needs_no_app(program: Program) -> None:
    """A dict is a beat_schedule; the zone stands beside it, under Django's name too."""
    (program.home / "shop.py").write_text(SETUP)
    ended = program.run("job", "import", "celery", "shop:CELERY_BEAT_SCHEDULE")
    assert "the times of crontab schedules are in Asia/Tokyo" in ended.stderr
    assert program.json("job", "show", "set")["schedule"] == "every 60 seconds"


def test_a_file_of_python_is_answered_with_its_name(program: Program) -> None:
    """It was "not a database"."""
    (program.home / "shop.py").write_text(SETUP)
    assert program.error("job", "import", "celery", "./shop.py")["allowed"] == "shop:APP, or shop:BEAT_SCHEDULE"
