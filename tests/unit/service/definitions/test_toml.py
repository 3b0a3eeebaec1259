"""Jobs written as TOML, judged by the standard library's reader."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tokimori.errors import Bug
from tokimori.service.definitions.toml import write_toml

_texts = st.text(st.characters(codec="utf-8"))
_scalars = st.one_of(
    _texts, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)
_values = st.one_of(
    _scalars,
    st.lists(_texts),
    st.dictionaries(_texts, _scalars),
    st.dictionaries(_texts, st.dictionaries(_texts, _texts)),
)


def test_a_job_is_a_table() -> None:
    """One after the other, in the order of their fields."""
    jobs: list[dict[str, object]] = [
        {"id": "a.b", "command": ["ls", "-l"], "env": {"A": "1", "b c": "x"}},
        {"id": "n", "noop": True, "timeout": 1.5, "labels": {}},
    ]
    assert write_toml(jobs) == (
        '[[jobs]]\nid = "a.b"\ncommand = ["ls", "-l"]\nenv = { A = "1", "b c" = "x" }\n\n'
        '[[jobs]]\nid = "n"\nnoop = true\ntimeout = 1.5\nlabels = {}\n'
    )


def test_what_is_beside_jobs_comes_before_them() -> None:
    """As tables by kind and name, behind the name of the set: a table ends where the next one begins."""
    text = write_toml([{"id": "n"}], "prod", {"queues": {"a.b": {"paused": True}, "*": {"paused": True}}})
    assert text == (
        'set = "prod"\n\n[queues."a.b"]\npaused = true\n\n[queues."*"]\npaused = true\n\n[[jobs]]\nid = "n"\n'
    )


def test_no_jobs_are_an_empty_file() -> None:
    """Which is TOML."""
    assert write_toml([]) == ""


@settings(max_examples=examples(25))
@given(st.lists(st.dictionaries(_texts, _values, min_size=1)))
def test_what_is_written_is_what_is_read(jobs: list[dict[str, object]]) -> None:
    """Whatever the texts hold."""
    assert tomllib.loads(write_toml(jobs)).get("jobs", []) == jobs


def test_what_toml_has_no_form_for_is_a_bug() -> None:
    """No field of a job is such."""
    with pytest.raises(Bug):
        write_toml([{"id": None}])
