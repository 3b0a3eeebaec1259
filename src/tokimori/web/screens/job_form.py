"""The form in which a job is made, changed or copied: with a preview, what changes, and both sides of a conflict."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast

from msgspec import DecodeError, json

from tokimori.errors import Bug, InvalidInput, Outdated, TokimoriError
from tokimori.model.job import Job
from tokimori.model.job_fields import FIELDS
from tokimori.service.definitions.definitions import check_readable, definition_from, job_fields_of
from tokimori.service.definitions.edits import tag_of
from tokimori.web.addresses import path
from tokimori.web.job_form import Texts, diff, fields_in, place_of, sections, texts_of
from tokimori.web.job_rows import Preview, preview, unread
from tokimori.web.screen import Moved, Screen, Shown
from tokimori.web.toasts import Toast
from tokimori.web.visit import Visit

MOMENTS_SHOWN: Final = 10
Form = Mapping[str, Sequence[str]]


class Clash(NamedTuple):
    """Field that another person changed meanwhile: its old, current and typed texts."""

    path: str
    was: str
    theirs: str
    yours: str


async def show(visit: Visit) -> Shown:
    """Return the form with the texts of the job."""
    job = await _job(visit)
    texts = {} if job is None else texts_of(_fields_of(job))
    return await _shown(visit, job, "", texts)


async def take(visit: Visit, form: Form) -> Shown:
    """Return the form with a preview, or save it. A refused form keeps its texts."""
    job = await _job(visit)
    typed: Texts = {name: form[name][-1].replace("\r\n", "\n") for name in FIELDS if form.get(name, [""])[-1].strip()}
    job_id = _one(form, "id").strip()
    is_edit, clashes = job is not None and _is_edit(visit), list[Clash]()
    if job is not None and is_edit and _one(form, "tag") != tag_of(job):
        typed, clashes = _merged(_texts(_one(form, "base")), texts_of(_fields_of(job)), typed)
    fault: TokimoriError | None = None
    try:
        fields = fields_in(typed, {} if job is None else _fields_of(job))
        definition_from(_without_count(fields), time_zone=visit.service.time_zone)
        if _one(form, "do") == "save" and not clashes:
            return await _save(visit, job if is_edit else None, job_id, fields)
    except Bug:
        raise
    except Outdated as late:  # between the look and the edit: the form is compared with the job as it is now
        job, fault = await _job(visit), late
        if job is not None:
            typed, clashes = _merged(_texts(_one(form, "base")), texts_of(_fields_of(job)), typed)
    except TokimoriError as wrong:
        fault = wrong
    return await _shown(visit, job, job_id, typed, fault=fault, clashes=clashes)


async def _save(visit: Visit, job: Job | None, job_id: str, said: Mapping[str, object]) -> Moved:
    if job is None:
        made = await visit.service.jobs.add(job_id or None, **cast(Any, said))
        toast = Toast(head=f"{made.id} added")
    else:
        made = await visit.service.jobs.edit(job.id, said, whole=True, tags=[tag_of(job)])
        toast = Toast(head=f"{made.id} has version {made.version} now")
    return Moved(path("jobs", made.id), toast)


async def _shown(
    visit: Visit,
    job: Job | None,
    job_id: str,
    texts: Texts,
    *,
    fault: TokimoriError | None = None,
    clashes: Sequence[Clash] = (),
) -> Shown:
    is_edit = job is not None and _is_edit(visit)
    old = {} if job is None else texts_of(_fields_of(job))
    wrong = fault if isinstance(fault, InvalidInput) else None
    found = await _preview(visit, texts)
    if found is not None and found.error and place_of(wrong) is None:
        wrong = InvalidInput(found.error, field="schedule", value=texts["schedule"], allowed=found.allowed)
    parts = sections(texts, old, wrong)
    at_field = any(row.fault for part in parts for row in (*part.rows, *part.folded))
    status = HTTPStatus.CONFLICT if clashes else HTTPStatus.OK if fault is None else fault.status
    return {
        "job": job,
        "is_edit": is_edit,
        "id": job_id,
        "sections": parts,
        "tag": tag_of(job) if job is not None and is_edit else "",
        "base": json.encode(old).decode(),
        "diff": diff(old if is_edit else {}, texts),
        "clashes": clashes,
        "fault": None if fault is None or at_field else fault,
        "at_id": wrong is not None and wrong.field in ("id", "job_id"),
        "preview": found,
        "operation": "jobs.edit" if is_edit else "jobs.add",
        "status": status,
    }


async def _preview(visit: Visit, texts: Texts) -> Preview | None:
    """Return the meaning of the schedule in the form; None if it has none."""
    zone = texts.get("time_zone", "").strip() or visit.service.time_zone
    if not (text := texts.get("schedule", "").strip()):
        return None
    try:
        fields = fields_in({name: texts.get(name, "") for name in ("calendars", "gap", "fold", "shift")}, {})
        found = await visit.service.schedules.explain(text, zone, MOMENTS_SHOWN, **cast(Any, fields))
    except InvalidInput as fault:
        return unread(zone, fault)
    return preview(visit, found)


def _merged(base: Texts, theirs: Texts, typed: Texts) -> tuple[Texts, list[Clash]]:
    """Return the form with all changes that only others made, and the list of all their changes."""
    changed = [name for name in FIELDS if base.get(name, "") != theirs.get(name, "")]
    taken = {name: theirs.get(name, "") for name in changed if typed.get(name, "") == base.get(name, "")}
    clashes = [Clash(name, base.get(name, ""), theirs.get(name, ""), typed.get(name, "")) for name in changed]
    merged = {name: text for name, text in {**typed, **taken}.items() if text}
    return merged, clashes or [Clash("version", "", "", "")]


async def _job(visit: Visit) -> Job | None:
    if "job_id" not in visit.parts:
        return None
    job = await visit.service.jobs.get(visit.parts["job_id"])
    check_readable(job.definition)
    return job


def _is_edit(visit: Visit) -> bool:
    return visit.path.endswith("/edit")


def _fields_of(job: Job) -> Mapping[str, object]:
    return cast(Mapping[str, object], job_fields_of(job))


def _without_count(said: Mapping[str, object]) -> Mapping[str, object]:
    return {name: value for name, value in said.items() if name != "runs_remaining"}


def _one(form: Form, name: str) -> str:
    return form.get(name, [""])[-1]


def _texts(text: str) -> Texts:
    try:
        return json.decode(text, type=dict[str, str])
    except DecodeError:
        return {}


SCREENS: Final = tuple(
    Screen(each, "jobs", "job_form.html", show, take=take)
    for each in ("/jobs/new", "/jobs/{job_id}/edit", "/jobs/{job_id}/copy")
)
