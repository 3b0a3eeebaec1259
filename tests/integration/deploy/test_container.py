"""The Dockerfile, its steps carried out without docker."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apps.conftest import until
from tests.programs.forked import ROOT

STEPS = re.sub(r"\\\n\s*", "", (ROOT / "deploy/Dockerfile").read_text())


def steps(word: str) -> list[str]:
    """What stands behind this word, in order."""
    return re.findall(rf"^{word} (.*)$", STEPS, re.MULTILINE)


def test_the_image_runs_as_nobody_in_particular() -> None:
    """Not as root, with no secret in it, and on the loopback until somebody says that others may read along."""
    (user,) = steps("USER")
    assert user == "tokimori"
    assert any(re.match(rf"useradd .*--uid 10001 .* {user}$", step) for step in steps("RUN"))
    said = " ".join(steps("ENV"))
    assert "INSECURE" not in said
    assert "INTERFACE" not in said
    assert STEPS.index("\nUSER") < STEPS.index("\nENTRYPOINT")


@pytest.fixture
def image(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """What the steps make, in a folder instead of a container, and the environment there."""
    places = {"/opt/tokimori": str(tmp_path / "opt"), "/var/lib/tokimori": str(tmp_path / "state")}

    def moved(text: str) -> str:
        for old, new in places.items():
            text = text.replace(old, new)
        return text

    for step in steps("COPY"):
        *sources, target = step.split()
        (tmp_path / "src").mkdir(exist_ok=True)
        for source in sources:
            subprocess.run(["cp", "-r", str(ROOT / source), str(tmp_path / "src" / target)], check=True)
    for step in steps("RUN"):
        if not step.startswith("useradd"):
            command = moved(step).replace(" -o tokimori ", " ").replace("--no-cache-dir", "")
            subprocess.run(["sh", "-ec", command], cwd=tmp_path / "src", check=True, timeout=400)
    said = dict(pair.split("=", 1) for pair in moved(" ".join(steps("ENV"))).split())
    said["PATH"] = said["PATH"].replace("$PATH", os.environ["PATH"])
    yield tmp_path / "state", {"HOME": str(tmp_path), **said}


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_its_steps_make_a_node(image: tuple[Path, dict[str, str]]) -> None:
    """What is started answers its health check; reachable from outside it is only with the words that say so."""
    home, environment = image
    ((entry,), (command,)) = map(json.loads, (steps("ENTRYPOINT")[0], steps("CMD")[0]))
    check = json.loads(STEPS.partition("HEALTHCHECK")[2].partition(" CMD ")[2].partition("\n")[0])
    port = "18763"
    environment["TOKIMORI_HTTP_PORT"] = port
    check = [part.replace("8000", port) for part in check]
    refused = subprocess.run(
        [entry, command],
        cwd=home,
        env={**environment, "TOKIMORI_HTTP_INTERFACE": "0.0.0.0"},  # noqa: S104  refused
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (refused.returncode, "--insecure" in refused.stderr) == (2, True)
    with subprocess.Popen([entry, command], cwd=home, env=environment, stdout=subprocess.DEVNULL) as node:
        try:
            until(lambda: subprocess.run(check, env=environment, capture_output=True, check=False).returncode == 0)
        finally:
            node.terminate()
        assert node.wait(30) == 0
    assert subprocess.run(check, env=environment, capture_output=True, check=False).returncode != 0
