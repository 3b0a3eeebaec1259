"""The film of a terminal: it is whole, small, and types what README types."""

import json
import re

from docs.pictures.film import FILM, Shown, cast_of, picture_of
from tests.programs.forked import ROOT

CAST, PICTURE = (ROOT / "docs/assets" / f"first-minutes.{kind}" for kind in ("cast", "svg"))


def test_the_cast_is_one_that_a_player_reads() -> None:
    """A head of version 2, then events in the order of time; it shows each command that the script types."""
    head, *rows = (json.loads(line) for line in CAST.read_text().splitlines())
    assert head["version"] == 2
    assert [at for at, _, _ in rows] == sorted(at for at, _, _ in rows)
    text = "".join(text for _, kind, text in rows if kind == "o")
    assert [command for command in FILM if command not in text] == []
    assert not re.search(r"secret=[\w-]", text) and "/tmp/" not in text and "error" not in text


def test_the_picture_shows_the_same_and_is_small() -> None:
    """Each command stands in it, and the index of the manual shows it; no script, no address."""
    text = PICTURE.read_text()
    assert text.count('class="typed"') == len(FILM)
    assert len(text) < 20_000 and "<script" not in text and "href" not in text
    assert "assets/first-minutes.svg" in (ROOT / "docs/index.md").read_text()


def test_the_film_types_what_the_readme_does() -> None:
    """The first three commands are those of its first part."""
    readme = (ROOT / "README.md").read_text()
    assert [command for command in FILM[:3] if f"$ {command}\n" not in readme] == []


def test_colours_and_marks_are_kept_in_the_cast_alone() -> None:
    """The picture has plain text, with what is special there escaped."""
    shown = [Shown(0.5, "\x1b[1m$ a <b>\x1b[0m\r\n"), Shown(1.0, "c\r\nd & e\r\n")]
    assert "\\u001b[1m" in cast_of(shown)
    assert re.findall(r">([^<]+)</text>", picture_of(shown)) == ["$ a &lt;b&gt;", "c", "d &amp; e"]
