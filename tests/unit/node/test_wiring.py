"""What is loaded with a node."""

import subprocess
import sys


def test_a_node_without_a_door_loads_none() -> None:
    """What answers over HTTP, makes pages and counts for metrics is a third of a node's start."""
    packages = ("starlette", "uvicorn", "jinja2", "prometheus_client", "aiohttp")
    code = f"import sys, tokimori.node.wiring; print([name for name in {packages} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
