"""The wheel and the sdist: the same commit makes the same bytes, which install and work, and leave nothing behind."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.programs.forked import ROOT

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]
PYENV = Path.home() / ".pyenv/versions"
"""Pythons that stand beside each other, none of which is the one that their names start."""
PYTHONS = [
    found
    for version in ("3.11", "3.12", "3.13")
    if (found := next(map(str, PYENV.glob(f"{version}.*/bin/python3")), shutil.which(f"python{version}")))
]
LICENCES = """
from importlib.metadata import distributions
for each in distributions():
    meta = each.metadata
    named = [one for one in meta.get_all("Classifier", []) if one.startswith("License :: OSI Approved")]
    said = meta["License-Expression"] or meta["License"] or " ".join(named)
    print(each.name, said.partition(chr(10))[0], sep=": ")
"""


def build(folder: Path) -> dict[str, str]:
    """The digests of what is built, by the names of the files."""
    script = "import hatchling.build as b, sys; b.build_sdist(sys.argv[1]); b.build_wheel(sys.argv[1])"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1790000000"}
    subprocess.run([sys.executable, "-c", script, str(folder)], cwd=ROOT, env=environment, check=True)
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir()}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


def test_the_same_commit_makes_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """Whoever builds a version again can compare it."""
    before = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in dist.iterdir()}
    assert len(before) == 2
    assert build(tmp_path) == before


def test_both_hold_what_is_needed_and_no_more(dist: Path) -> None:
    """Templates, styles, scripts, migrations and types are in the wheel; tests and tools are not."""
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src/tokimori"
    wanted = {
        f"tokimori/{each.relative_to(package)}"
        for each in package.rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    }
    assert wanted <= names
    assert {name.split("/")[0] for name in names} == {"tokimori", "tokimori-0.1.0.dist-info"}
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        inside = [each.name.split("/", 1)[1] for each in opened]
    assert not [name for name in inside if name.startswith((".venv", "build", "dist")) or name.endswith(".log")]


@pytest.mark.parametrize("extra", ["", "[all]"])
@pytest.mark.parametrize("python", PYTHONS, ids=lambda each: each.split("/")[-3])
def test_a_fresh_venv_runs_it(python: str, extra: str, dist: Path, tmp_path: Path) -> None:
    """On each Python that is here a job is added and shown; each package says its licence, and none stays behind."""
    home = tmp_path / "venv"
    made = subprocess.run([python, "-m", "venv", str(home)], check=False, capture_output=True, text=True)
    if made.returncode or subprocess.run([python, "-c", "import ssl"], check=False, capture_output=True).returncode:
        pytest.skip(f"{python} makes no venv here: {made.stderr}")
    (wheel,) = dist.glob("*.whl")
    pip = [str(home / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    before = sorted(each for each in home.rglob("*") if "__pycache__" not in each.parts)
    subprocess.run([*pip, "install", f"{wheel}{extra}"], check=True)
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TOKIMORI_STORE": f"sqlite:///{tmp_path}/t.db"}
    for words in (["--version"], ["job", "add", "hello", "--command", "echo hello"], ["job", "show", "hello"]):
        done = subprocess.run([home / "bin/tokimori", *words], env=environment, check=True, capture_output=True)
        assert done.stdout
    subprocess.run([home / "bin/python", "-c", "import tokimori; tokimori.App; tokimori.open"], check=True)
    if extra:
        subprocess.run([home / "bin/python", "-c", "import asyncpg, asyncmy, redis, opentelemetry"], check=True)
        said = subprocess.run([home / "bin/python", "-c", LICENCES], check=True, capture_output=True, text=True)
        licences = dict(line.split(": ", 1) for line in said.stdout.splitlines())
        assert len(licences) > 20
        assert [name for name, licence in licences.items() if licence in ("", "UNKNOWN")] == []
        return
    packages = [
        line.split("==")[0]
        for line in subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout.splitlines()
    ]
    names = [line.split(" @ ")[0] for line in packages]
    subprocess.run([*pip, "uninstall", "--yes", *names], check=True)
    left = [each for each in home.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    assert sorted(set(left) - set(before)) == []
