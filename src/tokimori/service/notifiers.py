"""Notifiers as doors make and try them: jobs, with what most of them want. Pure."""

from collections.abc import Mapping
from typing import Any, cast

from msgspec import to_builtins

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.ids import JobId
from tokimori.model.job import Job
from tokimori.model.notification import Occasion, begun, payload_of
from tokimori.model.notifier import RETRY, NotifyOn, notifier_id
from tokimori.model.words import check_word
from tokimori.service.arguments import JobArguments

TESTED_JOB = JobId("test")


def id_of(name: object) -> JobId:
    """Return the id of the notifier's job. Raises `InvalidInput`."""
    check_word("notifier", name)
    return notifier_id(str(name))


def notifier_fields(said: Mapping[str, Any]) -> JobArguments:
    """Return the fields of a new notifier's job. A request is a POST, unless something else is said."""
    fields = {"notifier": {}, "retry": None, **said}
    if fields["retry"] is None or isinstance(fields["retry"], Mapping):  # else it is refused as that of any job
        fields["retry"] = {**to_builtins(RETRY), **(fields["retry"] or {})}
    if fields.get("url") is not None and fields.get("method") is None:
        fields["method"] = "POST"
    if fields.get("schedule") is not None:
        message = "schedule: a notifier runs when there is something to tell"
        raise InvalidInput(message, field="schedule", value=fields["schedule"], allowed="none")
    return cast(JobArguments, fields)


def trial_payload(job: Job, name: str, now: Moment) -> str:
    """Return the payload of a notification that tells of nothing, to try the notifier. Raises `NotFound` for another
    job.
    """
    notifier = job.definition.notifier
    if notifier is None:
        raise NotFound(f"there is no notifier {name!r}", field="notifier", value=name)
    error = "nothing has failed: this notification tries the notifier"
    occasion = Occasion(event=NotifyOn.FAILURE, job_id=TESTED_JOB, at=now, error=error)
    return payload_of(begun(name, occasion, "", now), f"test-{now}", notifier)
