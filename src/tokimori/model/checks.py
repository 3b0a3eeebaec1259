"""Checks of definitions before they are stored."""

import msgspec

from tokimori.errors import InvalidInput
from tokimori.model.attempt_notes import check_payload
from tokimori.model.claim_rate import parse_claim_rate
from tokimori.model.encoding import invalid_json
from tokimori.model.ids import check_job_id
from tokimori.model.job import Definition, limit_of
from tokimori.model.notifier import check_notify, check_terms
from tokimori.model.policies import Approver, Overlap, retention_of
from tokimori.model.semaphores import check_concurrency_key, wanted
from tokimori.model.target import Build, Command, Function, kind_of
from tokimori.model.words import check_text, check_word, texts_in


def check_definition(definition: Definition) -> Definition:
    """Return the definition itself, if it can be kept. Raises `InvalidInput`.

    Python checks neither types nor bounds at construction. `schedule_of` checks the schedule.
    """
    plain = msgspec.to_builtins(definition)
    try:
        msgspec.convert(plain, Definition)
    except msgspec.ValidationError as fault:
        raise invalid_json(fault, plain) from None
    if not _is_kept(plain):
        for name, value in plain.items():
            for text in texts_in(value):
                check_text(name, text)
    check_word("queue", definition.queue)
    for name in definition.calendars:
        check_word("calendars", name)
    if definition.shift is not None and not definition.calendars:
        message, allowed = "shift: without calendars there is nothing to move", "no shift, or calendars beside it"
        raise InvalidInput(message, field="shift", value=definition.shift, allowed=allowed)
    for key, value in definition.labels.items():
        check_word("labels", key)
        check_word(f"labels.{key}", value)
    check_payload(definition.payload)
    _check_waiting(definition)
    _check_approval(definition)
    _check_dependents(definition)
    check_notify(definition.notify)
    if definition.notifier is not None:
        check_terms(definition.notifier)
    wanted(definition.semaphores)
    if definition.rate_limit is not None:
        parse_claim_rate(definition.rate_limit, field="rate_limit")
    check_concurrency_key(definition.concurrency_key)
    retention_of(definition.retention)
    definition.target.check()
    if not definition.auto_complete_success and not definition.target.can_report:
        message = f"auto_complete_success: a {kind_of(definition.target)} can't say how it ended"
        allowed = f"true with {kind_of(definition.target)}"
        raise InvalidInput(message, field="auto_complete_success", value=False, allowed=allowed)
    _check_process(definition)
    return definition


def _is_kept(plain: object) -> bool:
    """Return if surely no text has a NUL or half of a surrogate pair: to look at each takes several times longer."""
    try:
        return b"\\u0000" not in msgspec.json.encode(plain)
    except UnicodeEncodeError:
        return False


def _check_process(definition: Definition) -> None:
    """Refuse what concerns a process if the target has none, or shares it."""
    if definition.client and not isinstance(definition.target, Command | Build):
        message = f"client: a {kind_of(definition.target)} has no environment that could hold it"
        raise InvalidInput(message, field="client", value=True, allowed="true with a command or a build")
    if definition.own_process and not isinstance(definition.target, Function):
        message = f"own_process: a {kind_of(definition.target)} shares no process with other runs"
        raise InvalidInput(message, field="own_process", value=True, allowed="true with a function")
    for name in ("max_cpu", "max_memory"):
        limit = getattr(definition, name)
        if limit is not None and not (definition.own_process or isinstance(definition.target, Command | Build)):
            what = kind_of(definition.target)
            why = "shares its process with other runs" if what == "function" else "has no process"
            allowed = "a command, a build, or a function with own_process"
            raise InvalidInput(f"{name}: a {what} {why}", field=name, value=limit, allowed=allowed)


def _check_waiting(definition: Definition) -> None:
    waiting = definition.max_waiting
    if waiting is not None and not limit_of(definition):
        message = "max_waiting: without a limit nobody waits for a place"
        raise InvalidInput(message, field="max_waiting", value=waiting, allowed="max_running above 0 beside it")
    if waiting is not None and definition.on_overlap is Overlap.REPLACE:
        message = "max_waiting: where the newest replaces the others it always waits for one of them to end"
        raise InvalidInput(message, field="max_waiting", value=waiting, allowed="on_overlap = skip or queue beside it")


def _check_approval(definition: Definition) -> None:
    if definition.approval:
        return
    for name, plain in (("approver", Approver.OPERATE), ("approve_within", None), ("four_eyes", False)):
        if (value := getattr(definition, name)) != plain:
            message = f"{name}: nobody approves runs of this job"
            raise InvalidInput(message, field=name, value=value, allowed="approval = true beside it")


def _check_dependents(definition: Definition) -> None:
    for parent in definition.parents:
        check_job_id(parent.job, field="parents")
    if definition.on_failure_job is not None:
        check_job_id(definition.on_failure_job, field="on_failure_job")
    if definition.parents and definition.schedule is not None:
        message = "schedule: a job with parents runs after them"
        raise InvalidInput(message, field="schedule", value=definition.schedule, allowed="no schedule with parents")
