"""Bounds of texts: words, and texts that every database and every program can hold."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from tokimori.errors import InvalidInput

DOTS = frozenset({".", ".."})
"""Not allowed as names: in an address they mean this folder and the one above."""
LONGEST_WORD = 128
_WORD = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_WORD}}}\Z", re.ASCII)
MOST_ADDRESS = 2_000
"""Characters of an address to which somebody returns."""
_PAIR_OR_HALF = re.compile(r"\\ud[89ab]..\\ud[c-f]..|(\\ud[89a-f]..)", re.IGNORECASE)
WORD_ALLOWED = "1 to 128 of A-Z a-z 0-9 . _ -"


def check_word(name: str, text: object) -> None:
    """Check a word: a key or value of labels, or the name of a queue or semaphore. Raises `InvalidInput`."""
    if not isinstance(text, str) or _WORD.match(text) is None:
        raise InvalidInput(f"{name}: {text!r} is not a word", field=name, value=text, allowed=WORD_ALLOWED)
    if text in DOTS:
        allowed = f"{WORD_ALLOWED}, neither . nor .."
        raise InvalidInput(
            f"{name}: {text!r} would lead elsewhere in an address", field=name, value=text, allowed=allowed
        )


def own_address(text: str | None) -> str | None:
    """Return the text if it is an address of this door, a path and perhaps a query; None for what leads elsewhere."""
    if not text or len(text) > MOST_ADDRESS or not text.isprintable() or not text.startswith("/"):
        return None
    return None if text.startswith("//") or "\\" in text or " " in text else text


def texts_in(value: object) -> Iterator[str]:
    """Yield every text in plain values, the keys of dictionaries included."""
    match value:
        case str():
            yield value
        case dict():
            for part in (*value, *value.values()):
                yield from texts_in(part)
        case list() | tuple():
            for part in value:
                yield from texts_in(part)
        case _:
            pass


def check_text(name: str, text: object) -> None:
    """Refuse NUL and halves of surrogate pairs, which arguments of programs and some databases can't hold.

    Raises `InvalidInput`.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"{name}: {text!r} is not a text", field=name, value=text, allowed="a text")
    if "\0" in text or not _is_whole(text):
        allowed = "characters of Unicode except NUL"
        raise InvalidInput(f"{name}: {text!r} can't be kept", field=name, value=text, allowed=allowed)


def json_fault(fault: Exception, text: bytes | str) -> str:
    """Return what is wrong with a text that is no JSON. Of half a surrogate pair msgspec says sometimes: truncated."""
    why = str(fault).removesuffix(" - at `$[...]`")
    known = text if isinstance(text, str) else text.decode(errors="replace")
    if "surrogate" in why or "truncated" in why:
        for half in filter(None, _PAIR_OR_HALF.findall(known.replace("\\\\", ""))):
            return f"{half} is half of a surrogate pair, which no text can hold"
    return why


def check_keys(field: str, text: str) -> None:
    """Refuse JSON in which an object has a key twice: one of both would vanish. Raises `InvalidInput`."""
    _pairs(field).decode(text)


@lru_cache(maxsize=4)
def _pairs(field: str) -> json.JSONDecoder:
    def looked_at(members: list[tuple[str, object]]) -> None:
        if len(dict(members)) == len(members):
            return
        for key, times in Counter(key for key, _ in members).items():
            if times > 1:
                message = (
                    f"{field}: the key {key!r} stands {times} times in one object, of which all but one would vanish"
                )
                raise InvalidInput(message, field=field, value=key, allowed="each key of an object once")

    return json.JSONDecoder(object_pairs_hook=looked_at, parse_int=str, parse_float=str)


def _is_whole(text: str) -> bool:
    """Return if it has no half of a surrogate pair. To check each character takes a hundred times longer."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
