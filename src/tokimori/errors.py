"""Every error that Tokimori raises, in one tree.

    TokimoriError                  code, exit code, HTTP status; field, value, allowed where they apply
    ├── InvalidInput               a value that a person or a program gave is not allowed        exit 2
    │   ├── InvalidSchedule        a schedule text
    │   ├── InvalidConfig          settings; carries every fault at once
    │   └── InvalidFile            a foreign file, with its name and line
    ├── Refused                    well-formed, but not done here or now                          exit 2
    ├── NotFound                   no such job, run or node                                       exit 3
    ├── Conflict                   somebody else changed it meanwhile                             exit 4
    │   ├── AlreadyExists          the id that was given is taken                                 exit 2
    │   ├── FamilyChanged          which jobs run after which was changed meanwhile               exit 4
    │   ├── NotGranted             units of a semaphore were not to be had in time                exit 4
    │   └── PermitLost             others may have held what was held of a semaphore              exit 4
    ├── StoreError                 the store can't be used                                        exit 2
    │   ├── StoreUnavailable       a reply may be lost; trying again can help
    │   └── SchemaMismatch         its schema is newer than this version knows, or missing
    └── Bug                        an invariant of ours does not hold                             exit 70

An attempt that failed is not an error but an outcome (`tokimori.model.outcome`).
"""

from collections.abc import Sequence


class TokimoriError(Exception):
    """The root of the tree.

    `code` is stable and meant for programs; `message` is meant for people. `field`, `value` and `allowed` say which
    part of the input is meant, what stood there and what may stand there.
    """

    code = "error"
    exit_code = 70
    status = 500

    def __init__(
        self, message: str, *, field: str | None = None, value: object = None, allowed: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = value
        self.allowed = allowed


class InvalidInput(TokimoriError):
    """A value that a person or a program gave is not allowed."""

    code = "invalid_input"
    exit_code = 2
    status = 422


class InvalidSchedule(InvalidInput):
    """A schedule text that names no schedule."""

    code = "invalid_schedule"


class InvalidFile(InvalidInput):
    """A foreign file that can't be understood; the message names file and line."""

    code = "invalid_file"


class InvalidConfig(InvalidInput):
    """Settings that can't be used; `faults` holds one sentence for each fault, all of them."""

    code = "invalid_config"

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class Refused(TokimoriError):
    """A well-formed request that is not carried out here or now."""

    code = "refused"
    exit_code = 2
    status = 409


class NotFound(TokimoriError):
    """No job, run or node has that id."""

    code = "not_found"
    exit_code = 3
    status = 404


class Conflict(TokimoriError):
    """Somebody else changed it meanwhile."""

    code = "conflict"
    exit_code = 4
    status = 409


class AlreadyExists(Conflict):
    """The id that was given is taken. To a program a conflict, to a person bad input: docs/decisions/0010."""

    code = "already_exists"
    exit_code = 2


class FamilyChanged(Conflict):
    """Which jobs run after which was changed meanwhile: what was checked against it has to be checked again."""

    code = "family_changed"


class NotGranted(Conflict):
    """Others held a semaphore's units for as long as somebody was willing to wait."""

    code = "not_granted"


class PermitLost(Conflict):
    """What a program held of a semaphore was given to others, or may have been, before it gave it back."""

    code = "permit_lost"


class StoreError(TokimoriError):
    """The store can't be used; the message says what to do."""

    code = "store_error"
    exit_code = 2
    status = 503


class StoreUnavailable(StoreError):
    """The store did not answer. What was asked may have happened; asking again is safe and can help."""

    code = "store_unavailable"


class SchemaMismatch(StoreError):
    """The store's schema is not the one that this version works with."""

    code = "schema_mismatch"


class Bug(TokimoriError):
    """An invariant of Tokimori's own does not hold."""

    code = "bug"
