"""The e-mail that an attempt sends: its target with the facts of the run in their places. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from tokimori.clock import Moment, to_datetime
from tokimori.executors.facts import facts_of
from tokimori.model.email import Email, Tls, server_of
from tokimori.model.templates import SECRETS, rendered
from tokimori.ports.executor import AttemptTask

_LONGEST_SUBJECT = 300
"""Characters."""
_OWN_HEADERS = {
    "Tokimori-Job-Id": "job_id",
    "Tokimori-Run-Id": "run_id",
    "Tokimori-Attempt": "attempt",
}


@dataclass(frozen=True, slots=True)
class Letter:
    """Letter to send: content, sender and recipients; `login` is the sender's name and password at the server."""

    host: str
    port: int
    tls: Tls
    login: tuple[str, str] | None
    sender: str
    to: Sequence[str]
    content: bytes


def letter_of(task: AttemptTask, target: Email, now: Moment) -> Letter:
    """Return the e-mail of this attempt. Its `Message-ID` is the same at each attempt: one e-mail that comes twice is
    told.
    """
    facts = facts_of(task, (target.subject, target.text))
    host, port = server_of(target.smtp, target.tls)
    login = None
    if target.user is not None and target.password is not None:
        login = target.user, facts[SECRETS + target.password]
    content = _message(task, target, facts, now).as_bytes(policy=SMTP)
    return Letter(host, port, target.tls, login, target.sender, target.to, content)


def _message(task: AttemptTask, target: Email, facts: Mapping[str, str], now: Moment) -> EmailMessage:
    message = EmailMessage(policy=SMTP)
    message["From"] = target.sender
    message["To"] = ", ".join(target.to)
    message["Subject"] = _one_line(rendered(target.subject, facts))
    message["Date"] = format_datetime(to_datetime(now).replace(microsecond=0))
    message["Message-ID"] = f"<{task.run_id}@{target.sender.partition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody answers that he is on holiday
    for header, fact in _OWN_HEADERS.items():
        message[header] = facts[fact]
    message.set_content(rendered(target.text, facts).encode(errors="replace").decode(), cte="quoted-printable")
    return message


def _one_line(subject: str) -> str:
    """Return the text as one line: more lines would be headers of their own, and encoded words would be read.

    Python decodes the latter when a header is set, and fails at some.
    """
    printable = "".join(each if each.isprintable() else " " for each in subject).replace("=?", "= ?")
    return " ".join(printable.split())[:_LONGEST_SUBJECT] or "(no subject)"
