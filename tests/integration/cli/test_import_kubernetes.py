"""`tokimori job import kubernetes` on real files and a real store."""

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program

REPORT = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: billing}
spec:
  schedule: "0 3 * * *"
  concurrencyPolicy: Forbid
  suspend: true
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{image: report:1, command: [echo, hello], resources: {limits: {memory: 1Gi}}}]
"""
PING = REPORT.replace("name: report, namespace: billing", "name: ping").replace("suspend: true", "timeZone: Asia/Tokyo")


def imported(program: Program, *files: str) -> tuple[str, str]:
    """What an import prints: stdout and stderr."""
    ended = program.run("job", "import", "kubernetes", *files)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, ended.stderr


@pytest.fixture
def report(program: Program) -> Path:
    """A file of two jobs and a service."""
    path = program.home / "report.yaml"
    path.write_text(f"{REPORT}---\nkind: Service\n---\n{PING}")
    return path


def test_jobs_become_commands(program: Program, report: Path) -> None:
    """They are added under their names, suspended ones paused, and what is not as it was is told."""
    out, notes = imported(program, str(report))
    assert out.splitlines()[-1] == "3 entries read, 2 added, 0 changed, 0 unchanged, 1 left out"
    shown = {job["id"]: job for job in program.json("job", "list")}
    assert (shown["billing:report"]["state"], shown["billing:report"]["reason"]) == (
        "paused",
        "suspended in Kubernetes",
    )
    assert (shown["ping"]["state"], shown["ping"]["time_zone"]) == ("enabled", "Asia/Tokyo")
    assert shown["ping"]["command"] == ["echo", "hello"]
    assert {job.get("max_memory") for job in shown.values()} >= {1024}
    for note in ("report:1", f"{report}:15: Service", "Forbid", "clocks skip"):
        assert note in notes


def test_importing_twice_changes_nothing(program: Program, report: Path) -> None:
    """Jobs that were changed since are kept, with a warning."""
    imported(program, str(report))
    program("job", "update", "ping", "--schedule", "0 4 * * *")
    before = program.contents()
    out, notes = imported(program, str(report))
    assert out.splitlines()[:2] == ["? ping: it stays as it is", '    schedule: "0 4 * * *" → "0 3 * * *"']
    assert out.splitlines()[-1].startswith("3 entries read, 0 added, 0 changed, 1 unchanged, 1 kept, 1 left out")
    assert "warning" not in notes.partition("left out")[0]
    assert program.contents() == before


def test_a_dry_run_changes_nothing(program: Program, report: Path) -> None:
    """It reads and shows."""
    ended = program.run("job", "import", "kubernetes", str(report), "--dry-run", "--json")
    assert ended.returncode == 0
    assert program.contents() == []


def test_all_or_nothing(program: Program, report: Path) -> None:
    """With one fault in one of the files nothing is imported; every fault is told with file and line."""
    bad = program.home / "bad.yaml"
    bad.write_text(PING.replace("Asia/Tokyo", "Mars").replace("image: report:1", "volumeMounts: [{name: v}]"))
    error = program.error("job", "import", "kubernetes", str(report), str(bad), str(program.home / "none.yaml"))
    lines = error["message"].splitlines()
    assert lines[0].startswith(f"{bad}:7: spec.timeZone: ")
    assert lines[1].startswith(f"{bad}:13: spec.jobTemplate.spec.template.spec.containers[0].volumeMounts: ")
    assert lines[2:4] == [
        f"{program.home}/none.yaml: it can't be read: No such file or directory",
        "nothing was imported; --skip-refused goes on without these",
    ]
    assert (error["code"], program.contents()) == ("invalid_file", [])


def test_one_name_twice_is_refused(program: Program, report: Path) -> None:
    """Two jobs can't have one id, wherever they stand."""
    error = program.error("job", "import", "kubernetes", str(report), str(report))
    assert "its id would be 'ping', like that of" in error["message"]


def test_a_bad_zone_is_refused(program: Program, report: Path) -> None:
    """As everywhere."""
    assert program.error("job", "import", "kubernetes", str(report), "--timezone", "Mars")["field"] == "time_zone"
