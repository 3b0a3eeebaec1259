"""The scripts of shells."""

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Called


@pytest.mark.parametrize(("shell", "place"), [("bash", "completions/tokimori"), ("zsh", "_tokimori"), ("fish", "fish")])
def test_completion_is_installed_for_the_shell_of_the_user(
    shell: str, place: str, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which SHELL names, or the line; another shell is refused with those that there are."""
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    file = Path(called.json("completion", "install")["file"])
    assert place in str(file)
    assert file.read_text() == called("completion", shell)
    assert called.json("completion", "install", shell) == called.json("completion", shell, "--install")
    monkeypatch.setenv("SHELL", "/bin/sh")
    called("completion", "install", code=2)
    assert "bash, fish, zsh" in called.told
    called("completion", "bash", "zsh", code=2)


def test_a_place_that_can_not_be_written_is_named(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no bug of ours that a file stands where a folder should be."""
    monkeypatch.setenv("HOME", __file__)
    called("completion", "bash", "--install", code=2)
    assert "can't be written: Not a directory" in called.told
