"""What was probably meant by a word that nobody knows. Pure."""

from collections.abc import Iterable, Sequence

_MOST_FAULTS = 3
_LEAST = 2
"""Nobody knows what a single letter was to be."""
_SIGNS = str.maketrans("", "", " -_/.")


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant; None where none is near enough.

    A letter for every three may be wrong, missing, too much, or in the place of its neighbour, at most three. Case and
    the signs between words don't count. The beginning of one known word alone stands for it.
    """
    words = sorted(set(known))
    told = _plain(given)
    if len(told) < _LEAST:
        return None
    most = min(max(len(told) // 3, 1), _MOST_FAULTS)
    ranked = [(far, _rank(told, word), word) for word in words if (far := _distance(told, _plain(word), most)) <= most]
    if ranked:
        return min(ranked)[2]
    begun = [word for word in words if _plain(word).startswith(told)]
    return begun[0] if len(begun) == 1 else None


def hint(given: str, known: Iterable[str]) -> str:
    """`; did you mean WORD?` for the end of a message; nothing where no known word is near."""
    meant = nearest(given, known)
    return "" if meant is None else f"; did you mean {meant}?"


def _plain(word: str) -> str:
    return word.casefold().translate(_SIGNS)


def _rank(told: str, word: str) -> int:
    """Of words that are equally near the one with the longest common beginning is first."""
    same = 0
    for one, other in zip(told, _plain(word), strict=False):
        if one != other:
            break
        same += 1
    return -same


def _distance(told: str, word: str, most: int) -> int:
    """How many faults make one of the other (optimal string alignment); more than `most` where there are more."""
    if abs(len(told) - len(word)) > most:
        return most + 1
    before: Sequence[int] = ()
    last: Sequence[int] = range(len(word) + 1)
    for row, letter in enumerate(told, 1):
        line = [row]
        for column, other in enumerate(word, 1):
            cost = min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == word[column - 2] and other == told[row - 2]:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        if min(line) > most:
            return most + 1
        before, last = last, line
    return last[-1]
