"""YAML read with lines."""

import pytest

from tokimori.errors import InvalidFile
from tokimori.translators.yaml_tree import Faults, Value, read_documents


def one(text: str) -> Value:
    """The only document of a text."""
    (document,) = read_documents(text, Faults("f"))
    return document


def test_values_know_their_line_and_place() -> None:
    """The line of a field is that of its name; documents go on counting."""
    first, second = read_documents("---\na:\n  b: 1\nc: [x, y]\n---\nd: 2\n", Faults("f"))
    below = first.below("a").below("b")
    assert (below.path, below.line, below.content) == ("a.b", 3, 1)
    assert [(item.path, item.line) for item in first.below("c").items()] == [("c[0]", 4), ("c[1]", 4)]
    assert second.below("d").line == 6


def test_empty_documents_are_none() -> None:
    """A file may begin with `---`, end with it, and be empty."""
    assert list(read_documents("---\n---\n# nothing\n", Faults("f"))) == []
    assert list(read_documents("", Faults("f"))) == []


def test_aliases_and_merges_are_followed() -> None:
    """As in YAML 1.1: what stands beside a merge wins."""
    document = one("base: &base {a: 1, b: 2}\nuse: {<<: *base, b: 3}\nsame: *base\n")
    assert {name: value.content for name, value in document.below("use").fields().items()} == {"a": 1, "b": 3}
    assert document.below("same").scalar("b", int, 0) == 2


def test_aliases_can_not_explode() -> None:
    """Each is read once, however often it is used."""
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 20)]
    document = one("\n".join(["l0: &l0 [x]", *levels]))
    assert len(document.below("l19").items()) == 9


def test_what_has_another_type_is_refused() -> None:
    """Every fault is kept with its line; a bool is no number; the default stands in."""
    document = one("a: x\nb: true\nc: 1\nd: [1]\ne: null\n")
    assert document.scalar("a", int, 7) == 7
    assert document.scalar("b", int, 7) == 7
    assert document.scalar("c", str, "y") == "y"
    assert document.scalar("e", str, "y") == "y"
    assert document.below("a").fields() == {}
    assert document.below("c").items() == []
    assert document.below("d").texts() == []
    assert document.faults.texts() == [
        "f:1: a: 'x' is not allowed; allowed: a mapping",
        "f:1: a: 'x' is not allowed; allowed: a whole number",
        "f:2: b: True is not allowed; allowed: a whole number",
        "f:3: c: 1 is not allowed; allowed: a list",
        "f:3: c: 1 is not allowed; allowed: a text",
        "f:4: d[0]: 1 is not allowed; allowed: a text",
    ]


def test_a_field_that_stands_twice_is_refused() -> None:
    """Nobody can say which was meant."""
    document = one("a:\n  b: 1\n  b: 2\n")
    assert set(document.faults.texts()) == {"f:2: a.b: it is given twice", "f:3: a.b: it is given twice"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "f:1: not YAML: expected the node content"),
        ("a: 1\nb: *c\n", "f:2: not YAML: found undefined alias"),
        ("schedule: */10 * * * *\n", "f:1: not YAML: "),
        ("a: !!python/object:os.system x", "f:1: not YAML: could not determine a constructor"),
        ("a: 2024-99-99", "f: not YAML: month must be in"),
        ("a: &a [*a]", "f:1: not YAML: it is nested too deeply"),
        ("[" * 3000, "f: it is nested too deeply"),
        ("a: \0", "f: not YAML: special characters are not allowed"),
        ("a: \udcff", "f: not YAML: special characters are not allowed"),
    ],
)
def test_what_is_no_yaml_is_refused(text: str, said: str) -> None:
    """With the line where it is known; no tag makes an object."""
    with pytest.raises(InvalidFile) as caught:
        list(read_documents(text, Faults("f")))
    assert caught.value.message.startswith(said)
