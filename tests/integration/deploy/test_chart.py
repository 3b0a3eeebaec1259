"""The chart as Helm renders it, the fleet as Compose reads it, workflows as actionlint does: by wheels of PyPI."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Hashable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.deploy.test_manifests import CHART, DEPLOY, VARIABLES, parsed, restarted_by_its_store
from tests.programs.forked import ROOT

pytestmark = [
    pytest.mark.prove,
    pytest.mark.timeout(600),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheels are for x86_64"),
]
RENDER = """
import helm_python, json, sys
chart, values = sys.argv[1], json.loads(sys.argv[2])
found = helm_python.lint(chart, values, strict=True)["messages"]
with helm_python.Chart.load(chart) as opened:
    print(json.dumps([found, opened.render(values, name="demo", namespace="prod")]))
"""
SECRET = {"existingSecret": "tokimori"}
ALL = {
    **SECRET,
    "nameOverride": "jobs",
    "imagePullSecrets": [{"name": "registry"}],
    "settings": {"TOKIMORI_TIME_ZONE": "Europe/Paris", "TOKIMORI_LOG_FORMAT": "text", "TOKIMORI_LOG_MAX_SIZE": 10**7},
    "nodes": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "jobs", "operator": "Exists"}]},
    "workers": {
        "enabled": True,
        "image": {"repository": "shop", "tag": "7"},
        "autoscaling": {"enabled": True, "queue": "007"},
    },
    "serviceMonitor": {"enabled": True},
}


class Strict(yaml.SafeLoader):
    """A reader that refuses a key which comes twice, as Kubernetes does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return the mapping of a node."""
        read = super().construct_mapping(node, deep)
        assert len(read) == len(node.value), [key.value for key, _ in node.value]
        return read


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a venv with the group `deploy` of `pyproject.toml`."""
    venv = tmp_path_factory.mktemp("tools") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    group = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["deploy"]
    pip = [str(venv / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, *group], check=True)
    return venv / "bin"


def rendered(tools: Path, values: dict[str, Any]) -> list[Any]:
    """Return the objects that Helm makes of the chart, which it finds no fault with."""
    command = [str(tools / "python"), "-c", RENDER, str(CHART), json.dumps(values)]
    found, texts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert [each for each in found if each["severity"] > 1] == []  # 1 is advice: a chart may have an icon
    manifests = [text for name, text in texts.items() if name.endswith(".yaml")]
    return [one for text in manifests for one in yaml.load_all(text, Strict) if one]


@pytest.mark.parametrize(
    "values",
    [SECRET, {"store": "postgresql://db/t", "httpSecret": "x" * 43}, ALL],
    ids=["a secret of one's own", "a secret of the chart", "all that may be switched on"],
)
def test_helm_makes_objects_of_kubernetes(tools: Path, values: dict[str, Any]) -> None:
    """Each fits its schema, finds what it names, and its pods run commands and settings that the program knows."""
    objects, validate = rendered(tools, values), import_module("kubernetes_validate").validate
    named = {(one["kind"], one["metadata"]["name"]) for one in objects} | {("Secret", "tokimori")}
    labels = [one["spec"]["template"]["metadata"]["labels"].items() for one in objects if one["kind"] == "Deployment"]
    for one in objects:
        if one["kind"] != "ServiceMonitor":
            validate(one, "1.33", strict=True)
        spec = one.get("spec", {})
        if one["kind"] in ("Deployment", "Service", "PodDisruptionBudget"):
            chosen = spec["selector"].get("matchLabels", spec["selector"]).items()
            assert sum(chosen <= each for each in labels) == 1
        if "scaleTargetRef" in spec:
            assert (spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]) in named
        if pod := spec.get("template", {}).get("spec"):
            (container,) = pod["containers"]
            parsed(container["args"])
            assert not restarted_by_its_store(container)
            assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
            assert ("ServiceAccount", pod["serviceAccountName"]) in named
            assert ("ConfigMap", container["envFrom"][0]["configMapRef"]["name"]) in named
            assert ("Secret", pod["volumes"][0]["secret"]["secretName"]) in named
            assert {each["name"] for each in pod["volumes"]} == {each["name"] for each in container["volumeMounts"]}
    (settings,) = [one["data"] for one in objects if one["kind"] == "ConfigMap"]
    assert {**settings, **{key: str(text) for key, text in values.get("settings", {}).items()}} == settings
    assert set(settings) <= VARIABLES


def test_helm_says_what_a_chart_lacks(tools: Path) -> None:
    """Without a store nothing is installed, and the message names the values."""
    done = subprocess.run(
        [str(tools / "python"), "-c", RENDER, str(CHART), "{}"], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "store: the URL of a store, or existingSecret" in done.stderr


def test_compose_reads_its_file(tools: Path, tmp_path: Path) -> None:
    """It asks for the secrets that are missing by their script, and then finds no fault, not even a warning."""
    shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns(".env"))
    command = [str(tools / "docker-compose"), "-f", "deploy/compose.yaml", "config", "--format", "json"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode != 0 and "run deploy/compose/secrets.sh" in done.stderr
    subprocess.run(["deploy/compose/secrets.sh"], cwd=tmp_path, check=True)
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    services = json.loads(done.stdout)["services"]
    assert {*services} == {"postgres", "migrate", "node-1", "node-2", "worker", "prometheus", "grafana"}
    assert all("migrate" in services[each]["depends_on"] for each in ("node-1", "node-2", "worker"))


def test_workflows_have_no_fault(tools: Path) -> None:
    """Actionlint knows their words, their expressions, and actions whose runtime is gone."""
    files = sorted(map(str, (ROOT / ".github/workflows").glob("*.yml")))
    done = subprocess.run([str(tools / "actionlint"), *files], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert len(files) == 3
