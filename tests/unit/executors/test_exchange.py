"""The files of an attempt, and what is left of them where they can't be made."""

import os
from pathlib import Path

import pytest

from tokimori.clock import Moment
from tokimori.errors import Refused
from tokimori.executors.environment import Account, own_account
from tokimori.executors.exchange import MOST_IN_ENVIRONMENT, Exchanges
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.target import Noop
from tokimori.ports.executor import Task

TASK = Task(
    run_id=RunId("r1"),
    token=Token(1),
    attempt=1,
    job_id=JobId("a"),
    target=Noop(),
    nominal=Moment(0),
    due=Moment(0),
    timeout=None,
    timeout_grace=1.0,
    kill_on_lost_lease=False,
    payload="x" * (MOST_IN_ENVIRONMENT + 1),
)


@pytest.mark.parametrize("other", [0, 1])
def test_nothing_is_left_of_files_that_cannot_be_made(
    other: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for the node's own account nor for another one: no payload, no folder, no note of it."""

    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    exchanges, own = Exchanges(tmp_path / "runs"), own_account()
    exchanges.make()
    theirs = Account(own.name, own.uid + other, own.gid, own.home)
    for call in ("chown", "fchown", "fdopen"):
        monkeypatch.setattr(os, call, refuse)
    with pytest.raises(Refused):
        exchanges.open(TASK, theirs, own)
    monkeypatch.undo()
    folders = [tmp_path / "temporary", *(tmp_path / "runs").iterdir()]
    left = [path for folder in folders for path in folder.iterdir()]
    exchanges.remove()
    assert left == []
