"""The settings of channels."""

from typing import Annotated

from msgspec import Meta, Struct


class ChannelsSettings(Struct, frozen=True, kw_only=True):
    """Messages of programs to programs."""

    keep: Annotated[
        int, Meta(ge=0, le=36_500, description="Days for which messages are kept; 0: whatever their age.")
    ] = 7
    most: Annotated[int, Meta(ge=1, le=1_000_000, description="How many messages of one topic are kept.")] = 10_000
