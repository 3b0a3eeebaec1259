"""Formats by name, with what `job import --help` says of each. `tokimori.formats.NAME` is the rest of it."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from tokimori.formats.format import Format

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "apscheduler": "APScheduler 3, from its table.",
        "celery": "Celery beat, from Django's tables or a file.",
        "crontab": "User and system crontabs.",
        "cronstable": "cronstable's and yacron's jobs, from YAML.",
        "dkron": "Dkron's jobs, from what its API answers.",
        "kala": "Kala, from its API, its databases or a file.",
        "keiji": "Keiji's tasks, from its workspace or database.",
        "kojo": "Kōjō's job types, from its tables, YAML or PHP.",
        "koyomi": "Koyomi's jobs, from its configuration or database.",
        "kubernetes": "Kubernetes CronJobs, from YAML.",
        "perfectsched": "PerfectSched's schedules, from its configuration or database.",
        "systemd": "Timers of systemd, from their unit files.",
    }
)


def format_of(name: str) -> Format:
    """Return a format, imported when it is asked for."""
    found: Format = import_module(f"tokimori.formats.{name}").FORMAT
    return found
