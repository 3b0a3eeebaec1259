"""Files that declare an app and run it in their last line, as worker processes load them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tokimori.apps.loading import load_app

DECLARES = """
import tokimori
app = tokimori.App("shop")
@app.job()
def sell() -> None: ...
"""
SAYS = "print('not for who imports this')\n"


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("shop", "shop.jobs", "shop.__main__", "my-shop", "shop-worker", "tasks"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def write(folder: Path, **files: str) -> None:
    """These files, `__` in their names for a slash."""
    for name, text in files.items():
        file = folder / name.replace("__", "/", 1)
        file.parent.mkdir(exist_ok=True)
        file.with_suffix(".py").write_text(text)


@pytest.mark.parametrize(
    "last",
    [
        "app.run()",
        "tokimori.Worker(app).run()",
        "tokimori.Worker('shop:app').run()",
        "sys.exit(tokimori.Worker(app).run())",
        "def main():\n    app.run('--no-http')\nmain()",
        "try:\n    app.run()\nexcept Exception:\n    pass",
    ],
)
@pytest.mark.parametrize("name", ["shop.py", "my-shop.py", "shop-worker"])
def test_the_file_of_a_program_is_loaded_as_far_as_it_runs(
    tmp_path: Path, name: str, last: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A worker process starts no second node, and does not what the program does when its node has ended."""
    file = tmp_path / name
    file.write_text(f"import sys\n{DECLARES}{last}\n{SAYS}")
    app = load_app(f"{file}:app")
    assert app.routes.names() == ["shop.sell"]
    assert sys.modules[file.stem].app is app
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("place", ["shop.jobs", "shop.__main__"])
@pytest.mark.parametrize("init", ["", "from shop.jobs import app\n"])
def test_a_module_of_a_package_is_loaded_so_too(tmp_path: Path, place: str, init: str) -> None:
    """It is a part of its package afterwards, and one that the package itself imports does nothing."""
    main = "from shop.jobs import app\napp.run()\n"
    write(tmp_path, shop__jobs=f"{DECLARES}app.run()\n")
    (tmp_path / "shop" / "__init__.py").write_text(init)
    (tmp_path / "shop" / "__main__.py").write_text(main)
    sys.path.insert(0, str(tmp_path))
    app = load_app(f"{place}:app")
    assert app.routes.names() == ["shop.sell"]
    assert sys.modules["shop"].jobs.app is app
    assert sys.modules[place] is getattr(sys.modules["shop"], place.rpartition(".")[2])


RECORDS = """
import os, sys
os.execve = lambda program, command, environment: print(command[6], flush=True)
"""
"""Tells which app would be served."""


@pytest.mark.parametrize(
    ("files", "started", "served"),
    [
        ({"shop": DECLARES + "app.run()"}, ["shop.py"], "HOME/shop.py:app"),
        ({"shop": DECLARES + "app.run()"}, ["-m", "shop"], "shop:app"),
        ({"shop__jobs": DECLARES + "app.run()"}, ["-m", "shop.jobs"], "shop.jobs:app"),
        (
            {"shop__main": DECLARES, "shop__go": "import main\nmain.app.run()"},
            ["shop/go.py"],
            "HOME/shop/go.py:main.app",
        ),
        ({"shop__a": DECLARES, "go": "from shop.a import app\napp.run()"}, ["go.py"], "HOME/go.py:app"),
        (  # tasks import the program once more, by its name
            {
                "shop": f"{DECLARES}import tasks\napp.run()",
                "tasks": "from shop import app\n@app.job()\ndef more(): ...\n",
            },
            ["shop.py"],
            "HOME/shop.py:app",
        ),
    ],
)
def test_a_program_says_where_its_app_is(
    tmp_path: Path, files: dict[str, str], started: list[str], served: str
) -> None:
    """As a file, or as the module that `python -m` was given; of a module that it imports by its name there."""
    write(tmp_path, **files)
    write(tmp_path, sitecustomize=RECORDS)
    command = [sys.executable, *started]
    said = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": "."}, check=True, capture_output=True, text=True)
    assert said.stdout.strip() == served.replace("HOME", str(tmp_path))


def test_who_imports_a_program_starts_nothing(tmp_path: Path) -> None:
    """A web process that asks for its jobs is no node."""
    write(
        tmp_path, shop=f"{DECLARES}app.run()\ntokimori.Worker(app).run()\n", web="import shop\nprint(shop.sell.job_id)"
    )
    said = subprocess.run([sys.executable, "web.py"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert said.stdout == "sell\n"
