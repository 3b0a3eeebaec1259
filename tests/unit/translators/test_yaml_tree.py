"""YAML read with lines."""

from time import process_time

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
        ("a: 2024-99-99", "f:1: not YAML: '2024-99-99' is not a timestamp (month"),
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


def test_merges_can_not_explode() -> None:
    """Each mapping is read once, however often it is merged, and as many fields as no manifest has are refused."""
    levels = [f"l{n}: &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 9)}], k{n}: 1}}" for n in range(1, 12)]
    text = "\n".join(["l0: &l0 {a: 1}", *levels])
    assert sorted(one(text).below("l11").fields()) == sorted(["a", *(f"k{n}" for n in range(1, 12))])
    many = "".join(f"k{n}: 1, " for n in range(2_000))
    with pytest.raises(InvalidFile, match=r"^f:2: .*<< brings too many fields"):
        one(f"a: &a {{{many}}}\nb: {{<<: [{', '.join(['*a'] * 2_000)}]}}\n")
    with pytest.raises(InvalidFile, match="nested too deeply"):
        one("a: &a {<<: [*a, *a]}\n")


def test_many_faults_are_noted_in_no_time() -> None:
    """Each one once: 30,000 that were each looked for among all others took 8 s."""
    document = one("- 1\n" * 30_000 + f"- &long {'x' * 10_000}\n" + "- *long\n" * 1_000)
    began = process_time()
    for each in document.items():
        each.fields()
    assert process_time() - began < 1
    told = document.faults.texts()
    assert len(told) == 30_001
    assert max(map(len, told)) < 200


def test_merges_keep_their_order() -> None:
    """Of a list of mappings the first one wins, and what stands beside them wins over all."""
    document = one("a: &a {x: 1, y: 1, z: 1}\nb: &b {x: 2, y: 2}\nc: {y: 3, <<: [*b, *a]}\n")
    assert {name: value.content for name, value in document.below("c").fields().items()} == {"x": 2, "y": 3, "z": 1}
    with pytest.raises(InvalidFile, match=r"^f:1: not YAML: << takes a mapping or a list"):
        one("a: {<<: 1}")


def test_many_names_are_looked_through_once() -> None:
    """A mapping of 10,000 names is read as fast as they are."""
    document = one("".join(f"k{n}: 1\n" for n in range(10_000)) + "k7: 2\n")
    assert document.faults.texts() == ["f:8: k7: it is given twice", "f:10001: k7: it is given twice"]


@pytest.mark.parametrize(
    "scalar",
    [
        *("2026-13-45", "!!int x", "!!int ''", "!!bool x", "!!float x", "!!timestamp x", "!!binary é", "1:2:3.4:5"),
        *("0x" + "f" * 5_000, "1" * 5_000, "1" + ":59" * 5_000, "!!null {}"),
    ],
)
def test_what_is_no_value_is_refused_with_its_line(scalar: str) -> None:
    """Whatever the library raises for it, the file and the line are named, or it is a text."""
    try:
        document = one(f"a: 1\nb: {scalar}\n")
    except InvalidFile as fault:
        assert fault.message.startswith("f:2: not YAML: ")
        assert len(fault.message) < 1_000
    else:
        assert document.below("b").content in (scalar, None, {})
