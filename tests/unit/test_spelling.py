"""What was probably meant by a word that nobody knows, and nouns with their numbers."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.spelling import amount, hint, nearest

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=12)


def test_the_nearest_word_is_meant() -> None:
    """Of equally near ones that with the longest common beginning; none where all are far."""
    assert nearest("lsit", ["list", "last"]) == "list"
    assert nearest("stoer", ["score", "store"]) == "store"
    assert nearest("EUROPE paris", ["Europe/Paris"]) == "Europe/Paris"
    assert nearest("cal", ["calendar", "context"]) == "calendar"
    assert nearest("c", ["calendar", "cd"]) is None
    assert nearest("co", ["config", "context"]) is None
    assert nearest("", ["a"]) is nearest("x", []) is nearest("--", ["--all"]) is None
    assert (hint("lsit", ["list"]), hint("zzz", ["list"])) == ("; did you mean list?", "")


@given(WORDS, st.data())
def test_one_fault_is_always_seen_through(word: str, data: st.DataObject) -> None:
    """A letter that is missing, doubled, or in the place of its neighbour, where no other word is near."""
    at = data.draw(st.integers(0, len(word) - 2))
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for told in (word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:], swapped):
        assert nearest(told, [word, "0123456789" * 3]) == word


@given(WORDS, WORDS)
def test_a_word_of_other_letters_is_never_meant(one: str, other: str) -> None:
    """Whatever their lengths."""
    assert nearest(one, [other.upper().translate(str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0" * 26))]) is None


def test_a_noun_is_singular_for_one_alone() -> None:
    """Large numbers have commas."""
    assert [amount(each, "run") for each in (0, 1, 2, 2_000)] == ["0 runs", "1 run", "2 runs", "2,000 runs"]
