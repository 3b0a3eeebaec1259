"""What a script says of itself stands in a comment (PEP 723)."""

import pytest

from tokimori.errors import InvalidFile
from tokimori.workspace.source import read_metadata

SCRIPT = """#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "requests<3",
#
#   "rich",
# ]
#
# [tool.tokimori]
# schedule = "every 10 seconds"
# description = "says hello"
# ///
print("hello")
"""


def test_a_script_says_what_it_depends_on_and_when_it_runs() -> None:
    """The block of PEP 723, and in it what is ours."""
    found = read_metadata(SCRIPT, "a.py")
    assert found.dependencies == ("requests<3", "rich")
    assert found.requires_python == ">=3.11"
    assert (found.ours.schedule, found.ours.description) == ("every 10 seconds", "says hello")


@pytest.mark.parametrize("text", ["", "print()\n", "# /// other\n# a = 1\n# ///\n", "# /// script\nprint()\n# ///\n"])
def test_a_script_may_say_nothing(text: str) -> None:
    """Then it depends on nothing, and runs on demand."""
    found = read_metadata(text, "a.py")
    assert (found.dependencies, found.ours.schedule) == ((), None)


@pytest.mark.parametrize(
    "inside",
    [
        "dependencies = 7",
        "dependencies = [",
        "[tool.tokimori]\n# scedule = 'x'",
        "[tool.tokimori]\n# schedule = 10",
    ],
)
def test_what_can_not_be_read_is_refused(inside: str) -> None:
    """The error names the file."""
    with pytest.raises(InvalidFile, match=r"^a\.py: the block"):
        read_metadata(f"# /// script\n# {inside}\n# ///\n", "a.py")


def test_two_blocks_are_refused() -> None:
    """As PEP 723 says."""
    with pytest.raises(InvalidFile, match="two blocks"):
        read_metadata(SCRIPT + SCRIPT, "a.py")


def test_a_script_says_terms_of_its_job() -> None:
    """All that a job has, as text, number or table; another word is refused."""
    found = read_metadata("# /// script\n# [tool.tokimori]\n# timeout = 60\n# retry = {attempts = 3}\n# ///\n", "a.py")
    assert found.ours.terms == {"timeout": 60, "retry": {"attempts": 3}}
