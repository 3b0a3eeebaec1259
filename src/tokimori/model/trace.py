"""Place in a trace: the `traceparent` of W3C Trace Context, as a text. Pure."""

import re

from tokimori.errors import InvalidInput

VARIABLE = "TRACEPARENT"
"""Variable in which programs pass it to those that they start, by OpenTelemetry's conventions."""
HEADER = "traceparent"
_ALLOWED = "a traceparent of W3C Trace Context, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[^\n]*)?")
_LONGEST = 512


def traceparent_in(text: str | None) -> str | None:
    """Return the traceparent in a text from outside, in the form of version 00; None if it is invalid.

    Of later versions it takes the parts that all have.
    """
    found = None if text is None or len(text) > _LONGEST else _FORM.fullmatch(text.strip(" \t"))
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest is not None) or not trace.strip("0") or not span.strip("0"):
        return None
    return f"00-{trace}-{span}-{flags if version == '00' else f'{int(flags, 16) & 1:02x}'}"


def check_traceparent(given: object) -> str | None:
    """Check a `traceparent` that somebody names on purpose. Raises `InvalidInput`."""
    if given is None:
        return None
    found = traceparent_in(given) if isinstance(given, str) else None
    if found is None:
        message = f"traceparent: {given!r} is none"
        raise InvalidInput(message, field="traceparent", value=given, allowed=_ALLOWED)
    return found
