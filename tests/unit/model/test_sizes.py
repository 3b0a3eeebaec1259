"""How large texts may be."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.examples import a_definition
from tokimori.errors import InvalidInput
from tokimori.model.email import Email
from tokimori.model.sizes import MOST_AUTHOR, MOST_DEFINITION, MOST_OF, MOST_REASON, check_sizes
from tokimori.model.target import Command, Http

DOCS = Path(__file__).parents[3] / "docs/reference/limits.md"


def saying(field: str, size: int) -> Any:
    """A definition with so many bytes in this field, two for each character."""
    text = "é" * (size // 2)
    match field:
        case "command":
            return a_definition(target=Command(argv=("/bin/x", text)))
        case "user" | "cwd" | "shell_path" | "stdin" | "env":
            said: Any = {"A": text} if field == "env" else text
            return a_definition(target=Command(argv=("/bin/x",), **{field: said}))
        case "url":
            return a_definition(target=Http(url=text))
        case "body":
            return a_definition(target=Http(url="http://h/", body=text))
        case "mail_text":
            return a_definition(target=Email(to=("a@b.org",), smtp="h", sender="a@b.org", text=text))
        case "headers":
            return a_definition(target=Http(url="http://h/", headers={"A": text}))
        case "labels":
            return a_definition(labels={"a": text})
        case _:
            return a_definition(**{field: text})


@pytest.mark.parametrize("field", MOST_OF)
def test_what_a_job_says_has_a_bound(field: str) -> None:
    """Up to so many bytes are accepted; one more is refused with the field, its size and what is allowed."""
    extra = {"command": len("/bin/x"), "env": 1, "headers": 1, "labels": 1}.get(field, 0)
    most = MOST_OF[field]
    check_sizes(saying(field, most - extra))
    with pytest.raises(InvalidInput) as refused:
        check_sizes(saying(field, most + 2))
    assert (refused.value.field, refused.value.allowed) == (field, f"at most {most} bytes")
    assert refused.value.value == most + 2 + extra


def test_all_that_a_job_says_has_a_bound() -> None:
    """What has no bound of its own counts in the whole."""
    with pytest.raises(InvalidInput) as refused:
        check_sizes(a_definition(calendars=("c" * 100,) * (MOST_DEFINITION // 100)))
    assert refused.value.field == "definition"


def test_the_page_shows_the_bounds() -> None:
    """Each bound stands in docs/reference/limits.md as it is in the code."""
    page = DOCS.read_text()
    bounds = {**MOST_OF, "reason": MOST_REASON, "author": MOST_AUTHOR, "definition": MOST_DEFINITION}
    for field, most in bounds.items():
        assert any(f"`{field}`" in line and f"| {most:,} |" in line for line in page.splitlines()), field
