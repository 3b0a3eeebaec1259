"""The file of the secret."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.service.world import SetClock
from tokimori.clock import SECOND, Moment
from tokimori.config.http import HttpSettings
from tokimori.errors import NotFound, Refused
from tokimori.node.secret_file import HOLDS, DoorSecret, make_secret, read_secret, secret_of


def test_it_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    """Mode 0600 whatever the umask, 256 bits and more, and the same at every start; another folder has another one."""
    old = os.umask(0)
    try:
        secret = make_secret(tmp_path)
    finally:
        os.umask(old)
    found = (tmp_path / "secret").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.geteuid())
    assert len(secret) == 43 and (tmp_path / "secret").read_text() == f"{secret}\n"
    assert make_secret(tmp_path) == read_secret(tmp_path) == secret
    (tmp_path / "other").mkdir()
    assert make_secret(tmp_path / "other") != secret
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["secret"]


def test_a_umask_that_takes_all_takes_nothing_from_it(tmp_path: Path) -> None:
    """The node can read what it has made."""
    old = os.umask(0o777)
    try:
        secret = make_secret(tmp_path)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert read_secret(tmp_path) == secret


def test_nodes_that_start_at_the_same_time_agree(tmp_path: Path) -> None:
    """Whoever comes second reads what the first one made, never half of it."""
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(make_secret, [tmp_path] * 200))) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o666])
def test_what_others_may_know_is_no_secret(tmp_path: Path, mode: int) -> None:
    """Where others may read or write the file it is refused, and the error says how to have another."""
    secret = make_secret(tmp_path)
    (tmp_path / "secret").chmod(mode)
    with pytest.raises(Refused, match=f"{mode:04o}") as caught:
        make_secret(tmp_path)
    assert (caught.value.field, caught.value.value) == ("secret", str(tmp_path / "secret"))
    assert f"rm {tmp_path}/secret" in caught.value.message and "0600" in str(caught.value.allowed)
    assert secret not in caught.value.message
    (tmp_path / "secret").unlink()
    assert make_secret(tmp_path) != secret


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root")
def test_what_somebody_else_has_put_there_is_refused(tmp_path: Path) -> None:
    """Who owns the file knows it."""
    make_secret(tmp_path)
    os.chown(tmp_path / "secret", 65_534, 65_534)
    with pytest.raises(Refused, match="belongs to"):
        make_secret(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Neither when it is read nor when it is made."""
    make_secret(tmp_path)
    (tmp_path / "secret").rename(tmp_path / "elsewhere")
    (tmp_path / "secret").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="can't be read"):
        make_secret(tmp_path)
    (tmp_path / "elsewhere").unlink()
    with pytest.raises(Refused):
        make_secret(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_pipe_holds_up_nobody(tmp_path: Path) -> None:
    """What is no file is refused at once, and not waited for."""
    os.mkfifo(tmp_path / "secret", 0o600)
    with pytest.raises(Refused, match="no regular file"):
        make_secret(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "\n", "short\n", "s" * 42, "s" * 43 + "\n\n", "s" * 513, "s" * 43 + "!", "ä" * 43]
)
def test_what_is_too_short_is_no_secret(tmp_path: Path, text: str) -> None:
    """An empty file, one that can be guessed, and one that no header carries."""
    (tmp_path / "secret").touch(0o600)
    (tmp_path / "secret").write_text(text)
    with pytest.raises(Refused, match="holds no secret") as caught:
        make_secret(tmp_path)
    assert "43" in str(caught.value.allowed)


def test_one_that_somebody_has_chosen_is_taken(tmp_path: Path) -> None:
    """With a line end or without."""
    (tmp_path / "secret").touch(0o600)
    for text in ("x" * 64, "y" * 64 + "\n"):
        (tmp_path / "secret").write_text(text)
        assert make_secret(tmp_path) == text.strip()


def test_where_there_is_none(tmp_path: Path) -> None:
    """Whoever only reads makes none; a folder that takes no file is told by name."""
    with pytest.raises(NotFound, match="tokimori serve"):
        read_secret(tmp_path)
    with pytest.raises(Refused, match="can't be made"):
        make_secret(tmp_path / "missing")


def test_a_changed_file_lets_in_by_both_secrets_for_a_while(tmp_path: Path) -> None:
    """Programs have five minutes to learn the new one; what can't be read meanwhile changes nothing."""
    file, clock = tmp_path / "s", SetClock()
    file.write_text("a" * 43 + "\n")
    file.chmod(0o440)
    secrets = DoorSecret(HttpSettings(secret_file=file), tmp_path, clock)
    assert secrets() == ("a" * 43,)
    for text, expected in ((" no secret", "a"), ("b" * 43, "b")):
        fresh = tmp_path / "fresh"
        fresh.write_text(text)
        fresh.replace(file)
        clock.moment = Moment(clock.moment + 2 * SECOND)
        assert secrets()[0] == expected * 43
    assert secrets() == ("b" * 43, "a" * 43)
    file.unlink()
    clock.moment = Moment(clock.moment + HOLDS * SECOND)
    assert secrets() == ("b" * 43,)


def test_nodes_behind_one_address_share_a_secret(tmp_path: Path) -> None:
    """A secret of the settings is that of the door, and no file is made."""
    assert DoorSecret(HttpSettings(secret="x" * 43), tmp_path, SetClock())() == ("x" * 43,)
    assert secret_of(HttpSettings(secret="x" * 43), tmp_path) == "x" * 43
    assert list(tmp_path.iterdir()) == []
