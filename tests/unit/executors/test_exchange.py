"""The files of an attempt, and what is left of them where they can't be made."""

import errno
import json
import os
from pathlib import Path

import pytest

from tests.unit.examples import a_task
from tokimori.errors import Refused
from tokimori.executors.exchange import FOLDER, MOST_IN_ENVIRONMENT, Exchanges, remove_at, remove_dead
from tokimori.executors.facts import Account, own_account
from tokimori.model.ids import JobId, RunId
from tokimori.model.parents import ParentRun
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState

TASK = a_task(Noop(), run_id=RunId("r1"), payload="x" * (MOST_IN_ENVIRONMENT + 1))


@pytest.mark.parametrize("other", [0, 1])
def test_nothing_is_left_of_files_that_cannot_be_made(
    other: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for the node's own account nor for another one: no payload, no folder; and no note when the node ends."""

    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    exchanges, own = Exchanges(tmp_path / "runs"), own_account()
    exchanges.make()
    theirs = Account(own.name, own.uid + other, own.gid, own.home)
    for call in ("fchown", "fdopen"):
        monkeypatch.setattr(os, call, refuse)
    with pytest.raises(Refused):
        exchanges.open(TASK, theirs, own)
    monkeypatch.undo()
    of_attempts = [*(tmp_path / "temporary").glob("*/*"), *(tmp_path / "runs").glob("*/r1*")]
    exchanges.remove()
    assert (of_attempts, list((tmp_path / "temporary").iterdir()), list((tmp_path / "runs").iterdir())) == ([], [], [])


@pytest.mark.parametrize("lack", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_fault_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lack: int) -> None:
    """Its payload can't be written here now: it is handed back, as where this node lacks files."""
    exchanges, own = Exchanges(tmp_path / "runs"), own_account()
    exchanges.make()

    def full(*_: object) -> None:
        raise OSError(lack, os.strerror(lack))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", full)
        with pytest.raises(OSError, match=os.strerror(lack)):
            exchanges.open(TASK, own, own)
    exchanges.remove()
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_temporary_folder_that_others_may_change_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may move the node's folder there could lead it elsewhere; the message names the folder and TMPDIR."""
    common = tmp_path / "common"
    common.mkdir()
    common.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(common))
    exchanges, own = Exchanges(tmp_path / "runs"), own_account()
    exchanges.make()
    with pytest.raises(Refused, match=f"{common} may be written by others .*TMPDIR"):
        exchanges.open(TASK, Account(own.name, own.uid + 1, own.gid, own.home), own)
    exchanges.remove()


def test_a_dead_nodes_folder_is_removed_only_where_it_is_the_nodes(tmp_path: Path) -> None:
    """Where another folder stands in its place by now, or a link, nothing in it is touched."""
    other, link = tmp_path / "other", tmp_path / "link"
    (other / "1").mkdir(parents=True)
    (other / "1" / "outcome").touch()
    other.chmod(0o755)
    link.symlink_to(other)
    for place in (other, link):
        remove_dead(place)
    assert (other / "1" / "outcome").exists()
    other.chmod(0o711)
    remove_dead(link)
    assert (other / "1" / "outcome").exists()
    remove_dead(other)
    assert not other.exists()


def test_what_a_command_left_is_removed_a_bounded_piece_at_a_time(tmp_path: Path) -> None:
    """A folder of a million files keeps the loop no longer than a thousand do, and one too deep is left as it is."""
    at = os.open(tmp_path, FOLDER)
    theirs, deep = tmp_path / "1", tmp_path / "2"
    (deep / "/".join("d" * 60)).mkdir(parents=True)
    remove_at(at, "2")
    assert deep.exists()
    theirs.mkdir()
    for number in range(30):
        (theirs / str(number)).touch()
    remove_at(at, "1", 20)
    assert len(list(theirs.iterdir())) == 10
    os.close(at)


@pytest.mark.parametrize("size", [10, MOST_IN_ENVIRONMENT])
def test_a_result_of_a_parent_is_a_variable_or_a_file(tmp_path: Path, size: int) -> None:
    """A long one stands in the file that a variable names, and goes with the attempt."""
    exchanges, own, text = Exchanges(tmp_path / "runs"), own_account(), json.dumps("x" * size)
    exchanges.make()
    parent = ParentRun(id=RunId("p"), job_id=JobId("a"), state=RunState.SUCCEEDED, result=text)
    exchange = exchanges.open(a_task(Noop(), run_id=RunId("r1"), parent_runs=(parent,), parents=(parent.id,)), own, own)
    said = exchange.variables()
    file = said.get("TOKIMORI_PARENT_RESULT_FILE")
    assert said.get("TOKIMORI_PARENT_RESULT", file and Path(file).read_text()) == text
    assert (file is None) == (size == 10)
    exchange.remove()
    assert not list((tmp_path / "runs").glob("*/r1*"))
    exchanges.remove()
