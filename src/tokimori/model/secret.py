"""Secrets of jobs: values that jobs name as `{{ secret.NAME }}`, and that the store keeps encrypted."""

import re
from typing import Final

import msgspec
from msgspec import Struct

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, Refused
from tokimori.model.document import texts_of
from tokimori.model.templates import SECRETS_NAME
from tokimori.model.words import check_text
from tokimori.spelling import amount

SHORTEST: Final = 6
"""Characters. A shorter value is in any output by chance, and the hidden places would reveal it."""
LARGEST: Final = 16 * 1024
"""Bytes in UTF-8."""
MOST_LINES: Final = 256
"""Lines of a value. Each line is hidden by itself: a keeper searches all that a run writes for each of them."""
NAME_ALLOWED: Final = "1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or a digit"
VALUE_ALLOWED: Final = (
    f"a text of at least {SHORTEST} characters, at most {LARGEST} bytes and {MOST_LINES} lines, without NUL"
)
_NAME = re.compile(rf"{SECRETS_NAME}\Z", re.ASCII)


class Secret(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A secret as the store keeps it. `sealed` is its encrypted content; `jobs` are prefixes of ids, empty: any."""

    name: str
    sealed: str
    jobs: tuple[str, ...] = ()
    at: Moment
    by: str | None = None


class SecretContent(Struct, frozen=True, array_like=True):
    """Encrypted content. Name and jobs are encrypted with the value, so that a writer of the store can't move it."""

    name: str
    jobs: tuple[str, ...]
    value: str


encode_secret, decode_secret = texts_of(Secret)
_contents = msgspec.json.Decoder(SecretContent)


def encode_content(content: SecretContent) -> bytes:
    """Return the bytes that are encrypted."""
    return msgspec.json.encode(content)


def value_in(secret: Secret, opened: bytes) -> str | None:
    """Return the value in the bytes of `encode_content`; None if invalid, or of another secret or other jobs."""
    try:
        content = _contents.decode(opened)
    except msgspec.MsgspecError:
        return None
    return content.value if (content.name, content.jobs) == (secret.name, secret.jobs) else None


def check_secret_name(name: object) -> str:
    """Check the name of a secret. Raises `InvalidInput`."""
    if isinstance(name, str) and _NAME.match(name):
        return name
    raise InvalidInput(f"name: {name!r} is not the name of a secret", field="name", value=name, allowed=NAME_ALLOWED)


def check_value(value: object) -> str:
    """Check the value of a secret; the error does not show it. Raises `InvalidInput`."""
    try:
        check_text("value", value)
    except InvalidInput:
        raise _unfit("it is no text that a process can be given") from None
    text = str(value)
    if len(text) < SHORTEST:
        raise _unfit(f"it has {amount(len(text), 'character')}, and could not be hidden in the output of a run")
    if (size := len(text.encode())) > LARGEST:
        raise _unfit(f"it has {size} bytes")
    if (lines := len(text.splitlines())) > MOST_LINES:
        raise _unfit(f"it has {lines} lines")
    return text


def no_key() -> Refused:
    """Return the error for a missing key."""
    return Refused(
        "secrets: there is no key here: `tokimori secret key FILE` makes one, and secrets.key_file names the file",
        field="secrets.key_file",
        allowed="a file with a key, or keys in TOKIMORI_SECRETS_KEYS",
    )


def _unfit(why: str) -> InvalidInput:
    return InvalidInput(f"value: {why}", field="value", allowed=VALUE_ALLOWED)
