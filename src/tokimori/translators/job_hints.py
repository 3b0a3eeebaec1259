"""Hints in a text that a person edits: further fields of a job, with an example and their meaning."""

from typing import Final, NamedTuple


class Hint(NamedTuple):
    """A field that a job may have, how it is written, and what it means."""

    name: str
    example: str
    meaning: str


HINTS: Final = (
    Hint("schedule", '"0 3 * * *"', "or: every 90 seconds; on friday at 22:00; R/2030-01-01T00:00:00Z/P1D; @daily"),
    Hint("time_zone", '"Europe/Paris"', "the zone of the schedule"),
    Hint("command", '"make report"', 'for the shell; or a program and its arguments: ["make", "report"]'),
    Hint("function", '"mail.send"', "instead of a command: a handler of an app"),
    Hint("url", '"https://example.org/hook"', "instead of a command: where a request goes"),
    Hint("name", '"Nightly report"', "for people"),
    Hint("description", '"What it is for"', "for people"),
    Hint("owner", '"ada"', "who is responsible"),
    Hint("queue", '"default"', "what is paused together"),
    Hint("labels", '{ region = "eu" }', "what the node must carry"),
    Hint("priority", "0", "-100 to 100; larger numbers run first"),
    Hint("timeout", "3600", "seconds that an attempt may take"),
    Hint("retry", "{ attempts = 3, delay = 10, backoff = 2, cap = 600 }", "seconds; how failures are tried again"),
    Hint("max_running", "1", "how many of its runs run at a time; 0: no limit"),
    Hint("max_waiting", "10", "how many more may wait"),
    Hint("on_overlap", '"skip"', "or queue, replace: occurrences above max_running"),
    Hint("misfire", '"latest"', "or all, skip: occurrences that were missed"),
    Hint("grace", "3600", "seconds; a missed occurrence that is later does not run"),
    Hint("semaphores", '["db", "gpu:2"]', "what a run holds while it runs"),
    Hint("calendars", '["holidays"]', "days on which nothing runs"),
    Hint("shift", '"next"', "instead of a day off; or previous"),
    Hint("parents", '[{ job = "import", on = "success" }]', "the jobs after which it runs"),
    Hint("join", '"any"', "or all: after each of the parents, or after all of them"),
    Hint("on_failure_job", '"alert"', "a job that runs after a failure"),
    Hint("on_exhausted", '"fail"', "or park: what becomes of the job after the last attempt"),
    Hint("payload", '"{}"', "JSON for each of its runs"),
    Hint("env", '{ LANG = "C" }', "the command's environment"),
    Hint("cwd", '"/srv/app"', "the command's folder; by default HOME"),
    Hint("user", '"www-data"', "the OS user; the node must run as root"),
    Hint("stdin", '"text"', "what the command reads"),
    Hint("method", '"POST"', "of the request; headers, body and expect, too"),
    Hint("starts_at", '"2030-01-01T00:00:00"', "no occurrence before; ends_at: none after"),
    Hint("delay", "60", "seconds from its nominal time to its start; jitter: up to so many more"),
    Hint("retention", '"P30D"', "how long runs are kept; keep_runs: how many are kept longer"),
)
"""The fields that people ask for; all others have the same names as over HTTP."""
