"""A program that holds permits, as it tells the store of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokimori.model.ids import RunId, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a program says of itself. `run_id` and `token` are those of the run as whose command it was started.

    `permits`: (weight, token) by name of what that run holds in a store apart from that of its job.
    """

    host: str
    boot_id: str
    pid: int
    version: str
    run_id: RunId | None = None
    token: Token | None = None
    permits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
