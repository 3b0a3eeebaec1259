"""The screen for a wall: the first screen, larger, and only to be read."""

from typing import Final

from tokimori.web.job_rows import WORST_FIRST
from tokimori.web.screen import Act, Screen, Shown
from tokimori.web.screens import now
from tokimori.web.visit import Visit


async def show(visit: Visit) -> Shown:
    """Return the values of the first screen, with the worst counters first."""
    shown = await now.show(visit)
    if not isinstance(shown, dict):
        return shown
    counts = sorted(shown["counts"], key=lambda each: WORST_FIRST.index(each.word))
    return {**shown, "counts": counts, "at": visit.time(visit.now)}


ACTS: Final[tuple[Act, ...]] = ()
SCREENS: Final = (Screen("/wall", "wall", "wall.html", show, leads=True),)
