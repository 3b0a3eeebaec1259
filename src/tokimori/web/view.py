"""The view of the page: the parameters of its address."""

from typing import NamedTuple
from urllib.parse import quote, urlencode

from tokimori.model.words import DOTS


def api_path(*parts: str) -> str | None:
    """Return the path below `/api/v2` of these parts; None if it would lead elsewhere, for a name that older versions
    took.
    """
    return None if DOTS.intersection(parts) else "/".join(("/api/v2", *(quote(part, safe="") for part in parts)))


class View(NamedTuple):
    """The parameters of the page's address, which say what it shows."""

    job: str | None = None
    """Only runs of this job are listed."""
    run: str | None = None
    """This run is shown with its attempts and output."""
    attempt: str | None = None
    """The output of this attempt is shown, by default of the newest."""
    after: str | None = None
    """Jobs behind this id are listed."""
    before: str | None = None
    """Runs older than this one are listed."""
    schedule: str | None = None
    """This text is explained."""
    zone: str | None = None
    """The time zone of that text."""

    def link(self, **changes: str | int | None) -> str:
        """Return the address of the same view with these changes."""
        values = {**self._asdict(), **changes}
        query = urlencode({name: value for name, value in values.items() if value is not None})
        return f"/?{query}" if query else "/"
