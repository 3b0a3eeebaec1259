"""A hundred misspellings, as people make them, and what each is answered."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tokimori.cli.errors import run
from tokimori.cli.main import program

JOBS = ("nightly-report", "daily-report", "etl-orders", "etl-customers", "backup.db", "x1")
MISSPELT: Sequence[tuple[str, str | None]] = (
    # commands
    ("jbo list", "job"),
    ("jobs list", "job"),
    ("jop list", "job"),
    ("JOB list", "job"),
    ("shedule explain x", "schedule"),
    ("sched explain x", "schedule"),
    ("calender list", "calendar"),
    ("cal list", "calendar"),
    ("queu list", "queue"),
    ("queues list", "queue"),
    ("rnu list", "run"),
    ("runs list", "run"),
    ("semaphore list", "lock"),
    ("locks list", "lock"),
    ("aply jobs.toml", "apply"),
    ("exprot toml", "export"),
    ("tokens list", "token"),
    ("scret list", "secret"),
    ("audti list", "audit"),
    ("nodes list", "node"),
    ("contex list", "context"),
    ("confg show", "config"),
    ("completoin bash", "completion"),
    ("wroker", "worker"),
    ("sevre", "serve"),
    ("start", "serve"),
    ("frobnicate", None),
    ("q", None),
    ("kubernetes", None),
    # commands of nouns
    ("job lst", "list"),
    ("job ls", "list"),
    ("job lits", "list"),
    ("job rm x1", "delete"),
    ("job remove x1", "delete"),
    ("job delte x1", "delete"),
    ("job create x1", "add"),
    ("job ad x1", "add"),
    ("job get x1", "show"),
    ("job shwo x1", "show"),
    ("job updaet x1", "update"),
    ("job puase x1", "pause"),
    ("job resmue x1", "resume"),
    ("job unpause x1", "resume"),
    ("job trigegr x1", "trigger"),
    ("job start x1", "trigger"),
    ("job backfil x1", "backfill"),
    ("job explian x1", "explain"),
    ("job imprt crontab f", "import"),
    ("job dissable x1", "disable"),
    ("job resolv x1", "resolve"),
    ("job frobnicate x1", None),
    ("run kill x", "cancel"),
    ("run cancle x", "cancel"),
    ("run log x", "logs"),
    ("lock dleete x", "delete"),
    ("db migrat", "migrate"),
    ("db stauts", "status"),
    ("token rm x", "revoke"),
    ("secret create x", "set"),
    ("context used x", "use"),
    ("help", "--help"),
    ("job help", "--help"),
    ("version", "tokimori --version"),
    ("job set x1", "edit"),
    ("job import cron f", "crontab"),
    ("job import k8s f", "kubernetes"),
    ("job import yacron f", "cronstable"),
    # options
    ("job list --stat paused", "--state"),
    ("job list --sate paused", "--state"),
    ("job list --prefx a", "--prefix"),
    ("job list --lable a=b", "--label"),
    ("job list --ownr a", "--owner"),
    ("job list --quue a", "--queue"),
    ("job list --jsno", "--json"),
    ("job list --ouptut csv", "--output"),
    ("job list --sotre x", "--store"),
    ("job list --hlep", "--help"),
    ("job list --frobnicate", None),
    ("job add a --comand true", "--command"),
    ("job add a --schedul @daily", "--schedule"),
    ("job add a --time-zone UTC", "--timezone"),
    ("job add a --max-runing 1", "--max-running"),
    ("job add a --retrydelay 1", "--retry-delay"),
    ("job add a --cron @daily", "--schedule"),
    ("job add a --retries 3", "--attempts"),
    ("job add a --tz UTC", "--timezone"),
    ("job add a --depends-on x1", "--after"),
    ("job add a --concurrency 1", "--max-running"),
    ("job add a --at 10:00", "--schedule"),
    ("job add a --eta 10:00", "--schedule"),
    ("job trigger a --eta 10:00", "--at"),
    ("job trigger a --countdown 5m", "--at"),
    ("job trigger a --args 1", "--payload"),
    ("job list --limit 3", None),
    ("run list --unitl 7d", "--until"),
    ("run list --snice 7d", "--since"),
    ("job trigger x1 --wiat", "--wait"),
    # words of options
    ("job list --state enabeld", "enabled"),
    ("job list --state PAUSED", "paused"),
    ("job list --state parkd", "parked"),
    ("run list --state suceeded", "succeeded"),
    ("run list --state canceled", "cancelled"),
    ("run list --state frobnicated", None),
    ("job add a --misfire lates", "latest"),
    ("job list -o tabel", "table"),
    # ids of jobs
    ("job show nigthly-report", "nightly-report"),
    ("job show nightly_report", "nightly-report"),
    ("job show nightly", "nightly-report"),
    ("job show dialy-report", "daily-report"),
    ("job show etl-order", "etl-orders"),
    ("job pause tel-orders", "etl-orders"),
    ("job delete backup.bd", "backup.db"),
    ("job trigger BACKUP.DB", "backup.db"),
    ("job show etl", None),
    ("job show payroll", None),
    # zones
    ("job add a --noop --timezone Paris", "Europe/Paris"),
    ("job add a --noop --timezone europe/paris", "Europe/Paris"),
    ("job add a --noop --timezone Europe/Belin", "Europe/Berlin"),
    ("job add a --noop --timezone Amercia/New_York", "America/New_York"),
    ("job add a --noop --timezone newyork", "America/New_York"),
    ("job add a --noop --timezone Asia/Tokio", "Asia/Tokyo"),
    ("job add a --noop --timezone Mars/Olympus", None),
    # fields
    ("job update x1 --unset shedule", "schedule"),
    ("job update x1 --unset retyr", "retry"),
)
VARIABLES: Sequence[tuple[str, str | None]] = (
    ("TOKIMORI_STROE", "TOKIMORI_STORE"),
    ("TOKIMORI_TIMEZONE", "TOKIMORI_TIME_ZONE"),
    ("TOKIMORI_HTTP_PROT", "TOKIMORI_HTTP_PORT"),
    ("TOKIMORI_NODE_CONCURENCY", "TOKIMORI_NODE_CONCURRENCY"),
    ("TOKIMORI_LOG_LEVL", "TOKIMORI_LOG_LEVEL"),
    ("TOKIMRI_LOG_LEVEL", "TOKIMORI_LOG_LEVEL"),
    ("TOKIMORI_FROBNICATE", None),
)
SETTINGS: Sequence[tuple[str, str | None]] = (
    ("time_zoen = 'UTC'", "time_zone"),
    ("[http]\nprot = 1", "http.port"),
    ("[log]\nlevle = 'info'", "log.level"),
    ("[node]\nconcurency = 1", "node.concurrency"),
    ("max_laod = 1", "node.max_load"),
    ("frobnicate = 1", None),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with some jobs."""
    url = f"sqlite://{tmp_path_factory.mktemp('misspelt')}/t.db"
    for job in JOBS:
        assert run(program, ["--store", url, "job", "add", job, "--noop"]) == 0
    return url


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of anybody else's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOKIMORI_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def suggested(capsys: pytest.CaptureFixture[str]) -> str | None:
    """What was suggested on stderr: one word, or nothing."""
    found: list[str] = re.findall(r"did you mean (.+?)\?", capsys.readouterr().err)
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(("line", "meant"), MISSPELT, ids=[line for line, _ in MISSPELT])
def test_a_misspelt_word_is_answered_with_the_right_one(
    line: str, meant: str | None, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or with none, where none is near: a wrong guess is worse."""
    assert run(program, ["--store", store, *line.split()]) in (2, 3)
    assert suggested(capsys) == meant


def test_an_unknown_importer_is_answered_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    """If none is near, a group of few commands lists them; many are left to its help."""
    assert run(program, ["job", "import", "quartz", "x"]) == 2
    assert "there are apscheduler, celery, crontab, " in capsys.readouterr().err
    assert run(program, ["xyzzy"]) == 2
    assert "there are" not in capsys.readouterr().err


@pytest.mark.parametrize(("name", "meant"), VARIABLES)
def test_a_misspelt_variable_is_named(
    name: str, meant: str | None, store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a warning, since it may be another program's."""
    monkeypatch.setenv(name, "x")
    assert run(program, ["--store", store, "job", "list"]) == 0
    assert suggested(capsys) == meant


@pytest.mark.parametrize(("text", "meant"), SETTINGS)
def test_a_misspelt_setting_is_named(
    *,
    text: str,
    meant: str | None,
    store: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the file's own fault."""
    file = tmp_path / "settings.toml"
    file.write_text(text)
    monkeypatch.setenv("TOKIMORI_CONFIG_PATH", str(file))  # so that what the program leaves there is taken back
    assert run(program, ["--store", store, "--config", str(file), "job", "list"]) == 2
    assert suggested(capsys) == meant


OF_KEIJI = {
    "task --create --name=x": "task create x",
    "task --name x --build --restart": "task build x",
    "system --start": "system start",
}


@pytest.mark.parametrize("line", OF_KEIJI)
def test_an_option_that_is_a_command_is_told_as_such(line: str, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Keiji's commands are options of a noun, and their names too."""
    assert run(program, ["--store", store, *line.split()]) == 2
    assert f"; did you mean `tokimori {OF_KEIJI[line]}`?" in capsys.readouterr().err


def test_there_are_a_hundred() -> None:
    """As many as were promised."""
    assert len({*MISSPELT, *VARIABLES, *SETTINGS}) >= 100
