"""The manual pages, and the scripts of shells."""

import re
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Called

_ORDERS = {".TH", ".SH", ".PP", ".nf", ".fi"}


def test_every_command_has_a_page(called: Called, tmp_path: Path) -> None:
    """With its name, its synopsis and its options; no text is taken for an order of man."""
    called("man", "--to", str(tmp_path / "man1"))
    pages = {page.name: page.read_text() for page in (tmp_path / "man1").iterdir()}
    assert {"tokimori.1", "tokimori-job.1", "tokimori-job-add.1", "tokimori-lock.1"} <= pages.keys()
    for name, page in pages.items():
        orders = set(re.findall(r"^([.'].*?)(?: |$)", page, re.MULTILINE))
        assert orders <= _ORDERS, name
        assert page.count(".nf") == page.count(".fi")
        assert re.search(r"^\.SH NAME\n\S+ \\- .+", page, re.MULTILINE), name
    assert "\\-\\-schedule TEXT" in pages["tokimori-job-add.1"]
    assert called("man", "job", "add") == pages["tokimori-job-add.1"]
    called("man", "no", "such", code=2)


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
    called("man", "--to", f"{__file__}/man1", code=2)
    assert f"{__file__}/man1/tokimori.1: can't be written: Not a directory" in called.told
    monkeypatch.setenv("HOME", __file__)
    called("completion", "bash", "--install", code=2)
    assert "can't be written: Not a directory" in called.told
