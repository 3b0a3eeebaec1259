"""`tokimori job import …`: one command for each foreign format."""

from tokimori.cli.command import Group

import_jobs = Group(
    "import",
    help="Read jobs from foreign files. What is there already stays as it is.",
    nouns={
        "crontab": ("tokimori.cli.import_crontab:crontab", "User and system crontabs."),
        "kubernetes": ("tokimori.cli.import_kubernetes:kubernetes", "Kubernetes CronJobs, from YAML."),
    },
)
