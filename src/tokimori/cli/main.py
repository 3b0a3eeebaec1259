"""The `tokimori` program: its nouns, and how it ends."""

import gc
import sys
from collections.abc import Sequence

import click

from tokimori.cli.command import Group
from tokimori.cli.completion import completed
from tokimori.cli.errors import run


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and end the process with its exit code."""
    code = completed(program)
    if code is None:
        code = run(program, sys.argv[1:] if arguments is None else list(arguments))
    gc.freeze()  # the system takes all the memory back: to look through it first took a fifth of a short command's time
    sys.exit(code)


program = Group(
    "tokimori",
    help="Tokimori, keeper of time: say what to run and when; it runs on time, once, and can prove it.",
    nouns={
        "serve": ("tokimori.cli.serve:serve", "Run a node: fire schedules, run jobs, answer over HTTP."),
        "worker": ("tokimori.cli.app:worker", "Run a node for the functions of an app alone."),
        "app": ("tokimori.cli.app:app", "Apps: check what a deploy changes; version: which code counts."),
        "init": ("tokimori.cli.init:init", "Make a workspace: settings, a folder of tasks, an example."),
        "task": ("tokimori.cli.task:task", "Tasks as code: create, build, builds, rollback, run, get, list, logs, …"),
        "job": ("tokimori.cli.job:job", "Jobs: add, list, show, explain, update, pause, trigger, backfill, import, …"),
        "schedule": ("tokimori.cli.job_next:schedule", "Schedules: explain."),
        "calendar": ("tokimori.cli.calendar:calendar", "Calendars: days off. add, list, show, update, delete."),
        "queue": ("tokimori.cli.queue:queue", "Queues: list, pause, resume; --all for everything."),
        "verify": ("tokimori.cli.ledger:verify", "Check that each occurrence is a run or a skip, or was pruned."),
        "run": ("tokimori.cli.run:run", "Runs: list, show, logs, cancel, restart, signal, hold, resume, report."),
        "top": ("tokimori.cli.top:top", "Watch nodes and runs on the terminal, and order them by keys."),
        "events": ("tokimori.cli.events:events", "Tell of runs as they end; -f goes on with it."),
        "alarms": ("tokimori.cli.alarms:alarms", "What should have ended well and has not."),
        "expect": ("tokimori.cli.alarms:expect", "Expect something elsewhere to report: a dead man's switch."),
        "ping": ("tokimori.cli.alarms:ping", "Report that something elsewhere has ended well, starts or failed."),
        "publish": ("tokimori.cli.channels:publish", "Publish a message to whoever subscribes to a topic."),
        "subscribe": ("tokimori.cli.channels:subscribe", "Print the messages of a topic; -f goes on with it."),
        "channel": ("tokimori.cli.channels:channel", "Channels: list."),
        "unsubscribe": ("tokimori.cli.channels:unsubscribe", "Forget how far a subscriber of a topic has got."),
        "notifier": (
            "tokimori.cli.notifier:notifier",
            "Notify people of what happens to jobs: add, list, show, delete, test.",
        ),
        "lock": ("tokimori.cli.lock:lock", "Semaphores: hold one while a command runs, list, set, delete."),
        "apply": ("tokimori.cli.apply:apply", "Make the jobs of a set those that files declare, after a diff."),
        "set": ("tokimori.cli.apply:sets", "Sets: list, show: who applied each last, and if that came to its end."),
        "export": ("tokimori.cli.export:export", "Write jobs as text: crontab, toml, json."),
        "token": ("tokimori.cli.token:token", "Tokens: who may ask nodes over HTTP. create, list, revoke."),
        "secret": ("tokimori.cli.secret:secret", "Secrets that jobs name: set, list, delete, rotate, key."),
        "audit": ("tokimori.cli.audit:audit", "The audit log: who has changed what. list."),
        "node": ("tokimori.cli.node:node", "Nodes: list, address, drain, resume, stop."),
        "logs": ("tokimori.cli.logs:logs", "What runs have written, of all nodes."),
        "system": ("tokimori.cli.system:system", "A node in the background: start, stop, status, logs, install, …"),
        "backup": ("tokimori.cli.restore:backup", "Everything in the store as one file, also while nodes run."),
        "restore": ("tokimori.cli.restore:restore", "Put what a backup holds into the store."),
        "doctor": ("tokimori.cli.doctor:doctor", "What is wrong here, and what to do about it."),
        "db": ("tokimori.cli.db:db", "The store: status, migrate, sql, check, copy."),
        "context": ("tokimori.cli.remote:context", "Nodes elsewhere, to ask instead of the store: add, use, list."),
        "config": ("tokimori.cli.config:config", "Settings: show, check, import."),
        "man": ("tokimori.cli.manual:man", "Print or write the manual pages."),
        "completion": ("tokimori.cli.completion:completion", "What makes bash, zsh or fish complete command lines."),
    },
    sections={
        "Jobs and runs": (
            *("job", "run", "logs", "events", "schedule", "calendar", "queue", "notifier", "lock", "apply", "set"),
            *("export", "verify"),
        ),
        "Alarms": ("alarms", "expect", "ping"),
        "Apps and tasks as code": ("app", "init", "task"),
        "Messages": ("publish", "subscribe", "unsubscribe", "channel"),
        "Nodes": ("serve", "worker", "system", "node", "top", "context"),
        "Access": ("token", "secret", "audit"),
        "The store and this machine": ("doctor", "backup", "restore", "db", "config", "completion", "man"),
    },
    examples=(
        ("serve", "a node with a page, on a file in your home"),
        ("job add hello --schedule 'every 10 seconds' --command 'echo hi'", ""),
        ("run list --since 1h --state failed", "what failed in the last hour"),
        ("job logs hello -f", "what the newest run writes"),
    ),
)
click.version_option(package_name="tokimori", message="%(prog)s %(version)s")(program)
