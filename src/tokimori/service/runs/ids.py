"""Ids of runs as people give them: whole, or as much of the beginning or the end as is unique."""

import re
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from tokimori.errors import InvalidInput, NotFound
from tokimori.model.ids import RunId
from tokimori.model.run import SHORT, Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.store import RunFilter
from tokimori.service.definitions.steps import all_in

_DIGITS = 32
_PART = re.compile(rf"[0-9a-f]{{{SHORT},{_DIGITS}}}\Z", re.ASCII)
_ALLOWED = f"a run's id, or {SHORT} or more of its first or last digits"
_PAGE, _FIRST, _MOST = 500, 20_000, 200_000
"""Number of ids read at once. The newest are compared by their ends, and older ones if none of those fits."""
_SHOWN = 5

ListRuns = Callable[[RunFilter], Awaitable[Sequence[Run]]]
Sees = Callable[[RunId], Awaitable[bool]]


async def whole_id(list_runs: ListRuns, text: object, sees: Sees) -> RunId:
    """Return the id of the only visible run whose id is, begins or ends with this text.

    Raises `NotFound`, and `InvalidInput` if it fits several runs.
    """
    digits = str(text).strip().lower().replace("-", "")
    if not isinstance(text, str) or _PART.match(digits) is None:
        raise InvalidInput(f"run: {text!r} is not the id of a run", field="run", value=text, allowed=_ALLOWED)
    if len(digits) == _DIGITS:
        return RunId(str(UUID(digits)))
    found = [*await _beginning(list_runs, digits), *await _ending(list_runs, digits)]
    found = [each for each in dict.fromkeys(found or await _to_come(list_runs, digits)) if await sees(each)]
    if not found:
        message = f"run: no run's id begins or ends with {text!r}, of the newest {_MOST:,}"
        raise NotFound(message, field="run", value=text, allowed=_ALLOWED)
    if len(found) > 1:
        named = f"{', '.join(found[:_SHOWN])}{', …' if len(found) > _SHOWN else ''}"
        message = f"run: the ids of several runs begin or end with {text!r}: {named}"
        raise InvalidInput(message, field="run", value=text, allowed="more of the id")
    return found[0]


async def _beginning(list_runs: ListRuns, digits: str) -> list[RunId]:
    after = int(digits, 16) + 1 << 4 * (_DIGITS - len(digits))
    before = None if after >> 4 * _DIGITS else RunId(str(UUID(int=after)))
    newest = await list_runs(RunFilter(before=before, limit=_SHOWN + 1, longest=-1))
    return [run.id for run in newest if run.id.replace("-", "").startswith(digits)]


async def _ending(list_runs: ListRuns, digits: str) -> list[RunId]:
    """Return the ids that end so: ids are in the order of their beginnings, so all of them are compared."""
    found: list[RunId] = []
    before: RunId | None = None
    for looked in range(0, _MOST, _PAGE):
        if looked >= _FIRST and found:
            break
        page = await list_runs(RunFilter(before=before, limit=_PAGE, longest=-1))
        found += [run.id for run in page if run.id.replace("-", "").endswith(digits)]
        if len(page) < _PAGE:
            break
        before = page[-1].id
    return found


async def _to_come(list_runs: ListRuns, digits: str) -> list[RunId]:
    """Return the steps that are still to be made, behind the newest runs, whose ids begin or end so."""
    live = await list_runs(RunFilter(states=frozenset(RunState) - ENDS, limit=_PAGE))
    ids = {step.id: step.id.replace("-", "") for run in live for step in all_in(run.details.then)}
    return [each for each, its in ids.items() if its.startswith(digits) or its.endswith(digits)]
