"""Common parts of the URLs of stores on servers."""

from collections.abc import Callable, Set
from urllib.parse import SplitResult, parse_qsl, urlsplit

from tokimori.errors import InvalidInput


def invalid(kind: str, allowed: str, fault: str) -> InvalidInput:
    """Return the error of a URL. It may hold a password: it is not repeated."""
    return InvalidInput(f"store: {kind}: {fault}; allowed: {allowed}", field="store", value=kind, allowed=allowed)


def read(
    url: str, server: str, known: Set[str], invalid: Callable[[str], InvalidInput]
) -> tuple[SplitResult, int | None, dict[str, str]]:
    """Return its parts, its port, and its settings, which are among those that are known. Raises `InvalidInput`."""
    try:
        parts = urlsplit(url)
        port = parts.port
        settings = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise invalid(f"can't be read as the URL of a {server} server") from None
    for unknown in settings.keys() - known:
        raise invalid(f"there is no setting {unknown!r}; settings are {', '.join(sorted(known))}")
    return parts, port, settings
