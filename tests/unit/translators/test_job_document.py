"""A job as a text that a person edits."""

import tomllib

import pytest

from tokimori.errors import InvalidInput
from tokimori.model.ids import JobId
from tokimori.service.definitions.definitions import JobFields
from tokimori.translators.job_document import HINTS, changes, document, marked, read_document, unmarked

FIELDS = {
    "schedule": "0 3 * * *",
    "time_zone": "Europe/Paris",
    "command": ["make", 'a "b" \\ ü\n'],
    "retry": {"attempts": 3, "delay": 2.5},
    "env": {"LANG": "C", "A_B": "x y"},
}
JOB = JobId("nightly")


def test_a_text_says_what_the_job_says() -> None:
    """The comments around it change nothing, and name only what is not said."""
    text = document(["The job nightly.", ""], FIELDS)
    assert read_document(text, JOB) == (JOB, FIELDS)
    assert text.startswith("# The job nightly.\n#\n\nschedule = ")
    assert "# schedule" not in text
    assert '# owner = "ada"' in text


def test_every_hint_can_be_taken() -> None:
    """Without its sign it is a line of TOML, of a field that a job has."""
    for hint in HINTS:
        (name,) = tomllib.loads(f"{hint.name} = {hint.example}  # {hint.meaning}")
        assert name in JobFields.__struct_fields__


def test_a_new_job_says_its_id() -> None:
    """One that is known keeps it: the text may say it, and nothing else."""
    assert read_document('id = "x"\nnoop = true').id == "x"
    assert read_document('id = "nightly"\nnoop = true', JOB).fields == {"noop": True}
    for text, known in (('id = "x"\nnoop = true', JOB), ("noop = true", None), ('id = "a b"\nnoop = true', None)):
        with pytest.raises(InvalidInput, match="id"):
            read_document(text, known)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ('schedule = "0 3 * *"', 'schedule = "0 3 * *"'),
        ('noop = true\nshedule = "x"', 'shedule = "x"'),
        ("noop = true\nretry = { attempts = 0 }", "retry = { attempts = 0 }"),
        ("noop = true\n[retry]\nattempts = 0", "[retry]"),
        ("noop = true\nowner = ", "owner = "),
        ('noop = true\ntime_zone = "Europe/Pariss"', 'time_zone = "Europe/Pariss"'),
    ],
)
def test_a_fault_is_told_below_its_line(wrong: str, line: str) -> None:
    """As comments, which are gone when the text is read again; a fault of no line is told at the top."""
    text = f"# head\n{wrong}\n"
    with pytest.raises(InvalidInput) as caught:
        read_document(text if "noop" in wrong else f"noop = true\n{text}", JOB)
    lines = marked(text, caught.value).splitlines()
    place = lines.index(line) + 1
    assert lines[place].startswith("#! ")
    assert unmarked(marked(text, caught.value)) == text
    assert marked(marked(text, caught.value), caught.value) == marked(text, caught.value)
    assert marked(text, InvalidInput("command: none", field="command")).startswith("#! command: none\n")


def test_a_fault_leaves_all_lines_as_they_are() -> None:
    """Also where a text holds what Unicode calls the end of a line, and TOML does not."""
    text = 'name = "a\u2028b\x85c"\r\nshedule = "x"\n'
    with pytest.raises(InvalidInput) as caught:
        read_document(f"noop = true\n{text}", JOB)
    assert unmarked(marked(text, caught.value)) == text


def test_the_diff_has_what_changes_alone() -> None:
    """Unified, with five lines around each change; nothing where the same is said."""
    new = {**FIELDS, "time_zone": "UTC"}
    assert changes(FIELDS, {**FIELDS, "command": ("make", 'a "b" \\ ü\n')}, "nightly") == []
    diff = changes(FIELDS, new, "nightly")
    assert diff[:2] == ["--- nightly", "+++ nightly (edited)"]
    assert [line for line in diff[2:] if line[0] in "+-"] == ['-time_zone = "Europe/Paris"', '+time_zone = "UTC"']
