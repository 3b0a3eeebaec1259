"""Every error that Tokimori raises, in one tree.

    TokimoriError                  code, exit code, HTTP status; field, value, allowed if they apply
    ├── InvalidInput               a value that a person or a program gave is not allowed        exit 2
    │   ├── InvalidSchedule        a schedule text
    │   ├── InvalidConfig          settings; carries every fault at once
    │   └── InvalidFile            a foreign file, with its name and line
    ├── Refused                    a valid request that is not carried out here or now            exit 2
    │   ├── Outdated               a change of what has been changed since                         exit 4
    │   ├── Duplicate              another run holds the key of a request that is to be unique     exit 4
    │   └── RunNotEnded            a wait for a run is over, and the run goes on; a TimeoutError
    ├── RunFailed                  a run whose result is wanted has not succeeded                 exit 1
    ├── Unauthorized               who asks has brought a token that lets nobody in any more      exit 2
    ├── Forbidden                  who asks may not do this                                       exit 2
    ├── NotFound                   there is no job, run or other thing of that name               exit 3
    ├── Conflict                   somebody else changed it meanwhile                             exit 4
    │   ├── AlreadyExists          the given id is taken                                          exit 2
    │   ├── FamilyChanged          somebody changed meanwhile which jobs run after which          exit 4
    │   ├── NotGranted             units of a semaphore were not granted in time                  exit 4
    │   ├── PermitLost             a permit was lost before it was released                       exit 4
    │   ├── ClaimLost              a run is no longer that of the code which works on it          exit 4
    │   └── AlreadyFinished        a run that is to be finished has succeeded before              exit 4
    ├── Overtaken                  what a change was made under is no more: somebody was faster   exit 4
    ├── StoreError                 the store can't be used                                        exit 2
    │   ├── StoreUnavailable       a reply may be lost; trying again can help
    │   └── SchemaMismatch         its schema is newer than this version knows, or missing
    ├── Permanent                  raised by a function of a job: a further attempt is of no use
    └── Bug                        an invariant of ours does not hold                             exit 70

An attempt that failed is not an error but an outcome (`tokimori.model.outcome`), until somebody asks for its result.
"""

from collections.abc import Sequence
from copy import copy
from typing import Self

MOST_MESSAGE = 16_000
"""Characters of a message. What was wrong may have a megabyte: of a longer one the beginning and the end are shown."""


def shortened(message: str, most: int) -> str:
    """Return the message, of a longer one its beginning and its end."""
    return message if len(message) <= most else f"{message[: most // 2]} … {message[-(most // 2) :]}"


class TokimoriError(Exception):
    """The root of the tree.

    `code` is stable and meant for programs; `message` is meant for people. `field`, `value` and `allowed` say which
    part of the input is meant, what stood there and what may stand there.
    """

    code = "error"
    exit_code = 70
    status = 500
    most_message = MOST_MESSAGE

    def __init__(
        self, message: str, *, field: str | None = None, value: object = None, allowed: str | None = None
    ) -> None:
        self.message = shortened(message, self.most_message)
        super().__init__(self.message)
        self.field = field
        self.value = value
        self.allowed = allowed
        if allowed is not None and allowed not in message:
            self.add_note(f"allowed: {allowed}")  # a line of its own in tracebacks


class InvalidInput(TokimoriError):
    """A value that a person or a program gave is not allowed; `field`, `value` and `allowed` say which and why."""

    code = "invalid_input"
    exit_code = 2
    status = 422

    def below(self, place: str) -> Self:
        """Return the same fault, of a value that stands at this place of what was given."""
        other = copy(self)
        other.field = place if self.field is None else f"{place}.{self.field}"
        other.message = f"{place}: {self.message}"
        other.args = (other.message,)
        return other


class InvalidSchedule(InvalidInput):
    """A text that is not a schedule."""

    code = "invalid_schedule"


class InvalidFile(InvalidInput):
    """A foreign file that can't be read as what it should be; the message names the file and the line."""

    code = "invalid_file"
    most_message = 1_000_000
    """A fault has a line, and a file may have many: a door that shows the first of them counts the others."""


class InvalidConfig(InvalidInput):
    """Settings that can't be used; `faults` holds a sentence for each fault that was found."""

    code = "invalid_config"

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class Refused(TokimoriError):
    """A valid request that is not carried out here or now."""

    code = "refused"
    exit_code = 2
    status = 409


class Outdated(Refused):
    """A change of something that somebody changed since the caller read it: nothing was changed."""

    code = "outdated"
    exit_code = 4
    status = 412


class Duplicate(Refused):
    """Another run holds the key of a unique request: nothing was requested. `value` is the id of that run."""

    code = "duplicate"
    exit_code = 4


class RunNotEnded(Refused, TimeoutError):
    """A run has not ended within the time for which somebody waited for it. It goes on."""

    code = "run_not_ended"


class RunFailed(TokimoriError):
    """A run whose result is wanted has failed, or was cancelled.

    `error` is the text of the newest attempt's error, `type` the name of its exception and `traceback` Python's text,
    both "" if no exception was raised; `state` is that of the run, `run_id` its id.
    """

    code = "run_failed"
    exit_code = 1
    status = 409
    error = type = traceback = run_id = ""
    state = "failed"


class Unauthorized(TokimoriError):
    """Error for a token that is no longer valid."""

    code = "token_expired"
    exit_code = 2
    status = 401


class Forbidden(TokimoriError):
    """Error for a caller without the right: `field` says if the role, the scope or a setting forbids it."""

    code = "forbidden"
    exit_code = 2
    status = 403


class NotFound(TokimoriError):
    """There is no job, run or other thing of that id or name."""

    code = "not_found"
    exit_code = 3
    status = 404


class Conflict(TokimoriError):
    """Somebody else changed it meanwhile."""

    code = "conflict"
    exit_code = 4
    status = 409


class AlreadyExists(Conflict):
    """The given id is taken: for a program a conflict, for a person bad input (docs/decisions/0042)."""

    code = "already_exists"
    exit_code = 2


class FamilyChanged(Conflict):
    """The edges between jobs changed after they were checked, so that the check has to be repeated."""

    code = "family_changed"


class NotGranted(Conflict):
    """Units of a semaphore were not granted within the time that the caller was willing to wait."""

    code = "not_granted"


class PermitLost(Conflict):
    """A program lost its permit before it released it: others hold the units by now, or may hold them."""

    code = "permit_lost"


class ClaimLost(Conflict):
    """The run no longer belongs to the code that works on it: its reports change nothing."""

    code = "claim_lost"


class AlreadyFinished(Conflict):
    """A run that is to be finished has succeeded before: nothing was changed, and nothing is left to do."""

    code = "already_finished"


class Overtaken(TokimoriError):
    """Somebody else has taken over since the change began: nothing was changed, and a repetition changes nothing.

    It is no `Conflict`: those are tried again.
    """

    code = "overtaken"
    exit_code = 4
    status = 409


class StoreError(TokimoriError):
    """The store can't be used; the message says what to do."""

    code = "store_error"
    exit_code = 2
    status = 503


class StoreUnavailable(StoreError):
    """The store did not answer. The request may have been carried out; it is safe to repeat it."""

    code = "store_unavailable"


class StoreTooSlow(StoreUnavailable):
    """The store cancelled a request that took too long. A smaller one may succeed."""

    code = "store_too_slow"


class StoreReplaced(StoreUnavailable):
    """The store's file was moved, deleted or replaced: nothing is read or written until it is back."""

    code = "store_replaced"


class StoreRefused(StoreError):
    """The store refused this request, and would again. It accepts others."""

    code = "store_refused"


class SchemaMismatch(StoreError):
    """The store's schema is not the one that this version works with."""

    code = "schema_mismatch"


class Permanent(TokimoriError):
    """A function of a job raises this to fail for good: `raise tokimori.Permanent("bad card")`."""

    code = "permanent"

    def __init__(
        self,
        message: object = "a further attempt is of no use",  # also an error: a TypeError here would be tried again
        *,
        field: str | None = None,
        value: object = None,
        allowed: str | None = None,
    ) -> None:
        super().__init__(str(message), field=field, value=value, allowed=allowed)


class Bug(TokimoriError):
    """One of Tokimori's own invariants does not hold."""

    code = "bug"
