"""The synchronous client."""


def open(url: str) -> None:
    """Placeholder until the service stands; replaced in the same change."""
