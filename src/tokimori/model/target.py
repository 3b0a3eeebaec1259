"""Targets: the work of a run, by kind. A new kind is one struct here, one executor, and one line in `executors_of`."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar
from urllib.parse import SplitResult, urlsplit

from msgspec import Meta, Struct, field

from tokimori.errors import InvalidInput
from tokimori.model.build import check_build_name
from tokimori.model.email import Email
from tokimori.model.job_fields import LONGEST
from tokimori.model.templates import OPENING, check_no_secret, check_secret_name, check_secrets, check_template, naming

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Methods that a request may have."""
MOST_HEADERS = 100
MOST_HEADER = 8_000
"""The most characters of a header's value: servers take no longer lines."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_THEIRS = frozenset(
    ("connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")
)
"""Headers that say how the request itself travels."""
OUR_HEADERS = "tokimori-"
"""Prefix of the headers that name the run."""
SIGNING = ("webhook-id", "webhook-timestamp", "webhook-signature")
"""The headers of a signed request."""


class Command(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="command"):
    """A process: either `argv`, or a `shell` text that `shell_path -c` runs.

    Arguments behind the program, values of `env` and `stdin` may name secrets (`tokimori.model.templates`).
    """

    handler: ClassVar[str] = ""
    """The handler that a node must have to run it: without `|`. Empty: every node can."""
    can_report: ClassVar[bool] = True
    """If an attempt can report how it ended."""

    argv: tuple[str, ...] = ()
    shell: str | None = None
    shell_path: str = "/bin/sh"
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    user: str | None = None
    stdin: str | None = None

    def check(self) -> None:
        """Raise `InvalidInput` for a command that no node could start."""
        if bool(self.argv) == (self.shell is not None):
            message = "target: a command is either argv or shell"
            raise InvalidInput(message, field="target", allowed="one of argv, shell")
        program = self.argv[0] if self.shell is None else self.shell
        if not program.strip():
            message = "target: the command is empty"
            raise InvalidInput(message, field="target", value=program, allowed="a program to run")
        for key in self.env:
            if not key or "=" in key:
                message = f"env: {key!r} is not a variable's name"
                raise InvalidInput(message, field="env", value=key, allowed="no =, not empty")
        self._check_secrets()

    def _check_secrets(self) -> None:
        check_no_secret("shell", self.shell or "", 'name it in env, and write "$NAME" in the shell')
        for place, text in (("program", "".join(self.argv[:1])), ("cwd", self.cwd or ""), ("user", self.user or "")):
            check_no_secret(place, text, "arguments, env and stdin may name secrets")
        for text in self.texts():
            check_secrets("target", text)

    def texts(self) -> Iterator[str]:
        """Yield the texts that may name secrets."""
        yield from self.argv[1:]
        yield from self.env.values()
        yield self.stdin or ""


class Noop(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="noop"):
    """Target that does nothing, at once: for tests and benchmarks."""

    handler: ClassVar[str] = ""
    can_report: ClassVar[bool] = False

    def check(self) -> None:
        """Do nothing: nothing can be wrong with it."""

    def texts(self) -> Iterator[str]:
        """Yield the texts that may name secrets: none."""
        yield from ()


class Function(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="function"):
    """A function of an app (`tokimori.App`): `name` is the type under which a handler for it was declared."""

    can_report: ClassVar[bool] = True

    name: str

    @property
    def handler(self) -> str:
        """Return the handler that a node must have to run it."""
        return self.name

    def check(self) -> None:
        """Raise `InvalidInput` for a name that no handler can have."""
        check_handler_name(self.name, field="function")

    def texts(self) -> Iterator[str]:
        """Yield the texts that may name secrets: none."""
        yield from ()


class Build(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="build"):
    """A build of a task as code, under its digest in the store (`tokimori.model.build`)."""

    handler: ClassVar[str] = ""
    can_report: ClassVar[bool] = True

    task: str
    digest: str

    def check(self) -> None:
        """Raise `InvalidInput` for an invalid digest or task. A missing build is found when it is fetched."""
        check_build_name(self.task, self.digest)

    def texts(self) -> Iterator[str]:
        """Yield the texts that may name secrets: none."""
        yield from ()


class Http(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="http"):
    """A request to a service; `tokimori.model.job_fields` describes its fields.

    `url` behind the host, values of headers and `body` are templates (`tokimori.model.templates`).
    """

    handler: ClassVar[str] = ""
    can_report: ClassVar[bool] = False

    url: str
    method: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    expect: tuple[int, ...] = ()
    callback_within: Annotated[float, Meta(gt=0, le=LONGEST)] | None = None
    sign_with: str | None = None

    def check(self) -> None:
        """Raise `InvalidInput` for a request that no node could send."""
        _check_url(self.url)
        if self.method is not None and self.method not in METHODS:
            message = f"method: {self.method!r} is not a method"
            raise InvalidInput(message, field="method", value=self.method, allowed=f"one of {', '.join(METHODS)}")
        if len(self.headers) > MOST_HEADERS:
            message = f"headers: {len(self.headers)} are too many"
            raise InvalidInput(message, field="headers", value=len(self.headers), allowed=f"at most {MOST_HEADERS}")
        for name, value in self.headers.items():
            _check_header(name, value)
        check_template("body", self.body or "")
        for status in self.expect:
            if not 200 <= status <= 599:
                message = f"expect: {status} is not the status of an answer"
                raise InvalidInput(message, field="expect", value=status, allowed="200..599")
        if self.sign_with is not None:
            self._check_signing(self.sign_with)

    def _check_signing(self, secret: str) -> None:
        check_secret_name("sign_with", secret)
        for name in self.headers:
            if name.casefold() in SIGNING:
                message = f"headers: {name} is said by the node itself where it signs (sign_with)"
                raise InvalidInput(message, field="headers", value=name, allowed="another header, or no sign_with")

    def texts(self) -> Iterator[str]:
        """Yield the texts that may name secrets."""
        yield self.url
        yield from self.headers.values()
        yield self.body or ""
        yield "" if self.sign_with is None else naming(self.sign_with)


def _check_url(url: str) -> None:
    parts = _split(url)
    fault = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[^\x21-\x7e]", url):
        fault = "is not the address of a service"
    elif "@" in parts.netloc:
        url = url.replace(parts.netloc, f"***@{parts.netloc.rpartition('@')[2]}")
        fault = "holds a user or a password, which belong into a header (Authorization)"
    elif OPENING in parts.netloc:
        fault = "has a template in its host: who asks for a run must not choose who is asked"
    if fault is not None:
        allowed = "http://host/path or https://host/path"
        raise InvalidInput(f"url: {url!r} {fault}", field="url", value=url, allowed=allowed)
    check_template("url", url)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        message = f"headers: {name!r} is not the name of a header"
        raise InvalidInput(message, field="headers", value=name, allowed="letters, digits and -")
    if name.casefold() in _NOT_THEIRS or name.casefold().startswith(OUR_HEADERS):
        message = f"headers: {name} is said by the node itself"
        raise InvalidInput(message, field="headers", value=name, allowed="another header")
    if len(value) > MOST_HEADER or _UNPRINTABLE.search(value):
        message = f"headers.{name}: the value is not one line of at most {MOST_HEADER} characters"
        raise InvalidInput(message, field=f"headers.{name}", allowed=f"one line of at most {MOST_HEADER} characters")
    check_template(f"headers.{name}", value)


Target = Build | Command | Email | Function | Http | Noop
"""All kinds of targets."""


class Unreadable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="unreadable"):
    """Stand-in for the target of a stored definition that this program can't read.

    A newer program may have written it, or its text is broken. `text` is the stored text, which stays; `why` says what
    is wrong. The job is shown with that and does not fire; a claimed run of it is released unpenalised.
    """

    handler: ClassVar[str] = ""
    can_report: ClassVar[bool] = False

    text: str
    why: str

    def check(self) -> None:
        """Check the arguments. Raises `InvalidInput`."""
        raise InvalidInput(f"target: {self.why}", field="target", allowed="a definition that this version can read")


def kind_of(target: Target | Unreadable) -> str:
    """Return the name of the target's kind, in stored definitions and for people."""
    return str(target.__struct_config__.tag)


Handler = str | re.Pattern[str]
"""An exact name, or a pattern that matches whole names."""


_PATTERN_IN_TEXT = re.compile(r"(?:^| )/(.*?)/(?= |$)")
_OWN_FLAGS = re.compile(r"\A\s*\(\?[aiLmsux]+\)")
_FLAGS = ((re.ASCII, "a"), (re.IGNORECASE, "i"), (re.MULTILINE, "m"), (re.DOTALL, "s"), (re.VERBOSE, "x"))
_STORED_PATTERN = re.compile(r"[\w.*]+:[\w.*]+")
MOST_NAME = 255
"""The longest name of a handler, in characters."""


def check_handler_name(name: str, *, field: str) -> str:
    """Return the name, if a handler can have it. It becomes a part of a lane, where `|` separates parts.

    Raises `InvalidInput`.
    """
    if not 1 <= len(name) <= MOST_NAME or not name.isprintable() or not name.strip() or "|" in name:
        raise InvalidInput(
            f"{field}: {name!r} is not the name of a handler",
            field=field,
            value=name,
            allowed=f"1 to {MOST_NAME} printable characters without |, not all of them blank",
        )
    return name


def handles(handlers: Iterable[Handler], name: str) -> bool:
    """Return whether one of the handlers has this name."""
    return any(_is_for(handler, name) for handler in handlers)


def _is_for(handler: Handler, name: str) -> bool:
    return handler == name if isinstance(handler, str) else handler.fullmatch(name) is not None


def text_of_pattern(pattern: re.Pattern[str]) -> str:
    """Return the pattern as a text that says its flags, too, such as `(?i)resize`: compiled, it matches the same."""
    flags = "".join(letter for flag, letter in _FLAGS if pattern.flags & flag)
    return f"(?{flags}){_OWN_FLAGS.sub('', pattern.pattern, count=1)}" if flags else pattern.pattern


def pattern_of_stored(text: str) -> str:
    """Return the regular expression of a pattern for stored functions: `MODULE:NAME`, where `*` is any part of a name.

    Raises `InvalidInput`.
    """
    if not _STORED_PATTERN.fullmatch(text):
        raise InvalidInput(
            f"app.stored: {text!r} is not a pattern", field="app.stored", value=text, allowed="such as reports.tasks:*"
        )
    return r"[\w.]*".join(re.escape(part) for part in text.split("*"))


def how_to_allow(name: str) -> str | None:
    """Return, for people, how to allow a node to import a stored function; None for other names."""
    module, colon, path = name.partition(":")
    if not colon or not _STORED_PATTERN.fullmatch(name) or "*" in name or not path:
        return None
    return (
        f'a node imports what a job names if its setting app.stored allows it: app.stored = ["{module}:*"] in '
        f"tokimori.toml, or TOKIMORI_APP_STORED={module}:*"
    )


def is_handled(name: str, text: str) -> bool:
    """Return if a text of `handlers_text` has a handler for this name."""
    if f" {name} " in f" {text} ":
        return True
    try:
        return any(re.fullmatch(pattern, name) for pattern in _PATTERN_IN_TEXT.findall(text))
    except re.error:
        return False  # a handler of another version, or a name with a blank and a slash


def handlers_text(handlers: Iterable[Handler]) -> str:
    """Return handlers for people: names as they are, patterns between slashes, with spaces between."""
    return " ".join(handler if isinstance(handler, str) else f"/{text_of_pattern(handler)}/" for handler in handlers)
