"""The keys of secrets: from a file of this user alone, and from a variable."""

import os
import resource
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from tokimori.config.secrets import VARIABLE, Keyring, SecretsSettings, add_key, keyring_of, read_keys
from tokimori.errors import Refused, StoreUnavailable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a key."""
    found = tmp_path / "keys"
    add_key(found)
    return found


def test_a_key_file_is_for_its_user_alone(file: Path) -> None:
    """Whatever the umask; a new key comes first, and the old ones stay."""
    assert file.stat().st_mode & 0o777 == 0o600
    (old,) = read_keys(file)
    before = os.umask(0)
    try:
        assert add_key(file) == 2
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_keys(file)[1:] == [old]
    assert [path.name for path in file.parent.iterdir()] == ["keys"]


def test_the_first_key_encrypts_and_all_decrypt(file: Path) -> None:
    """Those of the variable come before those of the file, which is read each time."""
    keyring = Keyring(file)
    sealed = keyring.seal(b"content")
    add_key(file)
    assert keyring.open(sealed) == b"content"
    assert keyring.seal(b"content") != keyring.seal(b"content")
    new, old = Fernet.generate_key().decode(), read_keys(file)
    both = keyring_of(SecretsSettings(key_file=file), {VARIABLE: f"{new}, {old[1]}"})
    assert both.open(sealed) == b"content"
    assert keyring_of(SecretsSettings(), {VARIABLE: new}).open(both.seal(b"more")) == b"more"
    with pytest.raises(Refused, match="none of the keys"):
        keyring.open(both.seal(b"more"))
    with pytest.raises(Refused, match="none of the keys"):
        keyring.open(sealed[:-2] + ("A" if sealed[-2] != "A" else "B") + sealed[-1])


def test_a_machine_that_opens_no_more_files_says_nothing_of_the_keys(file: Path) -> None:
    """Who asks again may get them: it is no word on the file."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(StoreUnavailable, match="can't be read now: Too many open files"):
            read_keys(file)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(read_keys(file)) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610])
def test_what_others_may_know_is_no_key(file: Path, mode: int) -> None:
    """The error names the file, its mode, and the commands that mend it."""
    file.chmod(mode)
    with pytest.raises(Refused, match=f"mode 0{mode:o}.*chmod 600 .*secret key.*secret rotate"):
        Keyring(file).seal(b"content")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_somebody_else_may_have_put_there_is_refused(file: Path) -> None:
    """Another user's file, and one in a folder where others may put theirs."""
    os.chown(file, 65534, 65534)
    with pytest.raises(Refused, match="chown"):
        Keyring(file).seal(b"content")
    os.chown(file, 0, 0)
    file.parent.chmod(0o777)
    with pytest.raises(Refused, match="chmod go-w"):
        Keyring(file).seal(b"content")


def test_what_is_no_file_of_keys_is_refused(tmp_path: Path) -> None:
    """Nothing, a folder, a pipe (which holds up nobody), an empty file, one with something else."""
    os.mkfifo(tmp_path / "pipe")
    for name, text in (("empty", ""), ("other", "no key\n"), ("bytes", "\udcff")):
        (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
        (tmp_path / name).chmod(0o600)
    for name in ("missing", "", "pipe", "empty", "other", "bytes"):
        with pytest.raises(Refused) as fault:
            Keyring(tmp_path / name).seal(b"content")
        assert fault.value.field == "secrets.key_file"
    with pytest.raises(Refused, match="`tokimori secret key FILE`"):
        Keyring(None).seal(b"content")
