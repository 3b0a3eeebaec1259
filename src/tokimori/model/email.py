"""E-mails as targets: a run sends one by a server of SMTP."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from tokimori.errors import InvalidInput
from tokimori.model.templates import check_no_secret, check_secret_name, check_template, naming

MOST_RECIPIENTS = 50
MOST_SUBJECT = 1_000
"""Characters of the template of a subject."""
_ADDRESS = re.compile(
    r"(?!\.|.*\.[.@])[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?\Z", re.ASCII
)
_SERVER = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(\d{1,5}))?\Z", re.ASCII)
_ALLOWED_ADDRESS = "an address such as ops@example.org, without a name beside it"


class Tls(StrEnum):
    """Encryption of the connection to the mail server."""

    STARTTLS = "starttls"
    """After a greeting in the clear; a server that does not offer it gets nothing. Port 587."""
    IMPLICIT = "implicit"
    """From the first byte on. Port 465."""
    NONE = "none"
    """Not at all: for a server on the same machine. Port 25."""


PORTS = {Tls.STARTTLS: 587, Tls.IMPLICIT: 465, Tls.NONE: 25}


class Email(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="email"):
    """An e-mail to `to`, by the server `smtp` (`HOST` or `HOST:PORT`), from `sender`.

    `subject` and `text` are templates (`tokimori.model.templates`); by default they are those of the payload, as
    notifications have them. The server gets the user `user` and the secret named by `password`, if any.
    """

    handler: ClassVar[str] = ""
    can_report: ClassVar[bool] = False

    to: tuple[str, ...]
    smtp: str
    sender: str
    tls: Tls = Tls.STARTTLS
    user: str | None = None
    password: str | None = None
    subject: str = "{{ part.subject }}"
    text: str = "{{ part.text }}"

    def check(self) -> None:
        """Raise `InvalidInput` for an e-mail that no node could send."""
        server_of(self.smtp, self.tls)
        if not 1 <= len(self.to) <= MOST_RECIPIENTS:
            message, allowed = f"email: {len(self.to)} addresses are too many or too few", f"1..{MOST_RECIPIENTS}"
            raise InvalidInput(message, field="email", value=len(self.to), allowed=allowed)
        for address in self.to:
            _check_address("email", address)
        _check_address("sender", self.sender)
        if (self.user is None) != (self.password is None):
            field = "smtp_user" if self.user is None else "smtp_password"
            message = f"{field}: a server that asks who sends wants a user and a password"
            raise InvalidInput(message, field=field, allowed="smtp_user with smtp_password, or neither")
        if self.password is not None:
            check_secret_name("smtp_password", self.password)
            self._check_private()
        if len(self.subject) > MOST_SUBJECT:
            message = f"mail_subject: {len(self.subject)} characters are too many"
            raise InvalidInput(
                message, field="mail_subject", value=len(self.subject), allowed=f"at most {MOST_SUBJECT}"
            )
        check_template("mail_subject", self.subject)
        check_no_secret("mail_subject", self.subject, "anybody on the way reads the subject")
        check_template("mail_text", self.text)

    def _check_private(self) -> None:
        if self.tls is Tls.NONE:
            message = "tls: without it everybody on the way reads the password"
            raise InvalidInput(message, field="tls", value=self.tls, allowed="starttls or implicit with smtp_password")

    def texts(self) -> Iterator[str]:
        """Yield the texts that may name secrets."""
        yield self.subject
        yield self.text
        yield "" if self.password is None else naming(self.password)


def server_of(smtp: str, tls: Tls) -> tuple[str, int]:
    """Return the host and the port of the server. Raises `InvalidInput`."""
    found = _SERVER.match(smtp)
    port = 0 if found is None else int(found[2] or PORTS[tls])
    if found is None or not 1 <= port <= 65535:
        allowed = "HOST or HOST:PORT, such as mail.example.org:587"
        raise InvalidInput(f"smtp: {smtp!r} is not a server", field="smtp", value=smtp, allowed=allowed)
    return found[1].strip("[]"), port


def _check_address(field: str, address: str) -> None:
    if _ADDRESS.match(address) is None:
        message = f"{field}: {address!r} is not an address"
        raise InvalidInput(message, field=field, value=address, allowed=_ALLOWED_ADDRESS)
