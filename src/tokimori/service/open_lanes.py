"""Open lanes: which of those with ready runs serve a worker's wish. Sorted once for all who wait: they look often."""

from collections.abc import Sequence

from tokimori.model.ids import Lane
from tokimori.model.lanes import handler_of, lacking, queue_of
from tokimori.service.wishes import WorkerWish


class OpenLanes:
    """The lanes of one survey, by the function that their runs want."""

    def __init__(self) -> None:
        self._lanes: Sequence[Lane] = ()
        self._by_function: dict[str, list[Lane]] = {}

    def serving(self, wish: WorkerWish, lanes: Sequence[Lane]) -> tuple[Lane, ...]:
        """Return the lanes that serve the wish. The same lanes again are not sorted again."""
        if lanes is not self._lanes:
            self._sort(lanes)
        types = self._by_function if wish.types is None else dict.fromkeys(wish.types)
        found = [lane for name in types for lane in self._by_function.get(name, ()) if _serves(wish, lane)]
        return tuple(sorted(found))

    def _sort(self, lanes: Sequence[Lane]) -> None:
        self._lanes, self._by_function = lanes, {}
        for lane in lanes:
            if function := handler_of(lane):
                self._by_function.setdefault(function, []).append(lane)


def _serves(wish: WorkerWish, lane: Lane) -> bool:
    return wish.queue in (None, queue_of(lane)) and not lacking(wish.labels, lane)
