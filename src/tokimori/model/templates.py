"""Templates: texts with names in double braces, which are replaced by facts of the run. They hold no code.

A request's and an e-mail's texts are templates: they name facts of the run, parts of its payload, and secrets. In a
command only secrets are replaced: all else in braces is the command's own.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
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
"""Facts that a template may name. `payload_json` is the payload as a string of JSON, with its quotes; null if there is
none."""
_OTHERS = ", part.KEY, part_json.KEY, parent.result, parent.JOB.result or secret.NAME"
OPENING = "{{"
SECRETS: Final = "secret."
"""Beginning of a reference to a secret: `{{ secret.NAME }}`."""
SECRETS_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
PART: Final = "part."
"""Beginning of a reference to a part of a payload that is a JSON object: `{{ part.subject }}`. A part that is no text
is written as JSON."""
PART_JSON: Final = "part_json."
"""The same, always as JSON: `{{ part_json.subject }}` is a string with its quotes, and null if there is none."""
PARENT: Final = "parent."
"""Beginning of a reference to the result of a parent: `{{ parent.result }}`, or `{{ parent.JOB.result }}` of a join."""
PARENT_JSON: Final = "parent_json."
"""The same as JSON, under which it stands among the facts."""
MOST_FILLED: Final = 4 * 2**20
"""Characters that facts bring into the templates of one attempt: a payload, as text and as JSON, and room beside it."""
_JOB = r"(?:[A-Za-z0-9._:@+][A-Za-z0-9._:@+-]{0,254}\.)?"
_NAMED = rf"(?:secret|part|part_json)\.{SECRETS_NAME}|parent\.{_JOB}result|[a-z_]+"
_PLACE = re.compile(rf"\{{\{{(?:[ ]*({_NAMED})[ ]*\}}\}})?", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*("|\Z)', re.DOTALL)
_SECRET = re.compile(rf"\{{\{{[ ]*secret\.(?:({SECRETS_NAME})[ ]*\}}\}})?", re.ASCII)


def check_template(field: str, text: str, facts: Collection[str] = FACTS, what: str = "fact of a run") -> None:
    """Check that the text names only these facts, parts of the payload, and secrets. Raises `InvalidInput`."""
    for place in _PLACE.finditer(text):
        is_part = facts is FACTS and (place[1] or "").startswith((SECRETS, PART, PART_JSON, PARENT))
        if place[1] not in facts and not is_part:
            shown = place[0] if place[1] else text[place.start() : place.start() + 20]
            raise InvalidInput(
                f"{field}: {shown!r} names no {what}",
                field=field,
                value=shown,
                allowed=f"one of {', '.join(facts)}{_OTHERS if facts is FACTS else ''}, between {{{{ and }}}}",
            )


def rendered(text: str, facts: Mapping[str, str], written: Callable[[str], str] = str, *, is_json: bool = False) -> str:
    """Return the text with the facts in their places, each as `written` gives it. Facts are not rendered again.

    In JSON the result of a parent is a value, or within a string a part of that.
    """
    strings = [place.span() for place in _STRING.finditer(text)] if is_json and PARENT in text else []

    def put(place: re.Match[str]) -> str:
        name = place[1]
        if not name:
            return place[0]
        if is_json and name.startswith(PARENT):
            if any(first < place.start() < last for first, last in strings):
                return json.dumps(facts.get(name, ""))[1:-1]
            return facts.get(PARENT_JSON + name.removeprefix(PARENT), "null")
        return written(facts.get(name, "null" if name.startswith(PART_JSON) else ""))

    return _PLACE.sub(put, text)


def check_filled(texts: Iterable[str], facts: Mapping[str, str]) -> None:
    """Check that texts with these facts in their places are of a bounded size. Raises `InvalidInput`.

    A text of 64 KiB may name a payload of a megabyte some thousand times.
    """
    places = (place[1] for text in texts if OPENING in text for place in _PLACE.finditer(text))
    size = sum(len(facts.get(name, "")) for name in places if name)
    if size > MOST_FILLED:
        message = f"payload: with it the templates of the job would have {size} characters"
        raise InvalidInput(message, field="payload", value=size, allowed=f"at most {MOST_FILLED} in all places")


def names_parents(texts: Iterable[str]) -> bool:
    """Return whether these texts name results of parents."""
    return any(
        (place[1] or "").startswith(PARENT) for text in texts if PARENT in text for place in _PLACE.finditer(text)
    )


def names_parts(texts: Iterable[str]) -> bool:
    """Return whether these texts may name parts of a payload."""
    return any(OPENING in text and "part" in text for text in texts)


def parts_of(payload: str | None) -> Mapping[str, str]:
    """Return the parts of a payload by their names in templates; none if it is no object."""
    try:
        values = json.loads(payload or "")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(values, dict):
        return {}
    texts = {name: json.dumps(value) for name, value in values.items()}
    plain = {name: _whole(value) if isinstance(value, str) else texts[name] for name, value in values.items()}
    return {PART + name: text for name, text in plain.items()} | {
        PART_JSON + name: text for name, text in texts.items()
    }


def _whole(text: str) -> str:
    """Return the text without halves of surrogate pairs, which only JSON can write."""
    return text.encode(errors="replace").decode()


def check_secrets(field: str, text: str) -> None:
    """Check that each reference to a secret is complete. Raises `InvalidInput`."""
    for place in _SECRET.finditer(text):
        if not place[1]:
            shown = text[place.start() : place.start() + 20]
            message = f"{field}: {shown!r} is not the name of a secret"
            raise InvalidInput(message, field=field, value=shown, allowed="such as {{ secret.NAME }}")


def check_secret_name(field: str, name: str) -> None:
    """Check that it is the name of a secret, without braces. Raises `InvalidInput`."""
    if re.fullmatch(SECRETS_NAME, name, re.ASCII) is None:
        message, allowed = f"{field}: {name!r} is not the name of a secret", "1 to 64 of A-Z a-z 0-9 . _ -"
        raise InvalidInput(message, field=field, value=name, allowed=allowed)


def naming(secret: str) -> str:
    """Return the template for this secret."""
    return f"{{{{ {SECRETS}{secret} }}}}"


def check_no_secret(field: str, text: str, instead: str) -> None:
    """Refuse a secret in a text that can have none. Raises `InvalidInput`."""
    if found := _SECRET.search(text):
        message = f"{field}: {found[0]!r} can't stand here: {instead}"
        raise InvalidInput(message, field=field, value=found[0], allowed="a text without {{ secret. … }}")


def secrets_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the names of the secrets that texts name."""
    return frozenset(place[1] for text in texts if OPENING in text for place in _SECRET.finditer(text) if place[1])


def with_secrets(text: str, values: Mapping[str, str]) -> str:
    """Return the text with the values of secrets in their places, and all else as it is."""
    if OPENING not in text:
        return text
    return _SECRET.sub(lambda place: values[place[1]] if place[1] in values else place[0], text)
