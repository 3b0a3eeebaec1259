"""Files for Compose, Kubernetes and Helm: what they say is what the program knows."""

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program
from tests.programs.forked import ROOT
from tests.servers import postgres
from tokimori.cli.main import program
from tokimori.config.secret_files import SUFFIX, variables_with_files
from tokimori.config.settings import settings_table

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/tokimori"
FOLDERS = sorted(each.parent for each in (DEPLOY / "kubernetes").glob("*/kustomization.yaml"))
VARIABLES = {f"TOKIMORI_{each.name.upper().replace('.', '_')}" for each in settings_table()}
VARIABLES |= {name + SUFFIX for name in variables_with_files([each.name for each in settings_table()])}


def objects(folder: Path) -> list[Any]:
    """The objects in a folder of manifests."""
    files = [each for each in folder.glob("*.yaml") if each.name != "kustomization.yaml"]
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


def pods() -> Iterator[tuple[str, Any]]:
    """Each pod of the manifests, with its object's name."""
    for folder in FOLDERS:
        for one in objects(folder):
            if "template" in one.get("spec", {}):
                yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def compose() -> Any:
    """What compose.yaml says."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def parsed(arguments: list[str]) -> None:
    """Raise an error of click if the program does not know these arguments."""
    command: click.Command = program
    ctx = click.Context(command)
    rest = list(arguments)
    while isinstance(command, click.Group):
        _, found, rest = command.resolve_command(ctx, rest)
        assert found is not None
        command = found
        ctx = click.Context(command, parent=ctx)
    command.make_parser(ctx).parse_args(rest)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: str(each.name))
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.skipif(find_spec("kubernetes_validate") is None, reason="kubernetes-validate is not installed")
def test_manifests_are_those_of_kubernetes(folder: Path) -> None:
    """Each folder is built as a whole, and each object fits the schema of its kind."""

    validate = import_module("kubernetes_validate").validate
    built = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True).stdout
    for one in yaml.safe_load_all(built):
        if one["kind"] != "ServiceMonitor":
            validate(one, "1.33", strict=True)
        template = one.get("spec", {}).get("template")
        if template is not None:
            assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "tokimori"


@pytest.mark.parametrize(("name", "pod"), [*pods()], ids=lambda each: each if isinstance(each, str) else "")
def test_pods_are_nobody_in_particular(name: str, pod: Mapping[str, Any]) -> None:
    """No pod runs as root, writes to its image, gains rights or asks Kubernetes; TERM leaves time for its runs."""
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    for each in pod["containers"]:
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "limits" in each["resources"]
    if "migrate" not in name:
        (settings,) = [one["data"] for one in objects(DEPLOY / "kubernetes/base") if one["kind"] == "ConfigMap"]
        longest = float(settings["TOKIMORI_NODE_STOP_GRACE"]) + float(settings["TOKIMORI_HTTP_DRAIN"])
        assert pod["terminationGracePeriodSeconds"] > longest + 10


def restarted_by_its_store(container: Mapping[str, Any]) -> bool:
    """Return if Kubernetes starts a container again because its store is away, be it for most of a day."""
    probes = [container[each] for each in ("livenessProbe", "startupProbe") if each in container]
    if not probes:
        return False
    asked = [each.get("httpGet", {}).get("path") for each in probes]
    return asked != ["/livez"] * 2 or bool(probes[1]["periodSeconds"] * probes[1]["failureThreshold"] < 86_400)


@pytest.mark.parametrize(("name", "pod"), [*pods()], ids=lambda each: each if isinstance(each, str) else "")
def test_no_store_that_is_away_restarts_a_pod(name: str, pod: Mapping[str, Any]) -> None:
    """A node opens its port when its store has answered, and a worker has none: neither is ended for its store."""
    assert [each["name"] for each in pod["containers"] if restarted_by_its_store(each)] == []


def test_the_program_knows_each_argument_and_variable() -> None:
    """A command or a setting that is renamed is renamed here too."""
    services = [each for each in compose()["services"].values() if "build" in each]
    said = [each["command"] for each in services]
    said += [each["args"] for _, pod in pods() for each in pod["containers"]]
    assert len(said) == 7
    for arguments in said:
        parsed(arguments)
    (settings,) = [one["data"] for one in objects(DEPLOY / "kubernetes/base") if one["kind"] == "ConfigMap"]
    names = {*settings, *(name for each in services for name in each["environment"])}
    names |= set(re.findall(r"^  (TOKIMORI_\w+):", (CHART / "templates/settings.yaml").read_text(), re.MULTILINE))
    assert names <= VARIABLES


def test_the_chart_says_what_the_manifests_say() -> None:
    """It names only values that exist, uses each of them, and starts the same commands."""
    texts = [each.read_text() for each in (CHART / "templates").iterdir()]
    used = {name for text in texts for name in re.findall(r"\.Values\.([A-Za-z.]+)", text)}
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def known(name: str) -> bool:
        found: Any = values
        for part in name.split("."):
            if not isinstance(found, dict) or part not in found:
                return False
            found = found[part]
        return True

    assert [name for name in used if not known(name)] == []
    unused = [
        f"{section}.{name}"
        for section, inner in values.items()
        for name in (inner if isinstance(inner, dict) else ())
        if not any(each in (section, f"{section}.{name}") or each.startswith(f"{section}.{name}.") for each in used)
    ]
    assert unused == []
    told = "\n".join(texts)
    assert all(
        text.count("{{- if") + text.count("{{- with") + text.count("{{- range") + text.count("{{- define")
        == text.count("{{- end")
        for text in texts
    )
    lives = "livenessProbe:\n            httpGet: { path: /livez"  # not /healthz: no store that is away restarts a node
    for words in ('[serve, --port, "8000"]', "[db, migrate]", lives, "path: /readyz", "runAsNonRoot: true"):
        assert words in told


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, str]:
    """What `secrets.sh` makes, in a copy of the folder."""
    shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns(".env"))
    script = tmp_path / "deploy/compose/secrets.sh"
    for _ in range(2):
        subprocess.run([str(script)], check=True)
    file = tmp_path / "deploy/.env"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def test_compose_has_its_secrets_and_files(secrets: Mapping[str, str]) -> None:
    """Secrets are long, differ, and all that is asked for is made; what is mounted from here exists."""
    assert {len(each) for each in secrets.values()} == {43}
    assert len({*secrets.values()}) == len(secrets) == 3
    text = (DEPLOY / "compose.yaml").read_text()
    assert {*re.findall(r"\$\{(\w+):", text)} == set(secrets)
    places = [each.split(":")[0] for one in compose()["services"].values() for each in one.get("volumes", ())]
    assert [each for each in places if each.startswith(".") and not (DEPLOY / each).exists()] == []
    assert {each for each in places if not each.startswith(".")} == set(compose()["volumes"])
    json.loads((DEPLOY / "grafana-dashboard.json").read_text())


@pytest.mark.prove
def test_the_steps_of_compose_make_a_fleet(secrets: Mapping[str, str], tmp_path: Path) -> None:
    """Carried out without containers: tables are made, two nodes answer by one secret, and the worker's job runs."""
    server = postgres.Server()
    services = compose()["services"]
    said = {**services["node-1"]["environment"], "TOKIMORI_HTTP_INTERFACE": "127.0.0.1", "TOKIMORI_HTTP_DRAIN": "0"}
    said["TOKIMORI_STORE"] = server.make("tokimori")
    said["TOKIMORI_HTTP_SECRET"] = secrets["TOKIMORI_HTTP_SECRET"]
    running = list[subprocess.Popen[bytes]]()
    try:
        subprocess.run([*started(), *services["migrate"]["command"]], env=environment(tmp_path, "m", said), check=True)
        for name in ("node-1", "node-2", "worker"):
            command = [each.replace("/app", str(DEPLOY / "compose/app")) for each in services[name]["command"]]
            env = environment(tmp_path, name, said)
            running.append(subprocess.Popen([*started(), *command], env=env, stdout=subprocess.DEVNULL))
        (tmp_path / "cli").mkdir()
        asking = Program(tmp_path / "cli")
        asking.environment["TOKIMORI_STORE"] = said["TOKIMORI_STORE"]
        until(lambda: len(asking.json("node", "list")) == 3, within=60)
        run = asking.json("job", "trigger", "count")["id"]
        until(lambda: asking.json("run", "show", run)["state"] == "succeeded", within=60)
    finally:
        for each in running:
            each.terminate()
        assert [each.wait(60) for each in running] == [0] * len(running)
        server.remove()


def started() -> list[str]:
    """How the image starts the program."""
    return [str(ROOT / ".venv/bin/tokimori")]


def environment(folder: Path, name: str, said: Mapping[str, str]) -> dict[str, str]:
    """The environment of a container, with a state folder of its own."""
    state = folder / "states" / name
    own = {"HOME": str(folder), "PATH": os.environ["PATH"], "TOKIMORI_STATE_DIR": str(state), "TOKIMORI_HTTP_PORT": "0"}
    return {**said, **own}
