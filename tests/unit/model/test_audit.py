"""What an entry of the audit log tells as an event."""

import pytest

from tokimori.clock import SECOND, Moment
from tokimori.model.audit import AuditEntry, Changed, changed_in, encode_entry, name_of, shown

AT = Moment(1_764_095_402_114_203)


def told(what: str, of: str, before: object = None, after: object = None, event: str | None = None) -> list[Changed]:
    """What an entry tells that was written a second after the change."""
    entry = AuditEntry(at=AT, who="ada", what=what, of=of, before=shown(before), after=shown(after), event=event)
    name = name_of(Moment(AT + SECOND), lambda number: bytes(range(number)))
    return list(changed_in(name, encode_entry(entry)))


def test_a_change_of_a_definition_has_its_event() -> None:
    """It names the thing, who changed it, when that was, and when it was written."""
    (change,) = told("queues.pause", "queue a", event="queue.paused")
    assert (change.event, change.name, change.by, change.is_definition) == ("queue.paused", "a", "ada", True)
    assert (change.at, change.written) == (AT, AT + SECOND)


def test_what_is_no_definition_concerns_the_audit_log_alone() -> None:
    """It is called by the method that was used."""
    (change,) = told("tokens.create", "token ci")
    assert (change.event, change.name, change.is_definition, change.job_id) == (
        "audit.tokens.create",
        "ci",
        False,
        None,
    )


def test_an_edit_says_which_fields_are_others() -> None:
    """Of the definition alone; and in which queues the job was and is."""
    before = {"state": "enabled", "reason": None, "definition": {"queue": "mail", "name": "old", "owner": "ops"}}
    after = {"state": "paused", "reason": "repairs", "definition": {"name": "new", "owner": "ops"}}
    (change,) = told("edit", "job a", before, after, "job.changed")
    assert (change.fields, change.queues, change.reason) == (("name", "queue"), ("default", "mail"), "repairs")
    assert told("edit", "job a", {"left_out": "200000 bytes"}, after)[0].fields == ()


def test_a_set_tells_of_each_thing_that_it_has_changed() -> None:
    """Each has an id of its own."""
    after = {"added": ["a", "b"], "changed": ["c"], "removed": ["d"], "calendars": {"added": ["x"]}}
    found = told("apply", "set ours", None, after, "set.applied")
    assert [(each.event, each.name) for each in found] == [
        ("job.added", "a"),
        ("job.added", "b"),
        ("job.changed", "c"),
        ("job.deleted", "d"),
        ("calendar.added", "x"),
    ]
    assert len({each.id for each in found}) == 5
    assert [each.name for each in told("import_all", "3 jobs", None, {"added": ["a"]}, "jobs.imported")] == ["a"]
    assert [each.event for each in told("apply", "set ours", None, {"left_out": ""}, "set.applied")] == ["job.changed"]


def test_a_renamed_job_is_gone_and_there_is_another() -> None:
    """The new one is told of, too."""
    found = told("rename_job", "job old", None, {"job": "new"}, "job.renamed")
    assert [(each.event, each.name) for each in found] == [("job.renamed", "old"), ("job.added", "new")]


def test_who_changed_too_much_is_told_of() -> None:
    """Events are lacking, and that is an event."""
    (change,) = told("left_out", "7 changes", None, {"add": 7}, "changes.left_out")
    assert (change.event, change.name) == ("changes.left_out", "7")


def test_what_is_no_entry_is_refused() -> None:
    """A text, or a name, of another version."""
    for name, text in (("x", "{}"), (name_of(AT, bytes), "[]")):
        with pytest.raises(ValueError, match=r".+"):
            changed_in(name, text)
