"""Templates: texts with names between double braces, in whose places facts of the run are put. They hold no code.

A request's texts are templates: they name facts of the run, and secrets. Of a command only secrets are looked for: all
else between braces is the command's own.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

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
SECRETS: Final = "secret."
"""So begins what names a secret: `{{ secret.NAME }}`."""
SECRETS_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_PLACE = re.compile(rf"\{{\{{(?:[ ]*(secret\.{SECRETS_NAME}|[a-z_]+)[ ]*\}}\}})?", re.ASCII)
_SECRET = re.compile(rf"\{{\{{[ ]*secret\.(?:({SECRETS_NAME})[ ]*\}}\}})?", re.ASCII)


def check_template(field: str, text: str) -> None:
    """Check that the text names only facts and secrets. Raises `InvalidInput`."""
    for place in _PLACE.finditer(text):
        if place[1] not in FACTS and not (place[1] or "").startswith(SECRETS):
            shown = place[0] if place[1] else text[place.start() : place.start() + 20]
            raise InvalidInput(
                f"{field}: {shown!r} names no fact of a run",
                field=field,
                value=shown,
                allowed=f"one of {', '.join(FACTS)}, or secret.NAME, between {{{{ and }}}}",
            )


def rendered(text: str, facts: Mapping[str, str], written: Callable[[str], str] = str) -> str:
    """The text with the facts in their places, each as `written` gives it. What a fact holds is not looked into."""
    return _PLACE.sub(lambda place: written(facts.get(place[1], "")) if place[1] else place[0], text)


def check_secrets(field: str, text: str) -> None:
    """Check that what begins as the name of a secret is one. Raises `InvalidInput`."""
    for place in _SECRET.finditer(text):
        if not place[1]:
            shown = text[place.start() : place.start() + 20]
            message = f"{field}: {shown!r} is not the name of a secret"
            raise InvalidInput(message, field=field, value=shown, allowed="such as {{ secret.NAME }}")


def check_no_secret(field: str, text: str, instead: str) -> None:
    """Refuse a secret where none can stand. Raises `InvalidInput`."""
    if found := _SECRET.search(text):
        message = f"{field}: {found[0]!r} can't stand here: {instead}"
        raise InvalidInput(message, field=field, value=found[0], allowed="a text without {{ secret. … }}")


def secrets_in(texts: Iterable[str]) -> frozenset[str]:
    """The names of the secrets that texts name."""
    return frozenset(place[1] for text in texts if OPENING in text for place in _SECRET.finditer(text) if place[1])


def with_secrets(text: str, values: Mapping[str, str]) -> str:
    """The text with the values of secrets in their places, and all else as it is."""
    if OPENING not in text:
        return text
    return _SECRET.sub(lambda place: values[place[1]] if place[1] in values else place[0], text)
