"""Printed jobs after a change, and printed values of their fields anywhere."""

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokimori.cli.command import options
from tokimori.cli.output import NOTHING, print_json, print_lines, print_notice
from tokimori.cli.table import At
from tokimori.clock import Moment
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from tokimori.model.job import Job

SHOWN_MOMENTS = 5
"""How many next moments a job has that was changed or is shown."""
_LETS_IN = re.compile(r"auth|cookie|token|secret|key|pass", re.IGNORECASE)
"""Names of headers and variables whose values are secrets, as far as names show it."""
_ONLY_NAMES = re.compile(r"([A-Za-z]+ )?\{\{ *secret\.[A-Za-z0-9._-]+ *\}\}")
"""A secret by its name, perhaps behind how it is sent (Bearer)."""


def coming(job: "Job") -> Moment | None:
    """Return the next moment of a job after now; None if none is known."""
    from tokimori.clock import SystemClock
    from tokimori.model.job import schedule_of

    now = SystemClock().now()
    if job.next_due is None or job.next_due > now:
        return job.next_due
    try:
        return schedule_of(job.definition, job.anchor, job.id, job.days_off).next_after(now)
    except InvalidInput:  # a zone that this machine does not know
        return None


def next_cell(job: "Job | None") -> At | str:
    """Return the next moment of a job for a table: `due now` if that has come, and no other is to come."""
    if job is None:
        return NOTHING
    moment = coming(job)
    return "due now" if moment is None and job.next_due is not None else At(moment, job.definition.time_zone)


def print_job(done: str, changed: "Job", moments: Sequence[Moment] | None = None) -> None:
    """Print the change, the job's new state, and warnings about its definition."""
    from tokimori.service.views.jobs import Job as JobView
    from tokimori.service.why.job import what_is_lost

    if moments is not None and (lost := what_is_lost(changed.definition)) is not None:
        print_notice(lost)
    if options().as_json:
        print_json(JobView.made(changed, next_times=moments))
        return
    upcoming = "" if changed.next_due is None else f", next {next_cell(changed)}"
    print_lines(f"{done} {changed.id}: {changed.state}{upcoming}")


def masked(name: str, value: object) -> object:
    """Return the value of a field with headers' credentials hidden. `--json` shows these, and the names of secrets."""
    kind, _, inner = name.partition(".")
    if kind not in ("headers", "env"):
        return value
    if not isinstance(value, dict):
        return _masked(inner, value)
    return {header: _masked(header, content) for header, content in value.items()}


def _masked(name: str, value: object) -> object:
    return "***" if _LETS_IN.search(name) and not _ONLY_NAMES.fullmatch(str(value)) else value


def shown_value(value: object) -> str:
    """Return a value of a field, as a command line has it."""
    match value:
        case list() | tuple():
            return shlex.join(map(str, value))
        case dict():
            return ", ".join(f"{name}={shown_value(each)}" for name, each in value.items())
        case None:
            return ""
        case _:
            return str(value)
