"""The three errors of Kala's client, each a kind of ours."""

from tokimori.errors import InvalidInput, NotFound, Refused


class JobNotFound(NotFound):
    """There is no job of that id (`ErrJobNotFound`)."""


class JobCreationError(InvalidInput):
    """The job was not created; the message says why (`ErrJobCreationError`)."""


class GenericError(Refused):
    """The server answered something else than was asked for (`ErrGenericError`)."""
