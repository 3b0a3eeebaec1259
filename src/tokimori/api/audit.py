"""The path `/api/v2/audit`."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import page_of
from tokimori.api.operation import Operation, Routes
from tokimori.service.validation import MOST_LISTED
from tokimori.service.views.access import AuditEntry


class AuditQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries, newest first; `after`: those older than the entry of this id."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class AuditRoutes(Routes):
    """The part of the API for the audit log."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        return [Operation("audit_list", "GET", "/api/v2/audit", self.list, list[AuditEntry])]

    async def list(self, request: Request, query: AuditQuery) -> Response:
        """Return changes with their authors, newest first, a page at a time."""
        found = await self._service(request).audit.list(query.after, query.limit)
        views = [AuditEntry.made(each) for each in found]
        return page_of(request, views, more=len(found) == query.limit, after=found[-1].id if found else None)
