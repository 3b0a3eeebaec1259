"""Another version takes over, or the old one comes back: with wheels of this program, in an environment made for it."""

import base64
import hashlib
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.programs.forked import ROOT
from tokimori.cli.system_update import packed_again, version_of
from tokimori.errors import InvalidInput, Refused
from tokimori.node.background import Living, background_state, look

BREAKS = {
    "tokimori/node/wiring.py": '\nraise RuntimeError("this version is broken")\n',
    "tokimori/cli/main.py": '\nraise RuntimeError("this program is broken")\n',
}


def wheel(folder: Path, version: str, broken: str | None = None) -> Path:
    """A wheel of this program of that version; in one that is `broken` this module can't be imported."""
    place, source = f"tokimori-{version}.dist-info", ROOT / "src"
    files = {
        path.relative_to(source).as_posix(): path.read_bytes()
        for path in sorted((source / "tokimori").rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    if broken is not None:
        files[broken] += BREAKS[broken].encode()
    said = distribution("tokimori")
    metadata = re.sub(r"^Version: .*$", f"Version: {version}", said.read_text("METADATA") or "", flags=re.MULTILINE)
    files[f"{place}/METADATA"] = metadata.encode()
    files[f"{place}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{place}/entry_points.txt"] = (said.read_text("entry_points.txt") or "").encode()
    made = folder / f"tokimori-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)
        digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()) for name, data in files.items()}
        record = [f"{name},sha256={digest.rstrip(b'=').decode()},\n" for name, digest in digests.items()]
        packed.writestr(f"{place}/RECORD", "".join([*record, f"{place}/RECORD,,\n"]))
    return made


class Environment:
    """A virtual environment with this program from a wheel, and beside it what the program needs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True, timeout=300)
        (site,) = (home / "venv" / "lib").glob("python*/site-packages")
        site.joinpath("beside.pth").write_text("".join(f"{path}\n" for path in sys.path if "site-packages" in path))
        self.run("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel(home, "1.0")))

    def run(self, *arguments: str, code: int = 0) -> str:
        """What it prints, errors too."""
        ended = subprocess.run(
            [str(self.home / "venv/bin/python"), *arguments],
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "TOKIMORI_HTTP_PORT": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert ended.returncode == code, ended.stdout
        return ended.stdout

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What the program prints."""
        return self.run("-m", "tokimori", *arguments, code=code)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    (tmp_path / "tokimori.toml").write_text(f'state_dir = "{tmp_path}/state"\n')
    made = Environment(tmp_path)
    yield made
    note = tmp_path / "state/node.pid"
    if note.exists() and look(pid := int(note.read_text().splitlines()[0])) is not None:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_new_version_takes_over_or_the_old_one_comes_back(environment: Environment) -> None:
    """A node goes on under the new version; one that starts nothing, or no node, gives way to the old one again.

    It has the arguments that it was started with all the while.
    """
    environment("system", "start", "--timeout", "120", "--", "--max-load", "1000")
    told = environment("system", "update", "--wheel", str(wheel(environment.home, "2.0")), "--timeout", "120")
    assert "updated to tokimori 2.0" in told
    assert "ONLINE" in environment("system", "status")
    for broken, words in (("tokimori/node/wiring.py", "version is broken"), ("tokimori/cli/main.py", "is broken")):
        bad = wheel(environment.home, "3.0", broken)
        told = environment("system", "update", "--wheel", str(bad), "--timeout", "120", code=1)
        assert words in told
        assert "tokimori 2.0 is in place again" in told
        assert environment("--version") == "tokimori 2.0\n"
        assert "ONLINE" in environment("system", "status")
        node = background_state(environment.home / "state")
        assert isinstance(node, Living)
        assert node.note.arguments == ("--max-load", "1000")
    environment("system", "stop")


def test_what_is_no_wheel_of_ours(tmp_path: Path) -> None:
    """A text, an archive of something else, and a wheel of another program are named before anything is touched."""
    (tmp_path / "text.whl").write_text("no wheel")
    with zipfile.ZipFile(tmp_path / "archive.whl", "w") as packed:
        packed.writestr("x", "y")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as packed:
        packed.writestr("other-1.dist-info/METADATA", "Name: other\nVersion: 1\n")
    for name in ("text", "archive", "other", "missing"):
        with pytest.raises(InvalidInput) as fault:
            version_of(tmp_path / f"{name}.whl")
        assert fault.value.field == "wheel"
    assert version_of(wheel(tmp_path, "7.1")) == "7.1"


def test_an_editable_installation_is_left_alone(tmp_path: Path) -> None:
    """It is its folder of sources that is to be updated."""
    with pytest.raises(Refused, match="editable"):
        packed_again(distribution("tokimori"), tmp_path)
