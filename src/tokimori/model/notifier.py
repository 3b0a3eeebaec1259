"""Notifiers: jobs whose runs tell people of what happens to other jobs. Pure.

A notifier is a job like any other, with what it tells of beside its target. So a notification is a run, and all that
holds for runs holds for it: attempts, retries, leases, the ledger.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from tokimori.errors import InvalidInput
from tokimori.model.ids import JobId
from tokimori.model.policies import Retry, Seconds
from tokimori.model.quiet import check_quiet
from tokimori.model.templates import check_no_secret, check_template
from tokimori.model.words import check_word

PREFIX = "notifier:"
"""So begin the ids of notifiers: they are found among any number of jobs."""
MOST_NOTIFIERS = 10
"""So many notifiers one event of a job may have."""
LONGEST_BUNDLE = 86_400
"""Seconds."""
RETRY = Retry(attempts=6, delay=10, backoff=3, cap=600)
"""A receiver that is away for a quarter of an hour gets its notifications all the same."""
MOST_TEXT = 4_000
"""Characters of a template."""
FACTS = ("event", "summary", "job_id", "run_id", "error", "count", "first", "last", "details", "notifier")
"""What the templates of notifications may name."""
DEFAULT_SUBJECT = "{{ summary }}"
DEFAULT_TEXT = "{{ summary }}\n\n{{ details }}\n"


class NotifyOn(StrEnum):
    """Events that a job may report."""

    FAILURE = "failure"
    """A run has failed, with all its retries."""
    RECOVERY = "recovery"
    """After trouble that was told of, a run has succeeded, or what was overdue has come."""
    OVERDUE = "overdue"
    """What was expected has not come."""
    PARKED = "parked"
    """The job was parked by a failure: nothing of it runs until somebody resolves it."""
    HELD = "held"
    """A run is held, and waits for somebody."""
    SUCCESS = "success"
    """A run has succeeded."""


TROUBLES = (NotifyOn.FAILURE, NotifyOn.RECOVERY, NotifyOn.OVERDUE, NotifyOn.PARKED, NotifyOn.HELD)
"""What is meant where no event is named: all but each success."""
Notify = Mapping[NotifyOn, tuple[str, ...]]


class Notifier(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Terms that make a job a notifier.

    `subject` and `text` are templates of what it tells (`FACTS`). For `bundle` seconds after something has happened all
    of the same cause joins the one notification. In `quiet` hours they wait (`tokimori.model.quiet`), by the time zone
    of the job. With `elsewhere` it also tells of what runs elsewhere and does not report
    (`tokimori.model.expectation`).
    """

    subject: str | None = None
    text: str | None = None
    bundle: Seconds = 0
    quiet: tuple[str, ...] = ()
    elsewhere: bool = False


def notifier_id(name: str) -> JobId:
    """Return the id of the job that is the notifier of this name."""
    return JobId(PREFIX + name)


def name_of(job_id: str) -> str:
    """Return the name of the notifier with this id."""
    return job_id.removeprefix(PREFIX)


def is_notifier(job_id: str) -> bool:
    """Return whether the id is one of a notifier."""
    return job_id.startswith(PREFIX)


def check_notifier(job_id: str, notifier: Notifier | None, notify: Notify) -> None:
    """Check that a job with this id may be, or not be, a notifier. Raises `InvalidInput`."""
    if is_notifier(job_id) != (notifier is not None):
        raise InvalidInput(
            f"notifier: the ids of notifiers, and of no other jobs, begin with {PREFIX!r}, and this one is {job_id!r}",
            field="notifier",
            value=job_id,
            allowed=f"an id such as {PREFIX}ops with the field `notifier`: `tokimori notifier add` makes one",
        )
    if notifier is not None:
        check_word("notifier", name_of(job_id))
        if notify:
            message = "notify: nobody is told of the runs of a notifier, which are messages themselves"
            raise InvalidInput(message, field="notify", value=list(notify), allowed="none in a notifier")


def check_terms(notifier: Notifier) -> None:
    """Check what a notifier says. Raises `InvalidInput`."""
    for field in ("subject", "text"):
        text = getattr(notifier, field) or ""
        name = f"notifier.{field}"
        if len(text) > MOST_TEXT:
            message = f"{name}: {len(text)} characters are too many"
            raise InvalidInput(message, field=name, value=len(text), allowed=f"at most {MOST_TEXT}")
        check_no_secret(name, text, "notifications are kept; the target of the notifier may name secrets")
        check_template(name, text, FACTS, "fact of a notification")
    if notifier.bundle > LONGEST_BUNDLE:
        raise InvalidInput(
            f"notifier.bundle: {notifier.bundle:g} seconds are too long",
            field="notifier.bundle",
            value=notifier.bundle,
            allowed=f"at most {LONGEST_BUNDLE} seconds, which is a day",
        )
    check_quiet(notifier.quiet)


def check_notify(notify: Notify) -> None:
    """Check whom a job tells. Raises `InvalidInput`."""
    for event, names in notify.items():
        if not 1 <= len(names) <= MOST_NOTIFIERS:
            raise InvalidInput(
                f"notify.{event}: {len(names)} notifiers are too many or too few",
                field=f"notify.{event}",
                value=len(names),
                allowed=f"1..{MOST_NOTIFIERS} names of notifiers",
            )
        for name in names:
            check_word(f"notify.{event}", name)


def notifiers_in(notify: Notify) -> Sequence[str]:
    """Return the names of all notifiers that these events name."""
    return sorted({name for names in notify.values() for name in names})
