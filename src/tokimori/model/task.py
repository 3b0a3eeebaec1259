"""Tasks: jobs whose code is kept here, build by build. What the store keeps of one beside its job and its builds."""

from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.build import LARGEST, MOST_PIECES, check_digest
from tokimori.model.ids import Incarnation
from tokimori.model.words import check_text

MOST_BUILDS: Final = 20
"""Builds of a task that are kept, the newest ones and the one that is in force."""
MOST_EVENTS: Final = 100
MOST_DEPENDENCIES: Final = 50
LONGEST_DEPENDENCY: Final = 200
"""Characters."""
LONGEST_DESCRIPTION: Final = 1000


class BuildRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A build of a task: what it is called, what it said of its job, and when and by whom it was made."""

    digest: str
    size: int
    pieces: int
    schedule: str | None = None
    terms: dict[str, Any] = {}
    description: str | None = None
    dependencies: tuple[str, ...] = ()
    at: Moment = Moment(0)
    by: str | None = None


class What(StrEnum):
    """Kinds of events of a task."""

    BUILT = "built"
    RESTARTED = "restarted"
    ROLLED_BACK = "rolled back"
    DISABLED = "disabled"
    ENABLED = "enabled"
    RESOLVED = "resolved"


class TaskEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that happened to a task, by whom; `detail` is what its log says of that."""

    at: Moment
    what: What
    by: str | None = None
    detail: str | None = None


class TaskRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Record of a task. `builds` are the newest first, `current` is the digest of the running one.

    `id` stays for as long as the task does, whatever is built. `incarnation` is that of the job that runs
    its builds: another job of that name has nothing to do with them.
    """

    name: str
    id: str
    builds: tuple[BuildRecord, ...] = ()
    current: str | None = None
    events: tuple[TaskEvent, ...] = ()
    incarnation: Incarnation | None = None

    @property
    def build(self) -> BuildRecord:
        """Return the build that runs."""
        return next(each for each in self.builds if each.digest == self.current)


_records = msgspec.json.Decoder(TaskRecord)


def encode_task(record: TaskRecord) -> str:
    """Return the text that stores keep."""
    return msgspec.json.encode(record).decode()


def decode_task(text: str) -> TaskRecord:
    """Return the record in a text of `encode_task`. Raises `ValueError`."""
    return _records.decode(text)


def check_build(build: BuildRecord) -> None:
    """Refuse a build that no store could keep. Raises `InvalidInput`."""
    check_digest(build.digest)
    for name, value, most in (("size", build.size, LARGEST), ("pieces", build.pieces, MOST_PIECES)):
        if not 1 <= value <= most:
            raise InvalidInput(f"{name}: {value} is out of range", field=name, value=value, allowed=f"1..{most}")
    check_text("description", build.description or "")
    if len(build.description or "") > LONGEST_DESCRIPTION:
        allowed = f"at most {LONGEST_DESCRIPTION} characters"
        raise InvalidInput("description: it is too long", field="description", allowed=allowed)
    check_dependencies(build.dependencies)


def check_dependencies(dependencies: tuple[str, ...]) -> None:
    """Refuse more dependencies than a record can hold, and what is none. Raises `InvalidInput`."""
    allowed = f"at most {MOST_DEPENDENCIES}, each one line of at most {LONGEST_DEPENDENCY} characters, no option"
    if len(dependencies) > MOST_DEPENDENCIES:
        value = len(dependencies)
        raise InvalidInput(f"dependencies: {value} are too many", field="dependencies", value=value, allowed=allowed)
    for text in dependencies:
        check_text("dependencies", text)
        is_option = text.lstrip().startswith("-")
        if is_option or not text.strip() or "\n" in text or len(text) > LONGEST_DEPENDENCY:
            message = f"dependencies: {text!r} is no dependency"
            raise InvalidInput(message, field="dependencies", value=text, allowed=allowed)


def with_build(record: TaskRecord, build: BuildRecord, incarnation: Incarnation) -> TaskRecord:
    """Return the record after a build: it is in force, and the oldest one may be gone. One that was made again moves
    up.
    """
    others = [each for each in record.builds if each.digest != build.digest]
    return replace(record, builds=(build, *others[: MOST_BUILDS - 1]), current=build.digest, incarnation=incarnation)


def with_current(record: TaskRecord, build: BuildRecord, incarnation: Incarnation) -> TaskRecord:
    """Return the record with an earlier build in force. Raises `NotFound` where others have built so often that it is
    gone.
    """
    return replace(record, current=earlier_build(record, build.digest).digest, incarnation=incarnation)


def with_event(record: TaskRecord, event: TaskEvent) -> TaskRecord:
    """Return the record with what happened; of more than so many the oldest are forgotten."""
    return replace(record, events=(*record.events, event)[-MOST_EVENTS:])


def earlier_build(record: TaskRecord, wanted: str | None) -> BuildRecord:
    """Return the build of which `wanted` is the beginning of the digest; None: the one made before the current one.

    Raises `NotFound`.
    """
    digests = [each.digest for each in record.builds]
    if wanted is None:
        place = digests.index(str(record.current)) + 1
        found = record.builds[place : place + 1]
        missing = f"There is no build of {record.name} before the one that runs."
    else:
        found = tuple(each for each in record.builds if wanted and each.digest.startswith(wanted))
        several = f"{len(found)} builds of {record.name} start with {wanted!r}: give more characters."
        missing = several if found else f"No build of {record.name} starts with {wanted!r}."
    if len(found) != 1:
        raise NotFound(missing, field="build", value=wanted, allowed=f"See `tokimori task builds {record.name}`.")
    return found[0]
