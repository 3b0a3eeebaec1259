"""`tokimori job add`, `job update` and `job edit`: by options, or as a text in an editor."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tokimori.cli.command import Command, CommandWithArguments, options
from tokimori.cli.completion import job_ids
from tokimori.cli.editor import Draft, editor_options
from tokimori.cli.errors import DONE, NOTHING_CHANGED, agreed
from tokimori.cli.job_options import SECTIONS, fields_given, job_options, with_moments
from tokimori.cli.job_printing import SHOWN_MOMENTS, print_job
from tokimori.cli.output import print_json, print_notice
from tokimori.cli.session import Absent, in_service
from tokimori.cli.table import terminal
from tokimori.clock import Moment, SystemClock
from tokimori.errors import InvalidInput, Outdated, Refused, TokimoriError
from tokimori.logs.controls import visible
from tokimori.model.ids import JobId

if TYPE_CHECKING:
    from tokimori.model.job import Job
    from tokimori.service.service import Service
    from tokimori.translators.job_document import Edited

_CHANGED = (
    "Save it and leave the editor: then you see what changes, and are asked. A text that is not",
    "changed changes nothing. A field that is taken out gets its default back.",
)
_NEW = ("Save it and leave the editor: then you are asked. A text that is not changed adds nothing.",)
_EXAMPLE = {"id": "nightly-report", "schedule": "0 3 * * *", "command": "make report"}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("--yes", is_flag=True, help="Do not ask.")
@editor_options
def edit(job_id: str, *, yes: bool, editor: str | None) -> int:
    """Edit a job as a text in $VISUAL or $EDITOR. The changes are shown and confirmed first.

    An invalid text goes back to the editor with the fault marked. Nothing is saved if the job has changed meanwhile.
    """
    from tokimori.service.definitions.definitions import check_readable, job_fields_of, replacing
    from tokimori.service.definitions.edits import tag_of

    job = in_service(lambda service: service.jobs.get(job_id))
    check_readable(job.definition)
    old = dict(job_fields_of(job))

    def save(edited: "Edited") -> "Job":
        changes = replacing(job, edited.fields)
        return in_service(lambda service: service.jobs.edit(job.id, changes, tags=[tag_of(job)]))

    with Draft(_text([f"The job {job.id}, version {job.version}.", *_CHANGED], old), editor) as draft:
        changed = _edited(draft, save, job_id=job.id, old=old, question="Change this job?", yes=yes)
    if changed is None:
        return _nothing("changed")
    print_job("updated", changed)
    return DONE


def add_in_editor(job_id: str | None, fields: Mapping[str, Any], *, yes: bool) -> int:
    """Add a job that is written in the editor; return the exit code. Fields of the command line are filled in."""

    def save(edited: "Edited") -> "Job":
        return in_service(lambda service: service.jobs.add(edited.id, **edited.fields), Absent.MADE)

    terms = {**({} if job_id is None else {"id": job_id}), **fields}
    with Draft(_text(["A new job.", *_NEW], terms or _EXAMPLE)) as draft:
        added = _edited(draft, save, job_id=None, old={}, question="Add this job?", yes=yes)
    if added is None:
        return _nothing("added")
    print_job("added", added)
    return DONE


def _edited(
    draft: Draft,
    save: "Callable[[Edited], Job]",
    *,
    job_id: str | None,
    old: Mapping[str, object],
    question: str,
    yes: bool,
) -> "Job | None":
    """Return the saved job; None if it was declined. An invalid text goes back with the fault marked, and is kept.

    An editor without a person writes the same text again, which ends this.
    """
    from tokimori.translators.job_document import marked, read_document

    if not yes and not sys.stdin.isatty():
        message = "edit: nobody can be asked here whether the text is right: say --yes"
        raise Refused(message, field="edit", allowed="--yes, or a terminal")
    refused: str | None = None
    while draft.edit() and draft.text != refused:
        try:
            edited = read_document(draft.text, None if job_id is None else JobId(job_id))
            return save(edited) if _is_wanted(edited, old, question, yes=yes) else None
        except InvalidInput as fault:
            if not sys.stdin.isatty():  # nobody is there who could mend it
                print_notice(f"Your text is in {draft.save()}.")
                raise
            print_notice(f"error: {fault.message}")
            refused, draft.text = draft.text, marked(draft.text, fault)
        except Outdated:
            text = f"Somebody changed it since you opened it. Your text is in {draft.save()}. {NOTHING_CHANGED}"
            raise Outdated(text, field="edit", value=job_id) from None
        except TokimoriError:
            print_notice(f"Your text is in {draft.save()}.")
            raise
    if refused is not None:
        message = f"The text is still wrong. It is in {draft.save()}. {NOTHING_CHANGED}"
        raise Refused(message, field="edit", value=job_id, allowed="a text without the fault that is marked in it")
    return None


def _is_wanted(edited: "Edited", old: Mapping[str, object], question: str, *, yes: bool) -> bool:
    """Show the changes, and ask. Raises `Declined`."""
    from tokimori.translators.job_document import changes

    diff = changes(old, edited.fields, edited.id)
    if not diff:
        return False
    _show(diff)
    if not yes:
        agreed(question)
    return True


def _show(diff: Sequence[str]) -> None:
    """Print the lines of the diff, on a terminal in colours."""
    from rich.text import Text

    console = terminal(stderr=True)
    for line in diff:
        if console.is_terminal:
            console.print(Text(visible(line), _COLOURS.get(line[:1], "default")), soft_wrap=True)
        else:
            print_notice(line)


def _nothing(what: str) -> int:
    print_notice(f"nothing was {what}")
    if options().as_json:
        print_json(None)
    return DONE


def _text(head: Sequence[str], fields: Mapping[str, object]) -> str:
    from tokimori.translators.job_document import document

    return document(head, fields)


@click.command(
    cls=CommandWithArguments,
    sections=SECTIONS,
    examples=(
        ("job add nightly --schedule '0 3 * * *' --timezone Europe/Paris --command 'make report'", ""),
        ("job add import --schedule 'every 10 minutes' --attempts 3 --retry-delay 30s -- ./import.py --all", ""),
        ("job add alert --url https://example.org/hook --after import=failure", "when another one has failed"),
        ("job add -e", "in an editor"),
    ),
)
@click.argument("job_id", metavar="ID", required=False, shell_complete=job_ids)
@job_options
@click.option("-e", "--edit", "in_editor", is_flag=True, help="Write it as a text in $VISUAL or $EDITOR.")
@click.option("--yes", is_flag=True, help="With --edit: do not ask.")
def add(job_id: str | None, *, in_editor: bool, yes: bool, **values: Any) -> int:
    """Add a job: --command TEXT, or a program and its arguments after --; or -e, in an editor."""
    fields = fields_given(values)
    if in_editor:
        return add_in_editor(job_id, with_moments(fields, SystemClock().now()), yes=yes)
    if job_id is None:
        raise click.UsageError("Missing argument 'ID'; or -e, to write the job in an editor")

    async def act(service: "Service") -> "tuple[Job, Sequence[Moment]]":
        added = await service.jobs.add(job_id, **with_moments(fields, await service.db.now()))
        return added, await service.jobs.next(added.id, SHOWN_MOMENTS)

    print_job("added", *in_service(act, Absent.MADE))
    return DONE


@click.command(
    cls=CommandWithArguments,
    sections=SECTIONS,
    examples=(
        ("job update nightly --schedule @daily", ""),
        ("job update nightly --unset timeout", "back to its default"),
    ),
)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@job_options
@click.option("--unset", multiple=True, metavar="FIELD", help="Set a field back to its default.")
def update(job_id: str, unset: tuple[str, ...], **values: Any) -> None:
    """Change fields of a job; other fields stay. --env and --label are added to those that it has."""
    changes = {**fields_given(values), **dict.fromkeys(unset)}
    if not changes:
        raise InvalidInput("nothing to change", allowed="at least one field")

    async def act(service: "Service") -> "tuple[Job, Sequence[Moment]]":
        changed = await service.jobs.update(job_id, **with_moments(changes, await service.db.now()))
        return changed, await service.jobs.next(changed.id, SHOWN_MOMENTS)

    print_job("updated", *in_service(act))
