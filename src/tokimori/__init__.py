"""Tokimori, keeper of time: a distributed job scheduler.

    import tokimori

    with tokimori.open("sqlite:///var/lib/tokimori/tokimori.db") as client:
        client.add("nightly-report", schedule="0 3 * * *", command="make report")

Nothing is imported before it is used, and nothing inside the package imports from here.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokimori.client.asynchronous import open_async as open_async
    from tokimori.client.client import open as open

__version__ = "0.1.0"
__all__ = ["__version__", "open", "open_async"]


def __getattr__(name: str) -> object:
    """Import the client on the first use of `tokimori.open`."""
    if name == "open":
        from tokimori.client.client import open as open_client  # noqa: PLC0415

        return open_client
    if name == "open_async":
        from tokimori.client.asynchronous import open_async  # noqa: PLC0415

        return open_async
    raise AttributeError(f"module 'tokimori' has no attribute {name!r}")
