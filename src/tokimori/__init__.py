"""Tokimori, keeper of time: a distributed job scheduler.

    import tokimori

    with tokimori.open("sqlite:///var/lib/tokimori/tokimori.db") as client:
        client.jobs.add("nightly-report", schedule="0 3 * * *", command="make report")

Here are apps and clients, what their methods take and return, and the errors that they raise. Nothing is imported
before it is used, and nothing inside the package imports from here.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokimori.apps.names import *  # noqa: F403  each is named there

__version__ = "0.1.0"
_NAMES = "tokimori.apps.names"
_SCHEDULES = ("every", "on")
"""They need nothing else of all this: a file that says a schedule is read at once."""

if not TYPE_CHECKING:  # who checks types sees the names themselves, and finds one that is misspelt

    def __getattr__(name: str) -> object:
        """Import the clients when one of their names is first used; `__all__` is one of these."""
        if name in _SCHEDULES:
            return getattr(import_module("tokimori.schedules.fluent"), name)
        names = import_module(_NAMES)
        if name not in ("__all__", *names.__all__):
            raise AttributeError(f"module 'tokimori' has no attribute {name!r}")
        return getattr(names, name)

    def __dir__() -> list[str]:
        return sorted([*(name for name in globals() if name.startswith("__")), *import_module(_NAMES).__all__])
