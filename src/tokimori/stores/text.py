"""What a database's text can't hold."""


def storable(text: str | None) -> str | None:
    """The text without NULs and halves of surrogate pairs, which an error message may hold."""
    return text if text is None else text.replace("\0", "\ufffd").encode(errors="replace").decode()
