"""What of everything the page shows: the parameters of its address."""

from typing import NamedTuple
from urllib.parse import urlencode


class View(NamedTuple):
    """What of everything is looked at; the parameters of the page's address."""

    job: str | None = None
    """Only runs of this job are listed."""
    run: str | None = None
    """This run is shown with its attempts and output."""
    attempt: str | None = None
    """Of this attempt the output is shown; the newest by default."""
    after: str | None = None
    """Jobs behind this id."""
    before: str | None = None
    """Runs older than this one."""
    schedule: str | None = None
    """This text is explained."""
    zone: str | None = None
    """The zone in which it is meant."""

    def link(self, **changes: str | int | None) -> str:
        """The address of the same view but for these changes."""
        values = {**self._asdict(), **changes}
        query = urlencode({name: value for name, value in values.items() if value is not None})
        return f"/?{query}" if query else "/"
