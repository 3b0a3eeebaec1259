"""`/metrics` of a real node, as Prometheus reads it."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.cli.conftest import Program, stop
from tests.programs.forked import PROGRAM

DEPLOY = Path(__file__).parents[3] / "deploy"


def _told(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """One on a store of its own."""
    return Program(tmp_path)


def test_a_node_tells_what_it_has_done(program: Program) -> None:
    """How late a run started, how it ended, and how things stand; only to who may read."""
    node = subprocess.Popen(
        [str(PROGRAM), "serve", "-p", "0"], cwd=program.home, env=program.environment, text=True, stdout=subprocess.PIPE
    )
    try:
        assert node.stdout is not None
        url = next(word for line in node.stdout for word in line.split() if word.startswith("http"))
        address = url.partition("?")[0].partition("#")[0].rstrip("/")
        program("job", "add", "hello", "--command", "true")
        program("job", "trigger", "hello", "--wait")
        made = json.loads(program("--json", "token", "create", "prometheus", "--role", "read"))
        ask = ["curl", "--silent", "--show-error", "--fail", f"{address}/metrics"]
        assert subprocess.run(ask, capture_output=True, check=False).returncode == 22  # not without a token
        ask += ["--header", f"Authorization: Bearer {made['text']}"]
        while True:
            told = _told(subprocess.run(ask, capture_output=True, check=True, text=True).stdout)
            if ("tokimori_attempts_total", "succeeded") in told:
                break
            time.sleep(0.1)
        assert told["tokimori_attempts_total", "succeeded"] == 1
        assert told["tokimori_start_lateness_seconds_count",] == 1
        assert told["tokimori_nodes_alive",] == 1
        assert 0 < told["tokimori_lease_left_seconds",] <= 5
        assert told["tokimori_store_call_seconds_count", "settle"] >= 1
    finally:
        stop(node)


def test_the_rules_are_sound() -> None:
    """As the tool of Prometheus checks them."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: on Debian it is in the package prometheus")
    ended = subprocess.run(
        [promtool, "check", "rules", str(DEPLOY / "prometheus-rules.yml")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_dashboard_and_rules_name_metrics_that_there_are() -> None:
    """A misspelt name would show nothing, and alarm nobody."""
    from tokimori.metrics import Metrics, StoreFigures

    metrics = Metrics()
    metrics.count_call("claim", 0.1)
    text = metrics.text(StoreFigures(), 1).decode()
    known = {family.name for family in text_string_to_metric_families(text)}
    named = {
        word.removesuffix("_bucket").removesuffix("_total")
        for file in ("prometheus-rules.yml", "grafana-dashboard.json")
        for word in _words((DEPLOY / file).read_text())
        if word.startswith("tokimori_")
    }
    assert named
    assert named <= known


def _words(text: str) -> list[str]:
    return "".join(char if char.isalnum() or char == "_" else " " for char in text).split()
