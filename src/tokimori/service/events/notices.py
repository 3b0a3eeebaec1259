"""Notices as programs and people request them, and the changes that are reported."""

from collections.abc import AsyncIterator, Sequence

from tokimori.errors import Refused
from tokimori.model.access_token import Role, Scope
from tokimori.model.audit import Changed
from tokimori.model.lanes import EVERYTHING as ALL_QUEUES
from tokimori.service.access import OPEN, Sight, sight_of_runs
from tokimori.service.events.notice_board import FoundNotices, Item, NoticeBoard, wanted_of
from tokimori.service.operation import M, Part, operation, stream
from tokimori.service.search.jobs import JobOf
from tokimori.service.validation import Span, seconds_of

LONGEST_WAIT = 60.0
"""Seconds for which one call waits at most."""
FOLLOW_WAIT = 20.0
_EVERYBODYS = ("calendar", "semaphore", "node")
"""What everybody may read."""


class Notices(Part[M]):
    """Operations on notices."""

    def _notice_board(self, board: NoticeBoard, job_of: JobOf) -> None:
        """Say where notices come from, and which job has an id: it may be one of a few seconds ago."""
        self._board, self._job_of = board, job_of

    @operation(Role.READ, OPEN, by_role=True)
    async def notices(self, after: str | None = None, wait: Span = 0.0, of: Sequence[str] = ()) -> FoundNotices:
        """Return the nouns and ids of things that changed after the position `after`, by default from now on.

        Wait for the first one for `wait` seconds. The new state is not part of a notice: read the thing again. Starts
        of runs are included. If `reload` is set, more has changed than is remembered. `of` names nouns (`runs`) and
        things (`jobs/nightly`): then there are no others, and ids are those that it names. Raises `InvalidInput`.
        """
        return await self._board.read(after, waited(wait), _sees_all, wanted_of(of))

    @notices.within
    async def _notices_within(
        self, sight: Sight, after: str | None = None, wait: Span = 0.0, of: Sequence[str] = ()
    ) -> FoundNotices:
        """Return notices of things in scope. Notices of the audit log need the right to read it."""
        of_audit = sight.role is Role.ADMIN and sight.scope.is_everything
        sees_run = sight_of_runs(sight.scope, self._job_of)

        async def sees(item: Item) -> bool:
            match item.of:
                case None:
                    return True
                case Changed() as change:
                    is_wanted = of_audit if item.noun == "audit" else change.is_definition or of_audit
                    return is_wanted and is_seen(change, sight.scope)
                case run:
                    return await sees_run(run)

        return await self._board.read(after, waited(wait), sees, wanted_of(of))

    @stream()
    async def follow_notices(self, after: str | None = None) -> AsyncIterator[FoundNotices]:
        """Yield notices of changes without end, a few times a second at most. Raises `Refused` when the node stops."""
        while True:
            found = await self.notices(after, FOLLOW_WAIT)
            if found.notices or found.reload or after is None:
                yield found
            after = found.after
            if found.over:
                raise Refused("the node stops: ask another one for later events", field="after", value=after)


def is_seen(change: Changed, scope: Scope) -> bool:
    """Return whether a caller with this scope may see the change."""
    if scope.is_everything:
        return True
    if change.job_id is None:
        is_known = change.kind == "queue" and (change.name == ALL_QUEUES or scope.owns_queue(change.name))
        return is_known or change.kind in _EVERYBODYS
    return any(scope.has(change.job_id, queue) for queue in change.queues or (None,))


def waited(wait: Span) -> float:
    """Return the seconds for which a call waits. Raises `InvalidInput`."""
    return min(LONGEST_WAIT, seconds_of("wait", wait))


async def _sees_all(_: Item) -> bool:
    return True
