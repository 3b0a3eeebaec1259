"""Table of the fields of a job: each with its meaning, unit, default and bound.

`help(tokimori.JobArguments)`, `tokimori job add --help`, the document of the HTTP API and
`docs/reference/job-fields.md` are made from it. Commands load it each time, so it imports nothing but bounds. A path
such as `retry.delay` is a field in one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

LONGEST: Final = 3_155_760_000
"""A hundred years: the most seconds that a policy may name, so that every sum of moments stays a date.

Infinity has no form in JSON: a stored one could not be read back."""
_YEAR, _DAY = 31_557_600, 86_400
MOST_MEMORY: Final = 2**30
"""MiB."""


class JobField(NamedTuple):
    """Description of a field. A default in words stands for none; without `least` a number is above 0."""

    meaning: str
    default: str | float = "none"
    unit: str = ""
    least: float | None = None
    most: float | None = None
    allowed: str = ""

    @property
    def default_text(self) -> str:
        """Return the default in words."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, str):
            return self.default
        return length_text(self.default) if self.unit == "seconds" else f"{self.default:,}"

    @property
    def is_number(self) -> bool:
        """Return whether it is a number of something, seconds included."""
        return self.unit == "seconds" or self.least is not None

    @property
    def bound(self) -> str:
        """Return the bound in words; empty if any value is allowed."""
        if self.allowed or self.most is None:
            return self.allowed
        most = length_text(self.most) if self.unit == "seconds" else f"{self.most:,}"
        if self.unit in ("bytes", "characters"):
            return f"at most {most} {self.unit}"
        if self.least is None:
            return f"above 0, at most {most}"
        least = length_text(self.least) if self.unit == "seconds" and self.least else f"{self.least:,}"
        return f"{least} to {most}"

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the words of which one is allowed; empty if it is no choice."""
        return tuple(self.allowed.split(" | ")) if " | " in self.allowed else ()

    @property
    def terms(self) -> str:
        """Return unit, default and bound in one line."""
        unit = 'seconds, or a text such as "5m"' if self.unit == "seconds" else self.unit
        return "; ".join(filter(None, (unit, f"default: {self.default_text}", self.bound)))


def length_text(seconds: float) -> str:
    """Return a length as people write it: 60s, 1 day, 100 years."""
    for unit, word in ((_YEAR, "year"), (_DAY, "day")):
        if seconds and seconds % unit == 0:
            return f"{seconds / unit:g} {word}{'s' * (seconds > unit)}"
    return f"{seconds:g}s"


def _length(meaning: str, default: str | float = "none", least: float | None = 0, most: float = LONGEST) -> JobField:
    return JobField(meaning, default, "seconds", least, most)


def _count(meaning: str, default: str | float, unit: str, least: int = 0, most: int = 1_000_000) -> JobField:
    return JobField(meaning, default, unit, least, most)


def _bytes(meaning: str, most: int, default: str = "none", unit: str = "bytes") -> JobField:
    return JobField(meaning, default, unit, most=most)


def _template(noun: str, most: int, default: str) -> JobField:
    return _bytes(f"The {noun}, a template.", most, default, "characters")


def _words(meaning: str, allowed: str, default: str | float = "none") -> JobField:
    return JobField(meaning, default, allowed=allowed)


_LINE, _PATH, _CONTENT = 1024, 4 * 1024, 64 * 1024
_WORD = "1 to 128 of A-Z a-z 0-9 . _ -"
_ID = "the id of a job"
_TEXTS = "at most 4,096 characters and 64 members"
_LOST = "kill with a limit, a semaphore or a key, else continue"
_TIME = "RFC 3339; without an offset it is in `time_zone`"
SECTIONS: Final[Mapping[str, Mapping[str, JobField]]] = MappingProxyType(
    {
        "What it runs": {
            "command": _bytes("A command line for the shell, or a program and its arguments.", _CONTENT),
            "function": _words("The name of a handler of an app.", "1 to 255 characters without |"),
            "own_process": JobField("Each run of the function gets a worker process of its own.", default=False),
            "build": _words("The build of a task that is run: `tokimori task builds`.", "TASK@DIGEST"),
            "client": JobField("Give each run of the command its node's address and a token.", default=False),
            "url": _bytes("The address to which a request is sent; behind the host it is a template.", 8 * 1024),
            "email": _words("Addresses that get an e-mail, by `smtp` from `sender`.", "1 to 50 addresses"),
            "noop": JobField("Run nothing: for tests.", default=False),
            "payload": _bytes("JSON for each of its runs; a request may bring another.", _CONTENT),
            "env": _bytes("Environment variables of the command; values may name secrets.", _CONTENT),
            "cwd": _bytes("The folder in which the command runs.", _PATH, "HOME"),
            "user": _bytes("The OS user that runs the command; the node must run as root.", _LINE, "the node's"),
            "stdin": _bytes("The text that the command reads from standard input.", _CONTENT),
            "shell_path": _bytes("The shell that runs a `command` line.", _PATH, "/bin/sh"),
            "method": _words(
                "The method of the request.",
                "GET | HEAD | POST | PUT | PATCH | DELETE | OPTIONS",
                "GET, or POST with a body",
            ),
            "headers": _bytes("Headers of the request, at most 100; values are templates.", _CONTENT),
            "body": _bytes("The body of the request, a template.", _CONTENT, "the payload, if the method has a body"),
            "expect": JobField("The statuses that are a success.", "200 to 299", "statuses", 200, 599),
            "callback_within": _length("After 202 the service reports the end within this time.", "no callback", None),
            "sign_with": _words("The secret that signs the request (Standard Webhooks).", "its name"),
            "smtp": _words("The server that takes the e-mail.", "HOST or HOST:PORT"),
            "sender": _words("The address from which the e-mail is sent.", "an address"),
            "tls": _words("Encryption of the way to `smtp`.", "starttls | implicit | none", "starttls"),
            "smtp_user": JobField("The user of the e-mail server; it needs `smtp_password`."),
            "smtp_password": _words("The secret that is the password of `smtp_user`.", "its name"),
            "mail_subject": _template("subject of the e-mail", 1_000, "{{ part.subject }}"),
            "mail_text": _bytes("The text of the e-mail, a template.", _CONTENT, "{{ part.text }}"),
        },
        "When": {
            "schedule": _words(
                'The times at which it runs, such as "0 3 * * *" or "every 90 seconds".', _TEXTS, "on demand"
            ),
            "time_zone": _words(
                "The zone of the schedule; settings may say another default.", "a name such as Europe/Paris", "UTC"
            ),
            "parents": _words("Jobs after which it runs: on success, failure or always.", "no schedule beside it"),
            "join": _words("Run after each of several parents, or after all.", "any | all", "any"),
            "calendars": _words("Calendars whose days off leave out occurrences.", "names of calendars"),
            "shift": _words("Move an occurrence on a day off to this business day.", "next | previous", "leave it out"),
            "starts_at": _words("There is no occurrence before this time.", _TIME),
            "ends_at": _words("There is no occurrence after this time; then the job is finished.", _TIME),
            "runs_remaining": _count("The job is finished after so many scheduled runs.", "no limit", "runs", 1, 10**9),
            "delay": _length("A run is due so long after its nominal time.", 0),
            "jitter": _length("Up to this much later, to spread jobs; always the same for an occurrence.", 0),
            "gap": _words("What to do with times that clocks skip.", "shift | skip | later", "shift"),
            "fold": _words("What to do with times that clocks show twice.", "first | both", "first"),
            "anchored_on": _words("From where an interval is counted.", "grid | last run", "grid"),
            "misfire": _words("What to do with missed occurrences.", "latest | all | skip", "latest"),
            "late_after": _length("An occurrence that is later than this is missed.", 60),
            "grace": _length("A missed occurrence that is later than this does not run.", "no limit"),
        },
        "Where, and how many at a time": {
            "queue": _words("The queue to which it belongs.", _WORD, "default"),
            "labels": _bytes("The labels that a node must carry to run it.", _LINE),
            "priority": JobField("Runs with larger numbers start first.", 0, "", -100, 100),
            "max_running": _count(
                "How many of its runs run at a time; 0: no limit.", "1 with a schedule, else no limit", "runs"
            ),
            "max_waiting": _count("How many more runs may wait; further ones are refused.", "no limit", "runs"),
            "on_overlap": _words("What to do with occurrences above `max_running`.", "skip | queue | replace", "skip"),
            "semaphores": _words(
                "The semaphores that a run holds while it runs.", "NAME or NAME:WEIGHT; a weight is 1 to 1,000,000"
            ),
            "rate_limit": _words(
                "How many of its runs start in any period; they count from their claim, whatever becomes of them.",
                "N/t, such as 10/s, 100/1m or `10/s smooth`; N is 1 to 10,000, t 1ms to 366d",
            ),
            "concurrency_key": _bytes("The key of runs that bring none.", 255, unit="characters"),
            "max_running_per_key": _count("How many runs of one key run at a time.", 1, "runs", 1),
        },
        "Whether it begins": {
            "approval": JobField("Each run that is due waits until a person approves it.", default=False),
            "approver": _words("The role that may approve runs and refuse them.", "operate | admin", "operate"),
            "approve_within": _length("A run that nobody approves for so long is refused.", "no limit", 1),
            "four_eyes": JobField("Whoever asked for a run may not approve it.", default=False),
        },
        "How it ends": {
            "timeout": _length("How long an attempt may take.", "none; 30s of a request, 60s of an e-mail", None),
            "timeout_grace": _length("KILL comes so long after TERM.", 10),
            "max_cpu": _length("How long processors may work for an attempt.", "no limit", None),
            "max_memory": _count("How much memory an attempt may have.", "no limit", "MiB", 1, MOST_MEMORY),
            "retry.attempts": _count("How many attempts a run has, the first included.", 1, "attempts", 1),
            "retry.delay": _length("How long to wait before the first retry.", 0),
            "retry.backoff": _count("Each further delay is the one before, times this.", 1, "factor", 1),
            "retry.cap": _length("The longest delay.", "no limit"),
            "retry.jitter": JobField("Up to this part of a delay is added to it.", 0, "part", 0, 1),
            "retry.epsilon": _length("There is no retry later than this after the nominal time.", "no limit"),
            "retry.lost_attempts": _count("How many lost attempts are repeated; or unlimited.", 3, "attempts"),
            "retry.asked_delay": _length("The shortest wait if a run asks to be tried again.", 1),
            "retry.asked_retries": _count("How often a run may ask to be tried again.", 1_000, "retries"),
            "retry.wait": _length("How long a run waits that asks for it without a time, or is released.", 0),
            "on_exhausted": _words("What becomes of the job if the attempts are used up.", "fail | park", "fail"),
            "on_failure_job": _words("The job that runs after a failure.", _ID),
            "notify": _words(
                "Notifiers by event: failure, recovery, overdue, parked, held, success.", "1 to 10 an event"
            ),
            "on_lost_lease": _words("What a node that is cut off does with its runs.", "kill | continue", _LOST),
            "auto_complete_success": JobField(
                "Exit code 0 is enough; else `tokimori run report` has to say so.", default=True
            ),
            "expect_within": _length("It is overdue so long after its last success.", "not expected", 1),
        },
        "As a notifier": {
            "notifier.subject": _template("subject of its notifications", 4_000, "{{ summary }}"),
            "notifier.text": _template("text of its notifications", 4_000, "summary and details"),
            "notifier.bundle": _length("Events of one cause within this time are one notification.", 0, most=_DAY),
            "notifier.quiet": _words(
                "Hours in which notifications wait: 22:00-07:00, or sat 00:00-24:00.", "at most 20"
            ),
            "notifier.elsewhere": JobField("Also report `tokimori expect` without a ping.", default=False),
        },
        "For people": {
            "name": _bytes("A name for people.", _LINE),
            "description": _bytes("What it is for.", 16 * 1024),
            "owner": _bytes("Who is responsible for it.", _LINE),
            "mailto": _bytes("Kept of crontabs: see `notify`, `tokimori notifier add`.", _LINE),
            "retention": JobField(
                "How long ended runs and skips are kept, such as P7D.",
                "P30D",
                "duration",
                allowed="PT0S (nothing is kept) to 100 years",
            ),
            "keep_runs": JobField("The newest runs, so many, are kept longer.", 1_000, "runs", 0, 100_000),
        },
    }
)
"""The fields of a job, by what they are about."""
FIELDS: Final[Mapping[str, JobField]] = MappingProxyType(
    {path: each for fields in SECTIONS.values() for path, each in fields.items()}
)
OF_RETRY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "attempts": "attempts",
        "retry_delay": "delay",
        "retry_backoff": "backoff",
        "retry_cap": "cap",
        "retry_jitter": "jitter",
        "epsilon": "epsilon",
        "lost_attempts": "lost_attempts",
        "asked_delay": "asked_delay",
        "asked_retries": "asked_retries",
        "retry_wait": "wait",
    }
)
"""Fields of `retry`, as a function's job and the terminal say them beside the others."""
_BY_PATH = {f"retry.{field}": option for option, field in OF_RETRY.items()}
OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {path: _BY_PATH.get(path, path.removeprefix("notifier.")) for path in FIELDS}
)
"""The names of the options of `tokimori job add` by path."""
BOTH_WAYS: Final = ("client", "own_process", "auto_complete_success")
"""The options that have another one with `no-` before it."""
_SPELT = {
    "time_zone": "timezone",
    "calendars": "calendar",
    "semaphores": "semaphore",
    "labels": "label",
    "headers": "header",
    "parents": "after",
    "epsilon": "retry-epsilon",
}
SPELLINGS: Final[Mapping[str, str]] = MappingProxyType(
    {path: f"--{_SPELT.get(name, name).replace('_', '-')}" for path, name in OPTIONS.items()}
)
"""The options as they are typed, by path."""


def described(noun: str, within: str = "") -> str:
    """Return the documentation of the fields within this one, for `help()`."""
    found = ((path.removeprefix(within), each) for path, each in FIELDS.items() if path.startswith(within))
    lines = (f"{path}\n    {each.meaning}\n    {each.terms}" for path, each in found)
    return "\n".join((f"{noun}. None stands for the default.\n", *lines, ""))
