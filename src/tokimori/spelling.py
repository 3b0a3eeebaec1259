"""Suggestions for a word that nobody knows, and nouns with their numbers. Pure."""

from collections.abc import Iterable, Sequence

_MOST_FAULTS = 3
_LEAST = 2
"""Nobody knows what a single letter was to be."""
_SIGNS = str.maketrans("", "", " -_/.")


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant; None if none is near enough.

    A letter for every three may be wrong, missing, too much, or in the place of its neighbour, at most three. Case and
    the signs between words don't count. The beginning of one known word alone stands for it.
    """
    wanted = _plain(given)
    if len(wanted) < _LEAST:
        return None
    words = [(_plain(word), word) for word in set(known)]
    most = min(max(len(wanted) // 3, 1), _MOST_FAULTS)
    near = [
        (far, -_same(wanted, plain), word) for plain, word in words if (far := _distance(wanted, plain, most)) <= most
    ]
    if near:
        return min(near)[2]
    begun = [word for plain, word in words if plain.startswith(wanted)]
    return begun[0] if len(begun) == 1 else None


def hint(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean WORD?` for the end of a message; nothing if no known word is near."""
    meant = nearest(given, known)
    return "" if meant is None else f"; did you mean {meant}?"


def amount(number: int, noun: str) -> str:
    """Return the number with its noun, in the plural unless there is one: `1 run`, `2,000 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _plain(word: str) -> str:
    return word.casefold().translate(_SIGNS)


def _same(typed: str, word: str) -> int:
    """Return how many letters both begin with: of words that are equally near the one with the most is meant."""
    return next((place for place, pair in enumerate(zip(typed, word, strict=False)) if pair[0] != pair[1]), len(typed))


def _distance(typed: str, word: str, most: int) -> int:
    """Return how many faults make one of the other (optimal string alignment); more than `most` if there are more."""
    if abs(len(typed) - len(word)) > most or len(set(typed) ^ set(word)) > 2 * most:  # most words are no near misses
        return most + 1
    before: Sequence[int] = ()
    last: Sequence[int] = range(len(word) + 1)
    for row, letter in enumerate(typed, 1):
        line = [row]
        for column, other in enumerate(word, 1):
            cost = min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == word[column - 2] and other == typed[row - 2]:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        if min(line) > most:
            return most + 1
        before, last = last, line
    return last[-1]
