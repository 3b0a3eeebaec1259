"""Moments as JSON, where there may be none."""

from tokimori.clock import Moment, format_moment


def stamp(moment: Moment | None) -> str | None:
    """Return the moment as an RFC 3339 text in UTC."""
    return None if moment is None else format_moment(moment)
