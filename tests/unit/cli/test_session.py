"""What every command takes from the machine."""

import getpass

import pytest

from tokimori.cli.session import user_name


@pytest.mark.parametrize("fault", [KeyError("uid not found"), OSError("no username set")])
def test_a_user_without_a_name_is_nobody_in_particular(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as a number that its list of users lacks: Python says so in two ways."""

    def fail() -> str:
        raise fault

    monkeypatch.setattr(getpass, "getuser", fail)
    assert user_name() is None
