"""`tokimori job import …`: one command for each foreign format."""

from tokimori.cli.command import Group

import_jobs = Group(
    "import",
    help="Import jobs from foreign files. Jobs that exist already stay as they are.",
    nouns={
        "crontab": ("tokimori.cli.import_crontab:crontab", "User and system crontabs."),
        "kubernetes": ("tokimori.cli.import_kubernetes:kubernetes", "Kubernetes CronJobs, from YAML."),
    },
)
