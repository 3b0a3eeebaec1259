"""`tokimori job import crontab` on real files and a real store."""

import io
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest

from tests.integration.cli.conftest import Program
from tokimori.cli import job_import
from tokimori.cli.errors import run
from tokimori.cli.main import program
from tokimori.formats import crontab

SYSTEM = """\
SHELL=/bin/sh
MAILTO=ops

17 *\t* * *\troot\tcd / && run-parts /etc/cron.hourly
@reboot  www-data  warm-up
CRON_TZ=Asia/Tokyo
30 2 * * 1-5 root report --of 5\\%
"""


class Cli:
    """The program on one store, and what it prints."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.store = folder / "tokimori.db"
        self._capsys = capsys

    def file(self, name: str, text: str | bytes) -> str:
        """A file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def __call__(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        """Run it: stdout and stderr."""
        assert run(program, ["--store", f"sqlite://{self.store}", *arguments]) == code, self._capsys.readouterr().err
        return self._capsys.readouterr()

    def imported(self, *arguments: str) -> Any:
        """Import and read the JSON."""
        return json.loads(self("job", "import", "crontab", *arguments, "--timezone", "UTC", "--json")[0])

    def jobs(self) -> dict[str, Any]:
        """All jobs in the store, by id."""
        self("db", "migrate")
        return {job["id"]: job for job in json.loads(self("job", "list", "--json")[0])}


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The program in an empty folder, without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TOKIMORI_STORE", raising=False)
    return Cli(tmp_path, capsys)


def test_importing_twice_changes_nothing(cli: Cli) -> None:
    """The second import finds every job as the first left it, and says so."""
    file = cli.file("crontab", SYSTEM)
    first = cli.imported("--system", file)
    jobs = cli.jobs()
    assert sorted(first["added"]) == sorted(jobs) == sorted(job["id"] for job in first["jobs"])
    second = cli.imported("--system", file)
    assert (second["added"], sorted(second["unchanged"]), second["kept"]) == ([], sorted(jobs), {})
    assert cli.jobs() == jobs


def test_a_system_crontab_stays_on_this_host(cli: Cli) -> None:
    """Only a node here runs its jobs, each as its user and in its zone."""
    cli.imported("--system", cli.file("crontab", SYSTEM))
    jobs = {job["schedule"]: job for job in cli.jobs().values()}
    assert {job["labels"]["host"] for job in jobs.values()} == {socket.gethostname()}
    assert [jobs[schedule]["user"] for schedule in ("17 * * * *", "@reboot")] == ["root", "www-data"]
    assert [jobs[schedule]["time_zone"] for schedule in ("17 * * * *", "30 2 * * 1-5")] == ["UTC", "Asia/Tokyo"]
    assert jobs["30 2 * * 1-5"]["command"] == "report --of 5%"
    assert (jobs["@reboot"]["next_due"], jobs["@reboot"]["mailto"]) == (None, "ops")


@pytest.mark.parametrize("arguments", [["--system", "--anywhere"], ["--user", "alice"]])
def test_other_jobs_run_anywhere(cli: Cli, arguments: list[str]) -> None:
    """Neither --anywhere nor a user's crontab pins a job."""
    cli.imported(*arguments, cli.file("crontab", "@daily root run"))
    assert [job["labels"] for job in cli.jobs().values()] == [{}]


def test_a_folder_is_read_as_cron_reads_it(cli: Cli, tmp_path: Path) -> None:
    """Files with a dot in their names are none of cron's; a host may be named."""
    for name in ("backup", "backup.bak", ".placeholder"):
        (tmp_path / name).write_text(f"@daily root {name}\n")
    cli.imported("--system", "--host", "web-1", str(tmp_path))
    assert {name: job["labels"] for name, job in cli.jobs().items()} == {"backup": {"host": "web-1"}}


def test_people_get_the_jobs_and_notes(cli: Cli) -> None:
    """The answer has lines for each job; what is not as under cron stands beside it."""
    out, err = cli("job", "import", "crontab", "--system", cli.file("my.crontab", SYSTEM))
    assert [line for line in out.splitlines() if line.startswith("+")] == ["+ run-parts", "+ warm-up", "+ report"]
    assert out.splitlines()[-1] == "3 entries read, 3 added, 0 changed, 0 unchanged"
    for told in ("MAILTO", f"only a node on {socket.gethostname()}", "ignores", "cronie", "this machine"):
        assert told in err


def test_a_bad_line_imports_nothing(cli: Cli) -> None:
    """Every bad line of every file is named, and no job of any file is added."""
    good = cli.file("good", "@daily root run")
    bad = cli.file("bad", "@daily root run\n61 * * * * root x\n\n* * * * *\n")
    worse = cli.file("worse", b"@daily root caf\xe9\n")
    _, err = cli("job", "import", "crontab", "--system", good, bad, worse, str(cli.folder / "none"), code=2)
    assert f"{bad}:2: minute: '61'" in err
    assert f"{bad}:4: user: " in err
    assert f"{worse}:1: line: it is not UTF-8" in err
    assert f"{cli.folder}/none: it can't be read: No such file" in err
    assert cli.jobs() == {}


def test_all_faults_of_a_file_are_told(cli: Cli) -> None:
    """A pipe gets them whole; a terminal gets the first twenty, and how many more there are."""
    bad = cli.file("bad", "nonsense\n" * 500)
    lines = cli("job", "import", "crontab", bad, code=2)[1].splitlines()
    assert f"{bad}:20: " in lines[19]
    assert lines[500:] == ["nothing was imported; --skip-refused goes on without these"]


def test_an_error_is_json_where_asked(cli: Cli) -> None:
    """A program reads code and message."""
    _, err = cli("job", "import", "crontab", cli.file("bad", "nonsense"), "--json", code=2)
    error = json.loads(err)["error"]
    assert (error["code"], error["field"]) == ("invalid_file", "source")
    assert "bad:1: line: 'nonsense'" in error["message"]


def test_a_dry_run_touches_no_store(cli: Cli) -> None:
    """It reads and shows, and there is no store afterwards."""
    file = cli.file("crontab", SYSTEM)
    out, _ = cli("job", "import", "crontab", "--system", "--dry-run", file)
    assert out.splitlines()[-1] == "dry run: 3 entries read, would add 3, would change 0, 0 unchanged"
    assert len(cli.imported("--system", "--dry-run", file)["added"]) == 3
    assert not cli.store.exists()


def test_what_differs_is_kept_and_told(cli: Cli) -> None:
    """A job that is there with another time stays so, and the person is told; a moved line is no difference."""
    (first,) = cli.imported(cli.file("crontab", "@daily run"))["added"]
    assert cli.imported(cli.file("crontab", "\n\n@daily run"))["kept"] == {}
    file = cli.file("crontab", "@hourly run")
    assert [each["field"] for each in cli.imported(file)["kept"][first]] == ["schedule"]
    out, _ = cli("job", "import", "crontab", "--timezone", "UTC", file)
    assert out.splitlines()[:2] == ["? run: it stays as it is", '    schedule: "@daily" → "@hourly"']
    assert cli.jobs()[first]["schedule"] == "@daily"
    cli.imported("--update", file)
    assert cli.jobs()[first]["schedule"] == "@hourly"


def test_programs_of_several_files_are_numbered(cli: Cli) -> None:
    """The same program in two files has two ids; of a second import a prefix makes others."""
    files = [cli.file(name, "@daily run") for name in ("a/crontab", "b/crontab")]
    assert cli.imported(*files)["added"] == ["run", "run-2"]
    assert cli.imported("--prefix", "web1-", files[0])["added"] == ["web1-run"]


@pytest.mark.parametrize("file", ["/etc/crontab", "/etc/cron.d/sysstat"])
def test_a_system_crontab_is_not_read_as_a_users(cli: Cli, file: str) -> None:
    """Its users would be taken for commands."""
    _, err = cli("job", "import", "crontab", file, code=2)
    assert f"{file}: it is a system crontab" in err


def test_a_users_crontab_runs_as_its_user(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where cron keeps them is named after its user, as whom its jobs run whoever imports it."""
    monkeypatch.setattr(crontab, "SPOOL", PurePath(cli.folder / "spool"))
    cli.imported(cli.file("spool/crontabs/alice", "@daily run"))
    assert [(job["user"], job["owner"]) for job in cli.jobs().values()] == [("alice", "alice")]


def test_standard_input_is_a_file(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """`crontab -l | tokimori job import crontab -` works; without --user the jobs run as the node does."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"@daily run\n")))
    (job,) = cli.imported("-")["jobs"]
    assert job["id"] == "run"
    assert (job["description"], job.get("user")) == ("stdin:1", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "--user", "bob"], "user: 'bob'"),
        (["--timezone", "Mars/Base"], "there is no time zone"),
    ],
)
def test_bad_options_are_refused(cli: Cli, arguments: list[str], message: str) -> None:
    """Exit code 2, and nothing is imported."""
    _, err = cli("job", "import", "crontab", *arguments, cli.file("crontab", "@daily root run"), code=2)
    assert message in err
    assert not cli.store.exists()


def test_the_machines_zone_is_the_default(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CRON_TZ a job keeps the clock by which cron ran it."""
    zone: Callable[..., str] = lambda _environ: "Asia/Kolkata"  # noqa: E731
    monkeypatch.setattr(job_import, "machine_zone", zone)
    cli("job", "import", "crontab", cli.file("crontab", "@daily run"))
    assert [job["time_zone"] for job in cli.jobs().values()] == ["Asia/Kolkata"]


def test_mailto_becomes_a_notifier(program: Program) -> None:
    """Where a server of mail is named; importing again changes nothing."""
    (program.home / "tab").write_text("MAILTO=ann@example.org\n0 3 * * * true\nMAILTO=\n0 4 * * * true\n")
    told = ("--smtp", "mail.example.org", "--sender", "cron@example.org")
    assert (
        "3 entries read, 3 added, 0 changed, 0 unchanged"
        in program.run("job", "import", "crontab", "tab", *told).stdout
    )
    assert (
        "3 entries read, 0 added, 0 changed, 3 unchanged"
        in program.run("job", "import", "crontab", "tab", *told).stdout
    )
    (notifier,) = program.json("notifier", "list")
    assert (notifier["id"], notifier["email"]) == ("notifier:mail-ann-example.org", ["ann@example.org"])
    unmuted_events = [job["notify"].get("failure") for job in program.json("job", "list") if job["schedule"]]
    assert sorted(unmuted_events, key=str) == [None, ["mail-ann-example.org"]]
    assert program.error("job", "import", "crontab", "tab", "--smtp", "h")["field"] == "sender"


@pytest.mark.parametrize(
    ("server", "allowed", "told"),
    [
        ("127.0.0.1:25", "", "the mail server 127.0.0.1 is at 127.0.0.1, which is not public"),
        ("127.0.0.1:25", 'targets.private_addresses = ["127.0.0.0/8"]\n', ""),
        ("nowhere.invalid", "", "the mail server nowhere.invalid is not known here"),
        ("9.9.9.9", "", ""),
    ],
)
def test_a_mail_server_that_nodes_would_not_ask_is_told_at_once(
    program: Program, server: str, allowed: str, told: str
) -> None:
    """Not when each of its mails has failed."""
    (program.home / "tab").write_text("MAILTO=ann@example.org\n0 3 * * * true\n")
    (program.home / "tokimori.toml").write_text(allowed)
    words = ("job", "import", "crontab", "tab", "--smtp", server, "--sender", "cron@example.org", "--dry-run")
    notes = program.run(*words).stderr
    assert told in notes
    assert told or "the mail server" not in notes


def test_a_line_keeps_its_job_whatever_is_written_above_it(cli: Cli) -> None:
    """By its number alone the job of a line would get its neighbour's command, and the last line would run twice."""
    lines = ["0 1 * * * manage a", "0 2 * * * manage b", "0 3 * * * manage c"]
    source = cli.file("tab", "\n".join(lines) + "\n")
    assert cli.imported(source)["added"] == ["manage", "manage-2", "manage-3"]
    cli.file("tab", "\n".join(["0 0 * * * manage new", *lines]) + "\n")
    done = cli.imported(source)
    assert (done["added"], done["kept"]) == (["manage-4"], {})
    cli.file("tab", "\n".join([lines[2], "0 9 * * * manage b"]) + "\n")
    done = cli.imported(source, "--update")
    assert (done["added"], list(done["changed"]), done["unchanged"]) == ([], ["manage-2"], ["manage-3"])
    assert [job["command"] for job in cli.jobs().values()] == ["manage a", "manage b", "manage c", "manage new"]
    assert cli.jobs()["manage-2"]["schedule"] == "0 9 * * *"


def test_users_that_this_machine_does_not_have_are_told(cli: Cli) -> None:
    """Cron ignores their lines, and here their runs would fail one by one."""
    err = cli("job", "import", "crontab", "--system", cli.file("s", "@daily nobody-here run\n@daily root run\n"))[1]
    assert "this machine has no user nobody-here: " in err
