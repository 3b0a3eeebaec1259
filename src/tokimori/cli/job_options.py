"""The options that define a job: one for every field of `JobFields`."""

import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import click

from tokimori.cli.command import arguments_given
from tokimori.cli.completing import zones
from tokimori.cli.moment import AHEAD, Length
from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.dependents import Join, On
from tokimori.model.email import Tls
from tokimori.model.notifier import TROUBLES
from tokimori.model.policies import AnchoredOn, Misfire, OnExhausted, OnLostLease, Overlap
from tokimori.schedules.business_days import Shift
from tokimori.schedules.schedule import Fold, Gap
from tokimori.schedules.stamp import told_ahead


def _seconds(name: str, field: str, help_text: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    return click.option(name, field, type=Length(), metavar="LENGTH", help=help_text)


def _choice(kind: type[StrEnum]) -> click.Choice[str]:
    return click.Choice([member.value for member in kind])


def _count_or_unlimited(_context: click.Context, _option: click.Parameter, text: str | None) -> int | str | None:
    """Return a number where it is one; what else is allowed is the service's affair."""
    return int(text) if text is not None and text.lstrip("-").isdecimal() else text


_OPTIONS = (
    click.option("--command", metavar="TEXT", help="A command line for the shell; or give a program after `--`."),
    click.option("--function", metavar="NAME", help="Run the handler of this name, which a node's app has."),
    click.option("--url", metavar="URL", help="Send a request to this address; see --method, --header, --body."),
    click.option("--email", multiple=True, metavar="ADDRESS", help="Send an e-mail to it; see --smtp, --sender."),
    click.option("--build", metavar="TASK@DIGEST", help="Run this build of a task: `tokimori task builds`."),
    click.option(
        "--client/--no-client",
        default=None,
        help="Give each run of the command its node's address, with a token for this job while it runs.",
    ),
    click.option(
        "--own-process/--no-own-process",
        default=None,
        help="Each run of the function gets a worker process for itself alone.",
    ),
    click.option("--noop", is_flag=True, default=None, help="Run nothing: for tests."),
    click.option("--schedule", metavar="TEXT", help='Such as "0 3 * * *" or "every 90 seconds".'),
    click.option(
        "--timezone",
        "time_zone",
        metavar="ZONE",
        shell_complete=zones,
        help="The zone of the schedule, such as Europe/Paris.",
    ),
    click.option("--gap", type=_choice(Gap), help="What to do with times that clocks skip."),
    click.option("--fold", type=_choice(Fold), help="What to do with times that clocks show twice."),
    click.option("--calendar", "calendars", multiple=True, metavar="NAME", help="Days off, on which nothing runs."),
    click.option("--shift", type=_choice(Shift), help="Instead of a day off, run on that business day."),
    click.option("--starts-at", metavar="TIME", help=f"No occurrence before: {AHEAD}."),
    click.option("--ends-at", metavar="TIME", help="No occurrence after, as --starts-at; then the job is finished."),
    click.option("--runs-remaining", type=int, metavar="N", help="After N scheduled runs the job is finished."),
    _seconds("--delay", "delay", "How long after its nominal time a run is due."),
    _seconds("--jitter", "jitter", "Up to this much later, to spread jobs; always the same for an occurrence."),
    click.option("--anchored-on", type=_choice(AnchoredOn), help="What an interval is counted from."),
    click.option("--name", metavar="TEXT", help="A name for people."),
    click.option("--description", metavar="TEXT", help="What it is for."),
    click.option("--owner", metavar="TEXT", help="Who is responsible for it."),
    click.option("--misfire", type=_choice(Misfire), help="What to do with missed occurrences."),
    _seconds("--late-after", "late_after", "An occurrence that is later than this is missed."),
    _seconds("--grace", "grace", "A missed occurrence that is later than this does not run."),
    click.option("--max-running", type=int, metavar="N", help="How many of its runs run at a time; 0: no limit."),
    click.option("--max-waiting", type=int, metavar="N", help="How many more runs may wait; further ones are refused."),
    click.option(
        "--semaphore", "semaphores", multiple=True, metavar="NAME[:WEIGHT]", help="A run holds this while it runs."
    ),
    click.option("--concurrency-key", metavar="TEXT", help="The key of runs that bring none of their own."),
    click.option("--max-running-per-key", type=int, metavar="N", help="How many runs of one key run at a time."),
    click.option("--on-overlap", type=_choice(Overlap), help="What to do with occurrences above --max-running."),
    click.option("--attempts", type=int, metavar="N", help="How many attempts a run has, the first one included."),
    _seconds("--retry-delay", "retry_delay", "How long to wait before the first retry."),
    click.option(
        "--retry-backoff", type=float, metavar="FACTOR", help="Each further delay is the one before, times this."
    ),
    _seconds("--retry-cap", "retry_cap", "The longest delay."),
    click.option("--retry-jitter", type=float, metavar="0..1", help="Up to this part of a delay is added to it."),
    _seconds("--retry-epsilon", "retry_epsilon", "No retry later than this after the nominal time."),
    click.option(
        "--lost-attempts", metavar="N", callback=_count_or_unlimited, help="How many lost are repeated; or unlimited."
    ),
    click.option(
        "--asked-delay", type=Length(), metavar="LENGTH", help="Least wait where a run asks to be tried again."
    ),
    click.option("--asked-retries", type=int, metavar="N", help="How often a run may ask for that; by default 1000."),
    _seconds("--retry-wait", "retry_wait", "How long a run waits that asks for it without a time, or is released."),
    click.option("--payload", metavar="JSON", help="Data for each of its runs; a request may bring others."),
    click.option("--priority", type=int, metavar="-100..100", help="Larger numbers run first."),
    click.option("--queue", metavar="NAME", help="The queue to which it belongs."),
    click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label that the node must carry."),
    _seconds("--timeout", "timeout", "How long an attempt may take; a request by default 30 seconds."),
    _seconds("--timeout-grace", "timeout_grace", "How long after TERM comes KILL."),
    click.option("--on-lost-lease", type=_choice(OnLostLease), help="What a node that is cut off does with its runs."),
    click.option("--on-exhausted", type=_choice(OnExhausted), help="What to do when the attempts are used up."),
    click.option("--on-failure-job", metavar="ID", help="A job to run after a failure."),
    click.option(
        "--notify",
        multiple=True,
        metavar="[EVENT=]NAME",
        help="Tell this notifier: of failure, recovery, overdue, parked, held, success; or of all but success.",
    ),
    click.option(
        "--auto-complete-success/--no-auto-complete-success",
        default=None,
        help="Whether exit code 0 is enough for a success, or `tokimori run report` has to say so.",
    ),
    click.option(
        "--after",
        "parents",
        multiple=True,
        metavar="ID[=ON]",
        help="Run after it: on success, failure or always.",
    ),
    click.option("--join", type=_choice(Join), help="Run after each of several parents, or after all of them."),
    click.option("--retention", metavar="DURATION", help="How long runs and skips are kept, such as P7D."),
    click.option("--keep-runs", type=int, metavar="N", help="The newest N runs are kept longer than that."),
    _seconds("--expect-within", "expect_within", "It is overdue if no run succeeds so long after the last that did."),
    click.option("--env", multiple=True, metavar="KEY=VALUE", help="An environment variable for the command."),
    click.option("--cwd", metavar="FOLDER", help="The folder in which the command runs; by default HOME."),
    click.option("--user", metavar="NAME", help="The OS user that it runs as; the node must run as root."),
    click.option("--stdin", metavar="TEXT", help="What the command reads from standard input."),
    click.option("--shell-path", metavar="FILE", help="The shell that runs --command."),
    click.option("--method", metavar="WORD", help="The request's method; by default GET, or POST with a body."),
    click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header of the request."),
    click.option(
        "--body", metavar="TEXT", help="The request's body; by default the payload, where the method has one."
    ),
    click.option(
        "--expect", type=int, multiple=True, metavar="STATUS", help="A status that is a success; by default all of 2xx."
    ),
    click.option("--sign-with", metavar="SECRET", help="Sign the request with this secret (Standard Webhooks)."),
    _seconds("--callback-within", "callback_within", "After 202 the service says within this how the run ended."),
    click.option("--smtp", metavar="HOST[:PORT]", help="The server that takes the e-mail."),
    click.option("--sender", metavar="ADDRESS", help="From whom the e-mail is."),
    click.option("--tls", type=_choice(Tls), help="How it is encrypted on the way to the server; by default starttls."),
    click.option("--smtp-user", metavar="NAME", help="The user that the server asks for."),
    click.option("--smtp-password", metavar="SECRET", help="The secret that is his password, by its name."),
    click.option("--mail-subject", metavar="TEMPLATE", help="By default the payload's: {{ part.subject }}."),
    click.option("--mail-text", metavar="TEMPLATE", help="By default the payload's: {{ part.text }}."),
    click.option("--subject", metavar="TEMPLATE", help="Of a notifier: the subject of its notifications."),
    click.option("--text", metavar="TEMPLATE", help="Of a notifier: the text of its notifications."),
    _seconds("--bundle", "bundle", "Of a notifier: what has one cause within this time is one notification."),
    click.option(
        "--quiet", multiple=True, metavar="HOURS", help="Of a notifier: they wait; 22:00-07:00, or sat 00:00-24:00."
    ),
    click.option(
        "--elsewhere", is_flag=True, default=None, help="Of a notifier: tell of `tokimori expect` without a ping, too."
    ),
    click.option("--mailto", metavar="ADDRESS", help="Kept of crontabs: see --notify, `tokimori notifier add`."),
)
_RETRY = {
    "attempts": "attempts",
    "retry_delay": "delay",
    "retry_backoff": "backoff",
    "retry_cap": "cap",
    "retry_jitter": "jitter",
    "retry_epsilon": "epsilon",
    "lost_attempts": "lost_attempts",
    "asked_delay": "asked_delay",
    "asked_retries": "asked_retries",
    "retry_wait": "wait",
}
"""The fields of `Retry` by their options."""
_NOTIFIER = ("subject", "text", "bundle", "quiet", "elsewhere")
"""The fields of `Notifier`, which are their options."""


SECTIONS = {
    "What it runs": (
        *(
            "command",
            "function",
            "own_process",
            "build",
            "client",
            "url",
            "email",
            "noop",
            "payload",
            "env",
            "cwd",
            "user",
            "stdin",
            "shell_path",
        ),
        *("method", "headers", "body", "expect", "callback_within", "sign_with"),
        *("smtp", "sender", "tls", "smtp_user", "smtp_password", "mail_subject", "mail_text"),
    ),
    "When": (
        *("schedule", "time_zone", "parents", "join", "calendars", "shift", "starts_at", "ends_at", "runs_remaining"),
        *("delay", "jitter", "gap", "fold", "anchored_on", "misfire", "late_after", "grace"),
    ),
    "Where, and how many at a time": (
        *("queue", "labels", "priority", "max_running", "max_waiting", "on_overlap", "semaphores"),
        *("concurrency_key", "max_running_per_key"),
    ),
    "How it ends": (
        *("timeout", "timeout_grace", "attempts", "retry_delay", "retry_backoff", "retry_cap", "retry_jitter"),
        *("retry_epsilon", "lost_attempts", "asked_delay", "asked_retries", "retry_wait", "on_exhausted"),
        *("on_failure_job", "notify", "on_lost_lease", "auto_complete_success", "expect_within"),
    ),
    "As a notifier": ("subject", "text", "bundle", "quiet", "elsewhere"),
    "For people": ("name", "description", "owner", "mailto", "retention", "keep_runs"),
}
"""The options in the help, by what they are about."""


def job_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command all of them, in order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fields_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `JobFields` from these options and the program after `--`; only those that were given."""
    given = {name: value for name, value in values.items() if value is not None and value != ()}
    retry = {field: given.pop(option) for option, field in _RETRY.items() if option in given}
    if notifier := {option: given.pop(option) for option in _NOTIFIER if option in given}:
        given["notifier"] = notifier
    for name in ("labels", "env"):
        if name in given:
            given[name] = _pairs(name, given[name])
    if "headers" in given:
        given["headers"] = dict(_header(text) for text in given["headers"])
    if "notify" in given:
        given["notify"] = _notify(given["notify"])
    if "parents" in given:
        given["parents"] = [_parent(text) for text in given["parents"]]
    if retry:
        given["retry"] = retry
    arguments = arguments_given()
    if arguments is not None:
        if "command" in given:
            raise InvalidInput(
                "command: given twice", field="command", value=shlex.join(arguments), allowed="--command or -- ARGV"
            )
        given["command"] = arguments
    return given


def with_moments(fields: Mapping[str, Any], now: Moment) -> dict[str, Any]:
    """Return the fields, with the bounds of the job's time as a definition has them. Raises `InvalidInput`."""
    bounds = {name: fields[name] for name in ("starts_at", "ends_at") if fields.get(name) is not None}
    return {**fields, **{name: told_ahead(name, text, now) for name, text in bounds.items()}}


def _parent(text: str) -> dict[str, str]:
    """`ID` or `ID=ON`: no id holds an equals sign."""
    job, _, on = text.partition("=")
    return {"job": job, "on": on or On.SUCCESS.value}


def _notify(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """`EVENT=NAME`, or `NAME` for all events but each success."""
    found: dict[str, list[str]] = {}
    for text in texts:
        event, equals, name = text.rpartition("=")
        for each in (event,) if equals else TROUBLES:
            found.setdefault(str(each), []).append(name)
    return found


def _header(text: str) -> tuple[str, str]:
    """`NAME: VALUE`, as curl has it."""
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise InvalidInput(f"header: {text!r} is not a header", field="header", value=text, allowed="'NAME: VALUE'")
    return name.strip(), value.strip()


def _pairs(name: str, texts: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidInput(f"{name}: {text!r} is not a pair", field=name, value=text, allowed="KEY=VALUE")
        pairs[key] = value
    return pairs
