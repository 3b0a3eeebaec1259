"""`tokimori job import …`: one command for each foreign format."""

from tokimori.cli.command import Group

import_jobs = Group(
    "import",
    help="Import jobs of other schedulers. Jobs that exist already stay as they are.",
    nouns={
        "crontab": ("tokimori.cli.import_crontab:crontab", "User and system crontabs."),
        "keiji": ("tokimori.cli.import_keiji:keiji", "Keiji's tasks, from its workspace or database."),
        "koyomi": ("tokimori.cli.import_koyomi:koyomi", "Koyomi's jobs, from its configuration or database."),
        "kubernetes": ("tokimori.cli.import_kubernetes:kubernetes", "Kubernetes CronJobs, from YAML."),
        "perfectsched": (
            "tokimori.cli.import_perfectsched:perfectsched",
            "PerfectSched's schedules, from its configuration or database.",
        ),
        "systemd": ("tokimori.cli.import_systemd:systemd", "Timers of systemd, from their unit files."),
    },
)
