"""`tokimori app check`: a deploy, before it is one."""

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program, stop

APP = """
import tokimori

app = tokimori.App("shop", version=7)

@app.job("0 3 * * *")
def nightly() -> None: ...

@app.job
def sell(number: int) -> None: ...
"""
LATER = APP.replace("0 3", "0 4").replace("version=7", "version=8").partition("@app.job\n")[0]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One beside a file with an app."""
    (tmp_path / "shop.py").write_text(APP)
    return Program(tmp_path)


def test_what_a_deploy_would_change_is_shown(program: Program, tmp_path: Path) -> None:
    """First all is new, then nothing; older code changes nothing until it is to count; a fault is named."""
    program("db", "migrate")
    assert program("app", "check", "shop:app") == "+ nightly: it is new\n+ sell: it is new\n"
    program.environment |= {"TOKIMORI_APP_LOAD": "shop:app", "TOKIMORI_APP_INCLUDE": str(tmp_path)}
    stop(program.serve())
    assert program("app", "check", "shop:app") == "nothing changes\n"
    (tmp_path / "later.py").write_text(LATER)
    told = program("app", "check", "later.py:app").splitlines()
    assert told[0] == "~ nightly: it changes: schedule"
    assert told[1].startswith("- sell: job sell is not declared by the app shop any more, and stays enabled")
    (tmp_path / "older.py").write_text(APP.replace("version=7", "version=6"))
    assert [each["mark"] for each in program.json("app", "check", "older.py:app")] == ["!"]
    assert program("app", "version", "shop") == "shop 7\n"
    assert program.json("app", "version", "shop", "6") == {"app": "shop", "version": "6"}
    assert program.json("app", "check", "older.py:app") == []
    assert program("app", "version", "other") == "other has no version: its jobs follow what starts last\n"
    (tmp_path / "wrong.py").write_text("import nowhere")
    ended = program.run("app", "check", "wrong:app")
    assert (ended.returncode, "'wrong:app' can't be loaded" in ended.stderr) == (2, True)
