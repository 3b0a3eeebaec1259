"""What a node hands to its parts."""

import subprocess
import sys
from pathlib import Path

from tokimori.config.secrets import VARIABLE
from tokimori.config.settings import load_settings
from tokimori.node.wiring import environ_of


def test_functions_get_no_key_of_secrets(tmp_path: Path) -> None:
    """They have the environment of the node, with its store, but for the keys."""
    settings = load_settings({"store": "memory:"}, {"HOME": str(tmp_path)}, cwd=tmp_path).settings
    found = environ_of(settings, {VARIABLE: "a key", "MORE": "of it"})
    assert found == {"MORE": "of it", "TOKIMORI_STORE": "memory:"}


def test_a_node_without_a_door_loads_none() -> None:
    """What answers over HTTP, makes pages and counts for metrics is a third of a node's start."""
    packages = ("starlette", "uvicorn", "jinja2", "prometheus_client", "aiohttp")
    code = f"import sys, tokimori.node.wiring; print([name for name in {packages} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
