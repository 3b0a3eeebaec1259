"""The identity of a program that holds permits."""

from collections.abc import Mapping

from msgspec import Struct, field

from tokimori.model.ids import RunId, Token


class Program(Struct, frozen=True, kw_only=True):
    """Program as it registers with the store. `run_id` and `token` are of the run that started it, if one did.

    `permits` are the units, (weight, token) by name, that this run holds in another store than its job's.
    """

    host: str
    boot_id: str
    pid: int
    version: str
    run_id: RunId | None = None
    token: Token | None = None
    permits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
