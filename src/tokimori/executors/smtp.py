"""E-mails sent by smtplib, each in a thread. Loaded with the first e-mail."""

import smtplib
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from threading import Event
from typing import BinaryIO

from tokimori.clock import Moment, to_datetime
from tokimori.executors.facts import facts_of
from tokimori.executors.http.addresses import Network, may_be_asked
from tokimori.executors.keeper.kernel import is_short
from tokimori.model.email import Email, Tls, server_of
from tokimori.model.mail import parts_in
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.templates import SECRETS, rendered
from tokimori.ports.executor import AttemptTask

_LONGEST_SUBJECT = 300
"""Characters."""
_NOTIFIED = "{{ part.text }}"
"""The text of an e-mail that is a notification, which brings its HTML, too."""
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
    """Return the e-mail of this attempt. Its `Message-ID` is the same at each attempt, so repeats are recognised."""
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
    parts, domain = parts_in(task.payload), target.sender.partition("@")[2]
    message["Message-ID"] = f"<{parts.begins or task.run_id}@{domain}>"
    if parts.threads:  # RFC 5322, 3.6.4: mail programs show it below what it is about
        message["In-Reply-To"] = f"<{parts.threads[0]}@{domain}>"
        message["References"] = " ".join(f"<{each}@{domain}>" for each in parts.threads)
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody answers that he is on holiday
    for header, fact in _OWN_HEADERS.items():
        message[header] = facts[fact]
    message.set_content(rendered(target.text, facts).encode(errors="replace").decode(), cte="quoted-printable")
    if parts.html is not None and target.text == _NOTIFIED:
        html = parts.html.encode(errors="replace").decode()
        message.add_alternative(html, subtype="html", cte="quoted-printable")
    return message


def _one_line(subject: str) -> str:
    """Return the text as one line: more lines would be headers of their own, and encoded words would be read.

    Python decodes the latter when a header is set, and fails at some.
    """
    printable = "".join(each if each.isprintable() else " " for each in subject).replace("=?", "= ?")
    return " ".join(printable.split())[:_LONGEST_SUBJECT] or "(no subject)"


_FINAL = 500
"""From this code on the server refuses for good (RFC 5321, 4.2.1)."""
_MOST_SENT = 128 * 1024
"""Bytes that a server may send: 50 recipients have an answer each."""


class _RefusedLetter(Exception):
    """The server's address is none that may be asked."""


class Delivery:
    """One e-mail on its way; `abandon` ends it from another thread."""

    def __init__(self, letter: Letter, networks: Sequence[Network], timeout: float) -> None:
        self._letter = letter
        self._smtp = _Connection(networks, letter.tls, timeout)

    def abandon(self) -> None:
        """Close the connection. The unsent rest is dropped."""
        self._smtp.abandon()

    def deliver(self) -> Outcome:
        """Send the e-mail; return the outcome by the server's replies."""
        letter = self._letter
        where = f"{letter.host}:{letter.port}"
        try:
            return self._deliver()
        except _RefusedLetter as fault:
            return Failed(
                f"the e-mail was not sent to {fault}, which is not public: the setting targets.private_addresses "
                "says to which such addresses this node's requests may go",
                final=True,
            )
        except smtplib.SMTPRecipientsRefused as fault:
            replies = list(fault.recipients.values())
            return Failed(
                f"{where} refused all recipients: {_words(*replies[0])}", final=all(c >= _FINAL for c, _ in replies)
            )
        except smtplib.SMTPResponseException as fault:
            error = fault.smtp_error
            words = _words(fault.smtp_code, error if isinstance(error, bytes) else str(error).encode())
            return Failed(f"{where} refused the e-mail: {words}", final=fault.smtp_code >= _FINAL)
        except smtplib.SMTPNotSupportedError as fault:
            return Failed(f"{where} does not offer what the job asks for: {fault}", final=True)
        except ssl.SSLCertVerificationError as fault:
            return Failed(f"{where} is not who it says: {fault.verify_message}", final=True)
        except UnicodeEncodeError:  # only `login` encodes; what it says shows a part of the password
            return Failed("the e-mail was not sent: smtp_user and its password may hold ASCII only", final=True)
        except (smtplib.SMTPException, OSError) as fault:
            if is_short(fault) and not self._smtp.asked:
                raise
            return Failed(f"{where} can't be reached: {fault or type(fault).__name__}")

    def _deliver(self) -> Outcome:
        letter, smtp = self._letter, self._smtp
        try:
            smtp.connect(letter.host, letter.port)
            if letter.tls is Tls.STARTTLS:
                smtp.starttls(context=ssl.create_default_context())
            if letter.login is not None:
                smtp.login(*letter.login)
            refused = smtp.sendmail(letter.sender, letter.to, letter.content)
        finally:
            smtp.leave()
        if refused:  # the others have it: a retry would send it to them twice
            words = ", ".join(f"{address} ({_words(*reply)})" for address, reply in refused.items())
            return Failed(
                f"the server refused some recipients, and has taken the e-mail for the others: {words}", final=True
            )
        return Succeeded(None)


class _Connection(smtplib.SMTP):
    """A connection to a server at an address that may be asked: no name is looked up again in between."""

    def __init__(self, networks: Sequence[Network], tls: Tls, timeout: float) -> None:
        self._networks = networks
        self._tls = tls
        self._abandoned = Event()
        self._line: socket.socket | None = None
        """The same connection, also while it is made, and while TLS has its socket."""
        super().__init__(timeout=timeout, local_hostname=_own_name())

    @property
    def asked(self) -> bool:
        """Return whether a server may know of it."""
        return self._line is not None

    def abandon(self) -> None:
        """End the connection, from another thread."""
        self._abandoned.set()
        if self._line is not None:
            with suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)

    def _go_on(self) -> None:
        """Check that `abandon` was not called before this connection existed. Raises `OSError`."""
        if self._abandoned.is_set():
            raise OSError("it was abandoned")

    def getreply(self) -> tuple[int, bytes]:
        """Return the server's reply. smtplib bounds the length of its lines, but not their number."""
        self._go_on()
        if self.file is None and self.sock is not None:
            self.file = _Said(self.sock.makefile("rb"))
        return super().getreply()

    def connect(self, host: str = "localhost", port: int = 0, source_address: object = None) -> tuple[int, bytes]:
        """Connect. Raises `SMTPConnectError` if the greeting is a refusal."""
        self._host = host  # whose certificate is asked for
        code, words = super().connect(host, port)
        if code != 220:
            self.close()
            raise smtplib.SMTPConnectError(code, words)
        return code, words

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        refused, fault = [], OSError(f"{host} has no address")
        for family, kind, protocol, _, place in found:
            address = str(place[0])
            if not may_be_asked(address, self._networks):
                refused.append(address)
                continue
            try:
                return self._opened(socket.socket(family, kind, protocol), place, timeout)
            except OSError as failed:
                fault = failed
        if refused and len(refused) == len(found):
            raise _RefusedLetter(", ".join(dict.fromkeys(refused)))
        raise fault

    def _opened(self, sock: socket.socket, place: tuple[object, ...], timeout: float) -> socket.socket:
        try:
            self._hang_up()
            self._line = sock.dup()
            self._go_on()
            sock.settimeout(timeout)
            sock.connect(place)
            if self._tls is not Tls.IMPLICIT:
                return sock
            return ssl.create_default_context().wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise

    def leave(self) -> None:
        """Send QUIT and ignore a failure: an accepted e-mail stays accepted."""
        try:
            if self.sock is not None:
                self.quit()
        except (smtplib.SMTPException, OSError):
            pass
        finally:
            self.close()
            self._hang_up()

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()


class _Said:
    """Words of a mail server on one connection, line by line."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = _MOST_SENT

    def readline(self, most: int) -> bytes:
        """Return a line. Raises `OSError` if the server has sent too much."""
        line = self._file.readline(most)
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"the server sends too much, over {_MOST_SENT} bytes")
        return line

    def close(self) -> None:
        """Read no more."""
        self._file.close()


def _own_name() -> str:
    """Return the name of this host. smtplib would ask a server of names, which may be silent."""
    name = socket.gethostname()
    return name if name.isascii() and name else "localhost"


def _words(code: int, said: bytes) -> str:
    return f"{code} {' '.join(said.decode(errors='replace').split())}"
