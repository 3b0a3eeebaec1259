"""Lengths of time as people write them on a command line: `90`, `7d`, `1h30m`, `PT1H30M`."""

from typing import Any

import click

from tokimori.schedules.typed import LENGTHS, seconds_in


class Length(click.ParamType[float]):
    """The type of an option that takes a length of time; its value is seconds."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        if isinstance(value, int | float):
            return value
        seconds = seconds_in(value)
        if seconds is None:
            self.fail(f"{value!r} is not a length of time; allowed: {LENGTHS}", param, ctx)
        return seconds
