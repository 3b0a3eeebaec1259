"""The layout of keys: what it says is what the scripts do."""

import re
from collections import defaultdict
from importlib.resources import files

from tokimori.stores.redis import layout

KEY = re.compile(r"(?=.{24}(?:hash|zset|set|string|stream|channel) )([a-z_]+:?)")
USED = re.compile(r"P \.\. '([a-z_]+:?)|prefix\}([a-z_]+:?)")


def said() -> dict[str, set[str]]:
    """Each key of the layout as far as scripts name it, and the files in which it says that it is used."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for entry in re.split(r"\n(?=\S)", layout.__doc__ or ""):
        if key := KEY.match(entry):
            _, _, users = entry.partition(" in: ")
            found[key[1]] |= set(users.replace(",", " ").split())
    return found


def done() -> dict[str, set[str]]:
    """Each key that a script or a file names, and where."""
    here = files("tokimori.stores.redis")
    texts = {entry.name: entry.read_text() for entry in here.iterdir() if entry.name.endswith(".py")}
    for entry in (here / "scripts").iterdir():
        if entry.name.endswith(".lua"):
            texts[entry.name.removesuffix(".lua")] = entry.read_text()
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, text in texts.items():
        for key in USED.finditer(text):
            found[key[1] or key[2]].add(name)
    return found


def test_every_key_stands_in_the_layout() -> None:
    """The layout has all keys that are used, and no other."""
    assert said().keys() == done().keys()


def test_the_layout_says_where_a_key_is_used() -> None:
    """Whoever names a key stands beside it."""
    stated = said()
    assert {key: places - stated[key] for key, places in done().items() if places - stated[key]} == {}
