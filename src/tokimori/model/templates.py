"""Templates: texts with names between double braces, in whose places facts of the run are put. They hold no code."""

import re
from collections.abc import Callable, Mapping

from tokimori.errors import InvalidInput

FACTS = (
    "job_id",
    "run_id",
    "attempt",
    "token",
    "nominal_time",
    "due_time",
    "parent_run_id",
    "payload",
    "payload_json",
    "callback",
    "signature",
)
"""What a template may name. `payload_json` is the payload as a string of JSON, with its quotes; null where there is
none."""
OPENING = "{{"
_PLACE = re.compile(r"\{\{(?:[ ]*([a-z_]+)[ ]*\}\})?")


def check_template(field: str, text: str) -> None:
    """Check that the text names only facts. Raises `InvalidInput`."""
    for place in _PLACE.finditer(text):
        if place[1] not in FACTS:
            shown = place[0] if place[1] else text[place.start() : place.start() + 20]
            raise InvalidInput(
                f"{field}: {shown!r} names no fact of a run",
                field=field,
                value=shown,
                allowed=f"one of {', '.join(FACTS)} between {{{{ and }}}}",
            )


def rendered(text: str, facts: Mapping[str, str], written: Callable[[str], str] = str) -> str:
    """The text with the facts in their places, each as `written` gives it. What a fact holds is not looked into."""
    return _PLACE.sub(lambda place: written(facts.get(place[1], "")) if place[1] else place[0], text)
