"""Dependencies are locked, and what no other node could find is refused."""

import pytest

from tokimori.errors import InvalidFile, InvalidInput
from tokimori.workspace.freezing import locked


def test_what_depends_on_nothing_needs_no_pip() -> None:
    """Its lock is empty."""
    assert locked(()) == ()


@pytest.mark.parametrize("wanted", [">=3.99", "<3.11", ">=3.11,<3.11", ">4", "<=3.10"])
def test_another_python_is_refused(wanted: str) -> None:
    """The error says which one is wanted, and which this is."""
    with pytest.raises(InvalidFile, match="is wanted, and this is"):
        locked((), wanted)


@pytest.mark.parametrize("wanted", [None, ">=3.11", ">=3.8, <4", "~=3.11", "<=3.99", ">3.10"])
def test_this_python_fits(wanted: str | None) -> None:
    """Bounds that this does not understand are left to who runs it."""
    assert locked((), wanted) == ()


def test_an_option_is_no_dependency() -> None:
    """Nobody gives pip another index through a task."""
    with pytest.raises(InvalidInput, match="is no dependency"):
        locked(("--index-url=http://localhost",))
