"""The settings of the audit log."""

from typing import Annotated

from msgspec import Meta, Struct


class AuditSettings(Struct, frozen=True, kw_only=True):
    """The audit log."""

    keep: Annotated[
        int, Meta(ge=0, le=36_500, description="Days for which it is known who has changed what; 0: for ever.")
    ] = 365
