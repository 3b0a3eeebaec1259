"""Refusals of the stores, in one wording for all of them."""

from typing import TypeVar

from tokimori.errors import Conflict, FamilyChanged, NotFound, Overtaken, Refused, TokimoriError
from tokimori.model.claim_rate import ClaimRate
from tokimori.model.dependents import CHILDLESS
from tokimori.model.document import Document
from tokimori.model.ids import JobId

T = TypeVar("T")

TOO_SLOW = "took over 3 s, or was stopped: ask for less, or later"


def no_job(job_id: str) -> NotFound:
    """Return the error for an id that no job has."""
    return NotFound(f"there is no job {job_id!r}", field="id", value=job_id)


def no_run(run_id: str) -> NotFound:
    """Return the error for an id that no run has."""
    return NotFound(f"there is no run {run_id!r}", field="id", value=run_id)


def existing(found: T | None, missing: TokimoriError) -> T:
    """Return the found value. Raises the error if it is None."""
    if found is None:
        raise missing
    return found


def taken(job_id: str) -> Conflict:
    """Return the error for an id that another job has."""
    return Conflict(f"there is a job {job_id!r} already", field="id", value=job_id)


def job_changed(job_id: JobId) -> Conflict:
    """Return the error for replacing or deleting another version of a job than the store has."""
    return Conflict(f"the job {job_id!r} was changed meanwhile: read it again", field="id", value=job_id)


def stopped(job_id: JobId, state: str) -> Refused:
    """Return the error for a request that a paused or parked job does not take."""
    return Refused(
        f"the job {job_id!r} is {state}", field="id", value=job_id, allowed="a job that is not stopped, or force"
    )


def full(job_id: JobId, most: int | None) -> Refused:
    """Return the error for a request of one run more than a job may have."""
    return Refused(
        f"the job {job_id!r} has {most} active runs, and no more may wait",
        field="max_waiting",
        value=most,
        allowed="a request when one of them has ended, or a larger max_waiting",
    )


def is_parent(job_id: str) -> Refused:
    """Return the error for deleting a job that is a parent."""
    message = f"other jobs run after {job_id}: delete them first, or with it (cascade)"
    return Refused(message, field="id", value=job_id, allowed=CHILDLESS)


NOT_DELETED = {"unknown": no_job, "parent": is_parent, "other job": job_changed}
FAMILY_CHANGED = "which jobs run after which was changed meanwhile: read it again"


def check_family(known: int, given: int | None) -> None:
    """Raise `FamilyChanged` if the caller checked edges against another family, or against none."""
    if given != known:
        raise FamilyChanged(FAMILY_CHANGED, field="parents")


def no_document(kind: str, name: str) -> NotFound:
    """Return the error for a name that no document of that kind has."""
    return NotFound(f"there is no {kind} {name!r}", field=kind, value=name)


def document_changed(kind: str, name: str) -> Conflict:
    """Return the error for putting or deleting another version of a document than the store has."""
    return Conflict(f"the {kind} {name!r} was changed meanwhile: read it again", field=kind, value=name)


def overtaken(guard: Document) -> Overtaken:
    """Return the error for a change under another version of a document than the store has."""
    return Overtaken(f"{guard.kind} {guard.name}: another change was faster", field=guard.kind, value=guard.name)


def no_semaphore(name: str) -> NotFound:
    """Return the error for a name that no semaphore has."""
    return NotFound(f"there is no semaphore {name!r} yet", field="semaphore", value=name)


def in_use(name: str) -> Refused:
    """Return the error for deleting a semaphore that is held or waited for."""
    message = f"units of the semaphore {name!r} are held or waited for"
    return Refused(message, field="name", value=name, allowed="a semaphore that nobody uses")


def check_weight(name: str, weight: int, limit: int) -> None:
    """Raise `Refused` for more units than the semaphore has."""
    if weight > limit:
        raise Refused(
            f"the semaphore {name!r} has a limit of {limit}: {weight} units never fit",
            field="weight",
            value=weight,
            allowed=f"1 to {limit}" if limit > 1 else "1",
        )


def check_same_limit(name: str, wanted: int | None, limit: int) -> None:
    """Raise `Refused` if a program names another limit."""
    if wanted not in {None, limit}:
        raise Refused(
            f"the semaphore {name!r} has a limit of {limit}", field="limit", value=wanted, allowed=f"{limit}, or none"
        )


def check_lowered(name: str, limit: int, heaviest: int, rate: ClaimRate | None = None) -> None:
    """Raise `Refused` if something in the line wants more units than the new limit, or than the new rate ever has."""
    units = limit if rate is None else min(limit, rate.units)
    if heaviest > units:
        raise Refused(
            f"something that waits for the semaphore {name!r} wants {heaviest} units",
            field="limit" if heaviest > limit else "rate",
            value=limit if heaviest > limit else str(rate),
            allowed=f"{heaviest} and more",
        )
