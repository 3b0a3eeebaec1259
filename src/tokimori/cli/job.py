"""`tokimori job …`: which commands there are. Each is imported when it is called, so that help need not wait."""

from tokimori.cli.command import Group

job = Group(
    "job",
    help="Jobs: what to run, and when.",
    nouns={
        "add": ("tokimori.cli.job_add:add", "Add a job, by options or (-e) in an editor."),
        "update": ("tokimori.cli.job_add:update", "Change fields of a job; the others stay."),
        "edit": ("tokimori.cli.job_edit:edit", "Edit a job as a text in $VISUAL or $EDITOR."),
        "modify": ("tokimori.cli.job_edit:edit", "The same as edit."),
        "copy": ("tokimori.cli.job_orders:copy", "Add a job with the definition of another one."),
        "rename": ("tokimori.cli.job_orders:rename", "Give a job another id."),
        "delete": ("tokimori.cli.job_delete:delete", "Delete a job, or all that match, or all of them."),
        "import": ("tokimori.cli.job_import:import_jobs", "Read jobs from foreign files: crontab, Kubernetes."),
        "list": ("tokimori.cli.job_list:list_jobs", "List jobs by id, with their next moments."),
        "show": ("tokimori.cli.job_show:show", "Show a job, its next moments and what was skipped lately."),
        "next": ("tokimori.cli.job_next:next_moments", "Print the next moments of jobs, or of a schedule."),
        "explain": ("tokimori.cli.job_show:explain", "Explain a job's schedule in English."),
        "why": (
            "tokimori.cli.why:why_job",
            "Say what keeps a job's runs from starting, and what mends it.",
        ),
        "logs": ("tokimori.cli.run_logs:job_logs", "Print what the newest run of a job wrote."),
        "skips": ("tokimori.cli.job_show:skips", "List a job's skipped occurrences, and why."),
        "counts": ("tokimori.cli.job_show:counts", "Count a job's runs and skips by day and outcome."),
        "ledger": ("tokimori.cli.ledger:ledger", "Say of each occurrence what became of it."),
        "stats": ("tokimori.cli.job_stats:stats", "Say how often a job succeeds, how long it takes, and how late."),
        "graph": ("tokimori.cli.job_graph:graph", "Print which jobs run after which."),
        "trigger": ("tokimori.cli.job_trigger:trigger", "Run a job now, or at a given time, or all that match."),
        "backfill": ("tokimori.cli.job_backfill:backfill", "Make runs for past occurrences that have none."),
        "pause": ("tokimori.cli.job_orders:pause", "Pause a job, or all that match: nothing of it starts."),
        "disable": ("tokimori.cli.job_orders:pause", "The same as pause."),
        "resume": ("tokimori.cli.job_orders:resume", "Resume a paused job, or all that match."),
        "enable": ("tokimori.cli.job_orders:resume", "The same as resume."),
        "cancel": ("tokimori.cli.orders:cancel_job", "Cancel all runs of a job that have not ended."),
        "restart": ("tokimori.cli.orders:restart_job", "Restart all running runs of a job."),
        "resolve": ("tokimori.cli.job_orders:resolve", "Enable a job that a failure has parked."),
    },
    sections={
        "Define": ("add", "update", "edit", "modify", "copy", "rename", "delete", "import"),
        "Look": ("list", "show", "next", "explain", "why", "logs", "skips", "counts", "ledger", "stats", "graph"),
        "Order": ("trigger", "backfill", "pause", "disable", "resume", "enable", "resolve", "cancel", "restart"),
    },
    examples=(
        ("job add nightly --schedule '0 3 * * *' --command 'make report'", "every night at three"),
        ("job trigger nightly --wait", "now; the exit code is the run's"),
        ("job edit nightly", "as a text, with a diff"),
        ("job pause 'etl-*' --reason repairs", "all that match, after a question"),
    ),
)
