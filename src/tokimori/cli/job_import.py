"""`tokimori job import …`: one command for each foreign format."""

from tokimori.cli.command import Group

import_jobs = Group(
    "import",
    help="Import jobs of other schedulers. Jobs that exist already stay as they are.",
    nouns={
        "apscheduler": ("tokimori.cli.import_apscheduler:apscheduler", "APScheduler 3, from its table."),
        "celery": ("tokimori.cli.import_celery:celery", "Celery beat, from Django's tables or a file."),
        "crontab": ("tokimori.cli.import_crontab:crontab", "User and system crontabs."),
        "kala": ("tokimori.cli.import_kala:kala", "Kala, from its API, its databases or a file."),
        "keiji": ("tokimori.cli.import_keiji:keiji", "Keiji's tasks, from its workspace or database."),
        "kojo": ("tokimori.cli.import_kojo:kojo", "Kōjō's job types, from its tables, YAML or PHP."),
        "koyomi": ("tokimori.cli.import_koyomi:koyomi", "Koyomi's jobs, from its configuration or database."),
        "kubernetes": ("tokimori.cli.import_kubernetes:kubernetes", "Kubernetes CronJobs, from YAML."),
        "perfectsched": (
            "tokimori.cli.import_perfectsched:perfectsched",
            "PerfectSched's schedules, from its configuration or database.",
        ),
        "systemd": ("tokimori.cli.import_systemd:systemd", "Timers of systemd, from their unit files."),
    },
)
