"""Secrets in files, as containers get them."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tokimori.config.secret_files import overridden, read_secret_file
from tokimori.config.secrets import VARIABLE, keyring_of
from tokimori.config.settings import Loaded, load_settings
from tokimori.errors import InvalidConfig, InvalidInput
from tokimori.node.functions import environ_of

POSTGRES = "postgresql://ada:hush@db/tokimori"
SECRET = "s" * 43
OTHER = 12_345
"""The number of another user."""
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def mounted(folder: Path, name: str, text: str, mode: int = 0o440) -> Path:
    """A file as a kubelet mounts it: name → ..data/name, ..data → a folder of its own, in one of mode 1777."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o1777)
    (inner := folder / "..2026_11_29").mkdir(exist_ok=True)
    (inner / name).write_text(text)
    (inner / name).chmod(mode)
    if not (folder / "..data").is_symlink():
        (folder / "..data").symlink_to(inner.name)
    (folder / name).symlink_to(f"..data/{name}")
    return folder / name


def loaded(tmp_path: Path, environ: Mapping[str, object]) -> Loaded:
    """The settings of this environment."""
    said = {name: str(value) for name, value in environ.items()}
    return load_settings({}, {"HOME": str(tmp_path), **said}, cwd=tmp_path)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_store_comes_from_a_mounted_file(tmp_path: Path, end: str) -> None:
    """Through the links of a kubelet; `config show` names the variable, and the value is masked as ever."""
    file = mounted(tmp_path / "m", "store", POSTGRES + end)
    found = loaded(tmp_path, {"TOKIMORI_STORE_FILE": file})
    assert (found.settings.job_store, found.origins["store"]) == (POSTGRES, "TOKIMORI_STORE_FILE")
    assert found.warnings == ()


def test_every_password_may_come_from_a_file(tmp_path: Path) -> None:
    """Those of both stores, and their addresses."""
    folder = tmp_path / "m"
    environ = {
        "TOKIMORI_STORE": "postgresql://ada@db/tokimori",
        "TOKIMORI_DATASOURCE_JOB_PASSWORD_FILE": mounted(folder, "job", "a"),
        "TOKIMORI_DATASOURCE_SEMAPHORE_URL_FILE": mounted(folder, "url", "redis://cache"),
        "TOKIMORI_DATASOURCE_SEMAPHORE_PASSWORD_FILE": mounted(folder, "password", "b"),
    }
    settings = loaded(tmp_path, environ).settings
    assert settings.job_store == "postgresql://ada:a@db/tokimori"
    assert settings.semaphore_store == "redis://:b@cache"


def test_a_file_that_everybody_reads_is_warned_of(tmp_path: Path) -> None:
    """A mode of 0644 is what some mount: it is read, and that is said."""
    file = mounted(tmp_path / "m", "store", POSTGRES, 0o644)
    (warning,) = loaded(tmp_path, {"TOKIMORI_STORE_FILE": file}).warnings
    assert "every user of this machine may read" in warning


def test_both_at_once_are_refused(tmp_path: Path) -> None:
    """A value and a file for it contradict each other, for each secret."""
    file = mounted(tmp_path / "m", "store", POSTGRES)
    with pytest.raises(InvalidConfig, match="TOKIMORI_STORE: it and TOKIMORI_STORE_FILE are both set"):
        loaded(tmp_path, {"TOKIMORI_STORE": "sqlite:///x", "TOKIMORI_STORE_FILE": file})
    with pytest.raises(InvalidConfig, match=r"http\.secret: it and http.secret_file are both said"):
        loaded(tmp_path, {"TOKIMORI_HTTP_SECRET": SECRET, "TOKIMORI_HTTP_SECRET_FILE": file})
    with pytest.raises(InvalidInput, match="are both set"):
        keyring_of(loaded(tmp_path, {}).settings.secrets, {VARIABLE: "x", f"{VARIABLE}_FILE": str(file)})


@pytest.mark.parametrize(
    ("text", "why"), [("", "it is empty"), ("a\nb", "several lines"), ("a\0", "a NUL"), ("x" * 70_000, "too long")]
)
def test_what_is_no_secret_is_refused(tmp_path: Path, text: str, why: str) -> None:
    """The error names the variable, the file, and what may stand there."""
    file = mounted(tmp_path / "m", "store", text)
    with pytest.raises(InvalidConfig, match=why) as refused:
        loaded(tmp_path, {"TOKIMORI_STORE_FILE": file})
    assert f"TOKIMORI_STORE_FILE: {file}" in str(refused.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    """A secret that is not there is a fault, never an empty one."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InvalidInput, match=r"can't be read|no regular file"):
            read_secret_file("TOKIMORI_STORE_FILE", path)


def test_a_file_that_others_write_is_refused(tmp_path: Path) -> None:
    """Somebody else could say which store, and which secret."""
    with pytest.raises(InvalidInput, match="may be written by others"):
        read_secret_file("x", mounted(tmp_path / "m", "store", POSTGRES, 0o666))


@AS_ROOT
def test_a_file_or_link_of_another_user_is_refused(tmp_path: Path) -> None:
    """In a folder with the sticky bit everybody may put links that lead to a text of root's."""
    file = mounted(tmp_path / "m", "store", POSTGRES)
    os.chown(file, OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(InvalidInput, match=f"is a link of uid {OTHER}"):
        read_secret_file("x", file)
    os.chown(file, 0, 0, follow_symlinks=False)
    os.chown(file, OTHER, OTHER)
    with pytest.raises(InvalidInput, match=f"belongs to uid {OTHER}"):
        read_secret_file("x", file)


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    """It has an end, which is an error."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InvalidInput, match="too many links"):
        read_secret_file("x", tmp_path / "a")


def test_no_secret_reaches_a_function(tmp_path: Path) -> None:
    """Functions get their store by the same file, and neither the secret of the door nor the keys."""
    folder = tmp_path / "m"
    files = {
        "TOKIMORI_STORE_FILE": mounted(folder, "store", POSTGRES),
        "TOKIMORI_HTTP_SECRET_FILE": mounted(folder, "secret", SECRET),
        f"{VARIABLE}_FILE": mounted(folder, "keys", "k"),
    }
    environ = {"HOME": str(tmp_path), **{name: str(file) for name, file in files.items()}}
    settings = load_settings({}, environ, cwd=tmp_path).settings
    got = environ_of(settings, environ)
    assert got == {"HOME": str(tmp_path), "TOKIMORI_STORE_FILE": str(files["TOKIMORI_STORE_FILE"])}
    said = {"TOKIMORI_HTTP_SECRET": SECRET, VARIABLE: "k", "TOKIMORI_DATASOURCE_SEMAPHORE_PASSWORD": "p"}
    assert environ_of(loaded(tmp_path, {}).settings, said).keys() == {"TOKIMORI_STORE"}


def test_what_is_said_overrides_a_file() -> None:
    """A node that is started with a store by name gets no second one."""
    assert overridden({"TOKIMORI_STORE_FILE": "f", "A": "1"}, {"TOKIMORI_STORE": "s"}) == {
        "TOKIMORI_STORE": "s",
        "A": "1",
    }
