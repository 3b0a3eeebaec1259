"""Templates of lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tests.unit.cli.conftest import Called
from tokimori.cli.template import check_template, rendered
from tokimori.errors import InvalidInput


class Thing(Struct):
    """What a command shows."""

    id: str
    state: str | None = None
    labels: dict[str, str] = {}
    times: list[int] = []


def test_each_member_is_a_line() -> None:
    """What has no value is a dash; what is more than a word is JSON; a member of a list has a number."""
    things = [Thing("a", "ready", {"host": "vm"}, [3, 4]), Thing("b")]
    template = "{{ id }}={{state}} {{labels.host}} {{times.1}} {{times}}"
    assert rendered(template, things) == (["a=ready vm 4 [3,4]", "b=- - - []"], [])
    assert rendered("{{id}}", Thing("a"))[0] == ["a"]
    assert rendered("{{id.x}}{{times.x}}{{times.99999999999}}", things[0])[0] == ["---"]


def test_a_field_that_nothing_has_is_told() -> None:
    """Once, with those that there are."""
    lines, told = rendered("{{ stat }}", [Thing("a"), Thing("b")])
    assert lines == ["-", "-"]
    assert told == ["output: nothing here has a field 'stat'; there are id, labels, state, times"]
    assert rendered("{{ stat }}", []) == ([], [])
    assert rendered("{{ x }}", "text")[1] == ["output: nothing here has a field 'x'; there are none"]


@pytest.mark.parametrize("template", ["", "id", "{{ id", "id }}", "{{ }}", "{{ id }} {{", "{{ a b }}"])
def test_what_is_no_template_is_refused(template: str) -> None:
    """With what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        check_template(template)
    assert caught.value.field == "output"
    assert "{{ id }}" in str(caught.value.allowed)


@given(
    template=st.text(st.sampled_from("{}. a0\n"), max_size=12),
    value=st.recursive(
        st.none() | st.integers() | st.text(), lambda below: st.lists(below) | st.dictionaries(st.text(), below)
    ),
)
def test_any_template_is_refused_or_prints_each_member(template: str, value: object) -> None:
    """Whatever the answer looks like."""
    try:
        check_template(template)
    except InvalidInput:
        return
    assert len(rendered(template, value)[0]) == (len(value) if isinstance(value, list) else 1)


def test_the_program_prints_by_a_template(called: Called) -> None:
    """Lists and single things; errors stay texts for people."""
    for job in ("a", "b"):
        called("job", "add", job, "--noop")
    assert called("job", "list", "-o", "template={{ id }}:{{ state }}") == "a:enabled\nb:enabled\n"
    assert called("-o", "template={{ version }}", "job", "show", "a") == "1\n"
    assert called("job", "list", "-o", "template={{ stat }}") == "-\n-\n"
    assert "no" in called.told
    called("job", "list", "-o", "template=x", code=2)
    assert "names no field" in called.told
    called("job", "show", "z", "-o", "template={{ id }}", code=3)
    assert called.told.startswith("error: ")
