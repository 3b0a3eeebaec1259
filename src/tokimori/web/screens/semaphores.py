"""The list of semaphores."""

from typing import Final

from tokimori.errors import StoreUnavailable
from tokimori.web.screen import Screen, Shown
from tokimori.web.visit import Visit

SHOWN: Final = 100


async def show(visit: Visit) -> Shown:
    """Return the list of semaphores with their first holders; these may be in a store of their own that is away."""
    try:
        found = await visit.service.semaphores.list(visit.one("after"), limit=SHOWN)
    except StoreUnavailable as fault:
        return {"semaphores": (), "more": None, "fault": fault.message}
    more = visit.link(after=found[-1].name) if len(found) == SHOWN else None
    return {"semaphores": found, "more": more, "fault": None}


SCREENS: Final = (Screen("/semaphores", "semaphores", "semaphores.html", show, leads=True),)
