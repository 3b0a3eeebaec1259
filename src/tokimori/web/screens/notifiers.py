"""Notifiers: jobs that notify people of what happens to other jobs."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tokimori.clock import SECOND
from tokimori.errors import InvalidInput
from tokimori.model.job import Job
from tokimori.model.notifier import PREFIX, name_of
from tokimori.model.target import kind_of
from tokimori.service.notifiers import id_of, notifier_fields, notifies, trial_payload
from tokimori.service.service import Service
from tokimori.web.addresses import path
from tokimori.web.job_rows import command, job_rows
from tokimori.web.nouns import (
    Column,
    Noun,
    Row,
    Table,
    filters,
    has,
    job_table,
    jobs_that,
    paged,
    plain,
    said,
    screens_of,
    state,
)
from tokimori.web.screen import Act, Field, Given, Receipt
from tokimori.web.screens.secrets import listed
from tokimori.web.visit import Visit
from tokimori.web.words import short, whole_length

_COLUMNS: Final = (
    *(Column("State", "pc"), Column("Name", "pa"), Column("Kind", "pd"), Column("To", "wide pf")),
    *(Column("Bundles", "n pb"), Column("Quiet", "w2")),
)
_COMMAND: Final = "tokimori notifier add ops --url https://example.org/hook"


async def show(visit: Visit) -> Noun:
    """Return the list of notifiers."""

    async def page_of(after: str | None, limit: int) -> Sequence[Job]:
        return (await visit.service.jobs.list(prefix=PREFIX, after=after, limit=limit)).jobs

    found, page = await paged(
        visit, page_of, lambda job: job.id, lambda job: has(visit, job.id, job.definition.description, _to(job))
    )
    words = {row.id: row.state for row in await job_rows(visit, found)}
    empty = "There are no notifiers. Jobs name one with `--notify NAME`; this makes one:"
    return Noun(
        [Table("Notifiers", _COLUMNS, [_row(each, words[each.id]) for each in found], empty, _COMMAND)],
        makes=("notifiers.add",),
        filter=filters(visit, "Filter notifiers"),
        page=page,
    )


def _to(job: Job) -> str:
    target = job.definition.target
    return ", ".join(getattr(target, "to", ())) if kind_of(target) == "email" else command(job.definition)


def _terms(job: Job) -> tuple[str, str]:
    said_ = job.definition.notifier
    if said_ is None:
        return "", ""
    return whole_length(round(said_.bundle * SECOND)) if said_.bundle else "", ", ".join(said_.quiet)


def _row(job: Job, word: str) -> Row:
    name = name_of(job.id)
    bundle, quiet = _terms(job)
    cells = (
        state(word),
        said(name, to=path("notifiers", name)),
        said(kind_of(job.definition.target)),
        said(_to(job)),
        said(bundle),
        said(quiet),
    )
    return Row(f"notifier {name}", cells, ("notifiers.test",), name)


async def page(visit: Visit) -> Noun:
    """Return the page of a notifier, with the jobs that name it."""
    job = await visit.service.jobs.get(id_of(visit.parts["name"]))
    (row,) = await job_rows(visit, [job])
    name, (bundle, quiet) = name_of(job.id), _terms(job)
    facts = {"Kind": kind_of(job.definition.target), "To": _to(job), "Bundles": bundle, "Quiet": quiet}
    nobody = "No job of those that you see names it. One that does:"
    command_ = f"tokimori job update JOB --notify {plain(name)}"
    named_by = await jobs_that(visit, lambda each: notifies(each.definition, job.id))
    return Noun(
        [job_table("Jobs that name it", named_by, nobody, command_)],
        name=plain(name),
        says=(state(row.state), said(job.definition.description), said("its runs", to=path("jobs", job.id))),
        acts=("notifiers.test", "notifiers.delete"),
        on=name,
        facts=[(head, said(text)) for head, text in facts.items()],
    )


async def _add(service: Service, name: str, given: Given) -> Receipt:
    fields = notifier_fields({**_target(given), "notifier": _bundling(given)})
    await service.jobs.add(id_of(name), **fields)
    return Receipt(f"Notifier {name} added: jobs name it with --notify {name}", path("notifiers", name))


def _target(given: Given) -> Mapping[str, Any]:
    """Return the target of a notifier. Raises `InvalidInput` for none, and for two."""
    kinds = [kind for kind in ("url", "email", "command") if kind in given]
    if len(kinds) != 1:
        allowed = "one of an address, e-mail and a command"
        raise InvalidInput("url: a notifier does one thing", field="url", value=", ".join(kinds), allowed=allowed)
    if kinds == ["url"]:
        return {name: given[name] for name in ("url", "sign_with") if name in given}
    if kinds == ["email"]:
        return {"email": listed(given["email"]), **{name: given[name] for name in ("smtp", "sender") if name in given}}
    return {"command": tuple(shlex.split(given["command"]))}


def _bundling(given: Given) -> Mapping[str, Any]:
    quiet = [each.strip() for each in given.get("quiet", "").split(";") if each.strip()]
    return {**({"bundle": given["bundle"]} if "bundle" in given else {}), **({"quiet": quiet} if quiet else {})}


async def _test(service: Service, name: str, given: Given) -> Receipt:
    job = await service.jobs.get(id_of(name))
    run = await service.jobs.trigger(job.id, payload=trial_payload(job, name, await service.db.now()))
    return Receipt(f"Run {short(run.id)} tries {name}", path("runs", run.id))


async def _delete(service: Service, name: str, given: Given) -> None:
    await service.jobs.delete(id_of(name), force="force" in given)


ACTS: Final = (
    Act(
        "notifiers.add",
        "Add",
        "added",
        _add,
        fields=(
            Field("url", "Address", "of a webhook, which gets a POST; or e-mail, or a command"),
            Field("sign_with", "Signed with", "the name of a secret"),
            Field("email", "E-mail to", "addresses"),
            Field("smtp", "Mail server", "such as mail.example.org:587"),
            Field("sender", "Sender", "the address from which it comes"),
            Field("command", "Command", "the notification is $TOKIMORI_PAYLOAD"),
            Field("bundle", "Bundles", "such as 1m: what happens in this time is one notification"),
            Field("quiet", "Quiet hours", "such as 22:00-07:00; sat,sun 00:00-24:00"),
        ),
        makes="New notifier",
    ),
    Act("notifiers.test", "Test", "tried", _test),
    Act(
        "notifiers.delete",
        "Delete",
        "deleted",
        _delete,
        fields=(Field("force", "Also if jobs name it: they notify nobody any more", kind="check"),),
        sure="There is no undo.",
        back="/notifiers",
    ),
)
SCREENS: Final = screens_of("notifiers", show, page, "{name}")
