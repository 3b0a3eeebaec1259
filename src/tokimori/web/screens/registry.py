"""All screens, and all that can be done on them. A new noun is a line here: see the recipe in CONTRIBUTING."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from tokimori.web.doing import asking
from tokimori.web.screen import Act, Screen
from tokimori.web.screens import (
    audit,
    calendars,
    channels,
    expectations,
    failures,
    find,
    graph,
    job,
    job_form,
    jobs,
    nodes,
    notifiers,
    now,
    plan,
    queues,
    run,
    runs,
    secrets,
    semaphores,
    sets,
    tasks,
    tokens,
)
from tokimori.web.visit import Visit

_NOUNS: Final = (
    *(queues, semaphores, calendars, sets, tasks, expectations),
    *(nodes, notifiers, channels, tokens, secrets, audit),
)
ACTS: Final[Mapping[str, Act]] = MappingProxyType(
    {act.name: act for each in (jobs.ACTS, runs.ACTS, failures.ACTS, *(each.ACTS for each in _NOUNS)) for act in each}
)
SCREENS: Final[tuple[Screen, ...]] = (
    *now.SCREENS,
    *jobs.SCREENS,
    *job_form.SCREENS,
    *job.SCREENS,
    *runs.SCREENS,
    *run.SCREENS,
    *failures.SCREENS,
    *plan.SCREENS,
    *graph.SCREENS,
    *(screen for each in _NOUNS for screen in each.SCREENS),
    *asking(ACTS),
    find.screen(lambda: ACTS, lambda: [name for group in RAIL for name in group if name in _LEADING]),
)
RAIL: Final[tuple[tuple[str, ...], ...]] = (
    ("now", "jobs", "runs", "failures"),
    ("plan", "graph"),
    ("queues", "semaphores", "calendars", "sets", "tasks", "expectations"),
    ("nodes", "notifiers", "channels", "tokens", "secrets", "audit"),
    ("wall",),
)
"""The entries of the rail in groups; those are drawn that have a screen."""
_LEADING: Final[frozenset[str]] = frozenset(screen.place for screen in SCREENS if screen.leads)
_SHOWN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("now", "wall"), ("runs", "jobs", "queues", "nodes", "expectations")),
        **{"failures": ("runs",), "plan": ("jobs", "calendars"), "graph": ("jobs",), "expectations": ("jobs",)},
        **dict.fromkeys(("queues", "semaphores", "nodes"), ("runs",)),
        **{"sets": ("jobs",), "tasks": ("jobs",)},
    }
)
_NOUNS_OF_NOTICES: Final = frozenset(RAIL[0][1:3] + RAIL[2] + RAIL[3])


def shows(screen: Screen, visit: Visit) -> str:
    """Return the query of the notices that the screen receives: of its own noun or thing, and others."""
    place, (name, *_) = screen.place, (*visit.parts.values(), "")
    if place == "runs" and not name and (job := (visit.one("job") or "")[:200]):
        return urlencode([("of", f"jobs/{job}")])
    own = [f"{place}/{name}" if name else place] if place in _NOUNS_OF_NOTICES else []
    return urlencode([("of", each) for each in (*own, *_SHOWN.get(place, ()))])
