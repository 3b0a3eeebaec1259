"""Control characters of texts that others wrote, which must not reach a terminal as they are."""

import re

CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
"""Control characters except tabs and ends of lines, and marks that reverse the order of letters."""
_HIDDEN = re.compile(CONTROL)


def visible(text: str) -> str:
    """Return the text with every control character but tabs and ends of lines written out, as `\x1b`."""
    return _HIDDEN.sub(written_out, text)


def visible_json(text: str) -> str:
    """Return the JSON with every control character written out: its encoder leaves some as they are."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def written_out(found: "re.Match[str]") -> str:
    """Return a control character as one reads it."""
    return found[0].encode("unicode_escape").decode()
