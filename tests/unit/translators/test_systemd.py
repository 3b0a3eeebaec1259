"""Timers of systemd as jobs."""

from datetime import UTC, datetime

import pytest

from tests.unit.translators.entries import only, said, why_left_out, why_refused
from tokimori.clock import SECOND, Moment, from_datetime, to_datetime
from tokimori.model.job import schedule_of
from tokimori.translators.entries import Entry, Moved
from tokimori.translators.systemd import Systemd, read_systemd

BERLIN = Systemd("Europe/Berlin")
TIMER = "[Unit]\nDescription=Daily\n\n[Timer]\nOnCalendar=daily\nPersistent=true\n\n[Install]\nWantedBy=x.target\n"
SERVICE = "[Unit]\nDescription=Back up\n[Service]\nType=oneshot\nExecStart=/usr/bin/backup --all 'a b'\nUser=ann\n"


def read(timer: str = TIMER, service: str = SERVICE, said: Systemd = BERLIN, **more: str) -> list[Entry]:
    """The entries of one timer and its service."""
    others = {name.replace("_", "/", 1): text for name, text in more.items()}
    return list(read_systemd({"backup.timer": timer, "backup.service": service, **others}, said))


def timed(*lines: str) -> Moved:
    """The job of a timer with these lines."""
    return only(read("[Timer]\n" + "\n".join(lines)))


def served(*lines: str) -> dict[str, object]:
    """The fields of the job of a service with these lines."""
    return said(only(read(service="[Service]\nType=oneshot\n" + "\n".join(lines))))


def test_a_timer_becomes_the_command_of_its_service() -> None:
    """Times, command, user, zone and what a missed time means are kept."""
    job = only(read())
    assert (job.job_id, job.place) == ("backup", "backup.timer")
    assert said(job) == {
        "command": ("/usr/bin/backup", "--all", "a b"),
        "cwd": "/",
        "user": "ann",
        "description": "Back up",
        "schedule": "0 0 0 * * * *",
        "time_zone": "Europe/Berlin",
        "gap": "skip",
        "max_running": 1,
        "timeout_grace": 90.0,
    }
    assert job.warnings == ()


def test_without_persistent_what_was_missed_is_gone() -> None:
    """A timer that is not persistent runs nothing for the time when the machine was off."""
    assert said(timed("OnCalendar=daily"))["misfire"] == "skip"
    assert "misfire" not in said(timed("OnCalendar=daily", "Persistent=yes"))


CALENDARS = [
    ("minutely", "2026-01-01 00:01:00"),
    ("hourly", "2026-01-01 01:00:00"),
    ("weekly", "2026-01-05 00:00:00"),
    ("monthly", "2026-02-01 00:00:00"),
    ("quarterly", "2026-04-01 00:00:00"),
    ("semiannually", "2026-07-01 00:00:00"),
    ("yearly", "2027-01-01 00:00:00"),
    ("Sat", "2026-01-03 00:00:00"),
    ("Mon..Fri *-*-* 09:30", "2026-01-01 09:30:00"),
    ("Fri..Sun 12:00", "2026-01-02 12:00:00"),
    ("Sat,Sun *-*-* 10:00:00", "2026-01-03 10:00:00"),
    ("*-*-1,15 06:00", "2026-01-01 06:00:00"),
    ("*-*-* *:0/15", "2026-01-01 00:15:00"),
    ("*:5/20:30", "2026-01-01 00:05:30"),
    ("*-*-* 8..10/2:00", "2026-01-01 08:00:00"),
    ("2026-3-* 7:08:09", "2026-03-01 07:08:09"),
    ("2027..2029-02-29", "2028-02-29 00:00:00"),
    ("02-14", "2026-02-14 00:00:00"),
    ("*-*~1", "2026-01-31 00:00:00"),
    ("*-02~3", "2026-02-26 00:00:00"),
    ("Mon *-*-1..7 03:00", "2026-01-05 03:00:00"),
    ("Fri *-*-13", "2026-02-13 00:00:00"),
    ("Sun *-02-29", "2032-02-29 00:00:00"),
    ("Monday..Sunday *-*-05", "2026-01-05 00:00:00"),
]
"""Expressions, and the next time after 2026-01-01 00:00:00, a Thursday, as `systemd-analyze calendar` says it."""


@pytest.mark.parametrize(("expression", "upcoming"), CALENDARS)
def test_a_calendar_expression_names_the_same_moments(expression: str, upcoming: str) -> None:
    """A weekday restricts the date, a step begins where it says, and what is left out is every or zero."""
    job = timed(f"OnCalendar={expression} UTC")
    found = schedule_of(job.definition, Moment(0)).next_after(from_datetime(datetime(2026, 1, 1, tzinfo=UTC)))
    assert found is not None
    assert to_datetime(found).strftime("%Y-%m-%d %H:%M:%S") == upcoming


def test_calendar_expressions_are_united() -> None:
    """Several lines are several times, an empty one forgets those before it, and their zone is that of the job."""
    job = timed("OnCalendar=yearly", "OnCalendar=", "OnCalendar=Mon 9:00 Asia/Tokyo", "OnCalendar=Tue 10:00 Asia/Tokyo")
    assert said(job)["schedule"] == "0 0 9 * * 1 *; 0 0 10 * * 2 *"
    assert said(job)["time_zone"] == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("OnCalendar=sometimes", "backup.timer:2: OnCalendar: 'sometimes' is not allowed"),
        ("OnCalendar=*-*-* 25:00", "25"),
        ("OnCalendar=Mon..Foo", "Mon..Foo"),
        ("OnCalendar=Fri..Mon", "Fri..Mon"),
        ("OnCalendar=*:*/8", "*:*/8"),
        ("OnCalendar=*-*-* 00:00:00.5", "00:00:00.5"),
        ("OnCalendar=daily Mars/Olympus", "Mars/Olympus"),
        ("OnCalendar=*-*~40", "*-*~40"),
        ("OnCalendar=daily\nOnCalendar=daily UTC", "backup.timer:3: OnCalendar=daily UTC: it has another zone"),
        ("OnCalendar=Mon *-*-1..7\nOnCalendar=daily", "a timer for each"),
        ("OnCalendar=daily\nOnUnitActiveSec=1h", "backup.timer:3: OnUnitActiveSec=1h: it can't be one job together"),
        ("OnUnitActiveSec=soon", "OnUnitActiveSec=soon: it is no length of time"),
        ("OnUnitActiveSec=500ms", "OnUnitActiveSec=500ms: it is not a whole number of seconds"),
        ("OnUnitActiveSec=0", "OnUnitActiveSec=0: it is not a whole number"),
        ("OnCalendar=daily\nPersistent=maybe", "backup.timer:3: Persistent=maybe: it is neither true nor false"),
        ("Persistent=yes", "backup.timer: the timer has no time"),
        ("OnCalendar=daily\nUnit=other.target", "Unit=other.target: it is no service"),
        ("OnCalendar=daily\nUnit=other.service", "backup.timer:3: other.service is not among the files"),
        ("nonsense", "backup.timer:2: 'nonsense' is no line of a unit"),
        ("OnBootSec=x", "backup.timer:2: OnBootSec=x: it is no length of time"),
    ],
)
def test_a_time_that_nobody_can_keep_is_refused(line: str, told: str) -> None:
    """File, line and value are told."""
    assert told in why_refused(read(f"[Timer]\n{line}"))


def test_an_interval_counts_from_the_last_run() -> None:
    """OnUnitActiveSec is an interval; what only starts it is told."""
    job = timed("OnBootSec=5min", "OnUnitActiveSec=1h 30min", "RandomizedDelaySec=90")
    assert said(job)["schedule"] == "every 90 minutes"
    assert (said(job)["anchored_on"], said(job)["jitter"]) == ("last run", 90.0)
    assert job.warnings[0].startswith("OnBootSec: '5min': ")
    assert said(timed("OnUnitActiveSec=1w"))["schedule"] == "every 168 hours"
    assert timed("OnUnitInactiveSec=45").warnings[0].startswith("OnUnitInactiveSec: '45': ")


def test_a_start_of_the_machine_is_a_job_of_its_own() -> None:
    """OnBootSec alone is `@reboot`, and beside a calendar it becomes a second job."""
    assert said(timed("OnBootSec=5min"))["schedule"] == "@reboot"
    first, second = read("[Timer]\nOnCalendar=daily\nOnStartupSec=5min\n")
    assert isinstance(first, Moved)
    assert isinstance(second, Moved)
    assert (first.job_id, second.job_id) == ("backup", "backup-boot")
    assert said(second)["schedule"] == "@reboot"
    assert second.warnings[0].startswith("OnStartupSec: '5min': ")


def test_what_a_timer_says_more_is_told() -> None:
    """No line of a timer is dropped in silence."""
    job = timed("OnCalendar=daily", "AccuracySec=1h", "WakeSystem=true", "FixedRandomDelay=true", "Fancy=1")
    assert [warning.partition(":")[0] for warning in job.warnings] == [
        "AccuracySec",
        "WakeSystem",
        "FixedRandomDelay",
        "Fancy",
    ]


@pytest.mark.parametrize(
    ("lines", "command"),
    [
        (("ExecStart=/bin/echo hi",), ("/bin/echo", "hi")),
        (('ExecStart=/bin/sh -c "echo \\"a\\"; x=\'1\'"',), ("/bin/sh", "-c", "echo \"a\"; x='1'")),
        (("ExecStart=/bin/echo a\\x20b\\tc \\\\",), ("/bin/echo", "a b\tc", "\\")),
        (("ExecStart=/bin/echo \\", "  one \\", "# a comment", "  two"), ("/bin/echo", "one", "two")),
        (("ExecStart=/bin/echo %n %N %p %%",), ("/bin/echo", "backup.service", "backup", "backup", "%")),
        (("ExecStart=/bin/echo $$HOME",), ("/bin/echo", "$HOME")),
        (("ExecStart=:/bin/echo $HOME",), ("/bin/echo", "$HOME")),
        (("ExecStart=/bin/echo a''b ''",), ("/bin/echo", "ab", "")),
        (("ExecStart=/bin/echo ${A}b $B 'x y'",), "/bin/echo \"${A}\"b ${B} 'x y'"),
        (("ExecStart=-/bin/false",), "/bin/false || true"),
        (("ExecStartPre=/bin/a", "ExecStart=-/bin/b c", "ExecStart=/bin/d", "ExecStartPost=/bin/e"),
         "/bin/a && { /bin/b c || true; } && /bin/d && /bin/e"),
    ],
)  # fmt: skip
def test_command_lines_keep_their_words(lines: tuple[str, ...], command: object) -> None:
    """Quotes, escapes, specifiers and variables mean what they mean there; what needs it is a text for the shell."""
    assert served(*lines)["command"] == command


def test_what_surrounds_a_command_is_kept() -> None:
    """Environment, folder, time-outs and user are those of the service."""
    fields = served(
        "ExecStart=/bin/x",
        "Environment=A=1 'B=two words' \"C=%p\"",
        "Environment=D=",
        "WorkingDirectory=/srv/%N",
        "TimeoutStartSec=1h",
        "TimeoutStopSec=5s",
        "StandardOutput=journal",
    )
    assert fields["env"] == {"A": "1", "B": "two words", "C": "backup", "D": ""}
    assert (fields["cwd"], fields["timeout"], fields["timeout_grace"]) == ("/srv/backup", 3600.0, 5.0)
    assert "timeout" not in served("ExecStart=/bin/x", "TimeoutStartSec=infinity")


def test_where_and_as_whom_it_runs() -> None:
    """A host pins the job; a user owns it, and runs it where the service names none."""
    plain = "[Service]\nExecStart=/bin/x\n"
    fields = said(only(read(service=plain, said=Systemd("UTC", "web1", "bob"))))
    assert (fields["labels"], fields["owner"], fields["user"]) == ({"host": "web1"}, "bob", "bob")
    assert said(only(read(said=Systemd("UTC", "web1", "bob"))))["user"] == "ann"


def test_what_a_command_does_without_is_told() -> None:
    """A sandbox, an order of units and conditions are left out: each key by its name, a usual sandbox in one line."""
    lines = "ProtectSystem=strict\nNice=5\nPrivateTmp=yes\nStandardOutput=file:/x\nSuccessExitStatus=3\n"
    off = "NoNewPrivileges=false\nPrivateDevices=no\n"
    job = only(read("[Unit]\nRequires=db.service\n" + TIMER, f"{SERVICE}{lines}{off}Restart=on-failure\n"))
    told = [warning.partition(":")[0] for warning in job.warnings]
    assert told == [
        "StandardOutput",
        "Restart",
        "ProtectSystem, Nice, PrivateTmp",
        "SuccessExitStatus",
        "Requires",
    ]
    assert "--attempts N" in next(each for each in job.warnings if each.startswith("Restart"))
    assert "(backup.service)" in next(each for each in job.warnings if each.startswith("ProtectSystem"))


def test_the_folder_without_a_line_is_that_of_systemd() -> None:
    """The root for what belongs to the system, and the home for what belongs to a user, which `~` is for both."""
    plain = "[Service]\nExecStart=/bin/x\n"
    assert said(only(read(service=plain)))["cwd"] == "/"
    assert "cwd" not in said(only(read(service=plain, said=Systemd("UTC", "web1", "bob"))))
    assert "cwd" not in said(only(read(service=plain + "WorkingDirectory=~\n")))


def test_the_home_of_a_user_is_what_their_units_mean() -> None:
    """`%h` is in most units of users; a system's own is root's, which nobody may mean who imports as somebody else."""
    unit = "[Service]\nExecStart=%h/bin/backup %u\n"
    bob = Systemd("UTC", None, "bob", home="/home/bob")
    assert said(only(read(service=unit, said=bob)))["command"] == ("/home/bob/bin/backup", "bob")
    assert "--user NAME" in why_refused(read(service=unit))
    assert "%h is known only to systemd" in why_refused(read(service=unit, said=bob._replace(home=None)))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Type=forking", "backup.service:4: Type=forking: "),
        ("ExecCondition=/bin/test", "ExecCondition=/bin/test: a command on a node can't have this"),
        ("EnvironmentFile=/etc/default/x", "allowed: Environment= for each variable"),
        ("ExecStopPost=/bin/x", "ExecStopPost"),
        ("WorkingDirectory=here", "WorkingDirectory=here: it is no absolute path"),
        ("Environment=A", "'A' sets no variable"),
        ("Environment='A=1", "there is no closing '"),
        ("ExecStart=+/bin/x", "the prefix + has no equal here"),
        ("ExecStart=/bin/x %h", "%h is known only to systemd"),
        ("ExecStart=/bin/x \\q", "\\q is no escape of systemd"),
        ("ExecStart=/bin/x ; /bin/y", "several commands in one line"),
        ("ExecStart=-", "it has no program"),
        ("TimeoutStartSec=long", "TimeoutStartSec=long: it is no length of time"),
    ],
)
def test_what_a_command_can_not_have_is_refused(line: str, told: str) -> None:
    """Nothing runs in another way than the service says; file, line and value are told."""
    service = f"[Service]\nType=oneshot\nExecStart=/bin/true\n{line}\n"
    assert told in why_refused(read(service=service))


def test_a_service_without_a_command_is_refused() -> None:
    """There is nothing that a job could run."""
    assert why_refused(read(service="[Service]\nType=oneshot\n")).startswith("backup.service: it has no ExecStart")


def test_drop_ins_count() -> None:
    """They come after the unit, in the order of their names."""
    more = {
        "backup.timer.d/20-b.conf": "[Timer]\nOnCalendar=hourly\n",
        "backup.timer.d/10-a.conf": "[Timer]\nOnCalendar=\n",
    }
    files = {"backup.timer": TIMER, "backup.service": SERVICE, **more}
    assert said(only(read_systemd(files, BERLIN)))["schedule"] == "0 0 * * * * *"


def test_an_instance_has_its_template() -> None:
    """`%i` is what stands behind the @; a template by itself runs nothing."""
    files = {
        "job@.timer": TIMER,
        "job@db.timer": TIMER,
        "job@.service": "[Service]\nExecStart=/bin/x %i %p\n",
    }
    template, job = read_systemd(files, BERLIN)
    assert why_left_out([template]).startswith("job@.timer: ")
    assert (only([job]).job_id, said(only([job]))["command"]) == ("job@db", ("/bin/x", "db", "job"))


def test_what_is_not_enabled_is_paused() -> None:
    """Where it is known which timers are wanted, the others come paused; one that is masked is left out."""
    files = {"a.timer": TIMER, "a.service": SERVICE, "b.timer": TIMER, "b.service": SERVICE, "c.timer": ""}
    wanted, other, masked = read_systemd({**files, "timers.target.wants/a.timer": ""}, BERLIN)
    assert only([wanted]).start.paused_because is None
    assert only([other]).start.paused_because == "not enabled in systemd"
    assert "masked" in why_left_out([masked])
    assert [only([each]).start.paused_because for each in list(read_systemd(files, BERLIN))[:2]] == [None, None]


def test_many_lines_of_one_key_are_read_once() -> None:
    """A unit of 200 kB costs what its lines cost: their number neither squared nor cubed."""
    lines = "".join(f"Environment=A{number}=1\n" for number in range(10_000))
    job = only(read(service=f"{SERVICE}{lines}Environment=\nEnvironment=B=2\n"))
    assert said(job)["env"] == {"B": "2"}


def test_an_instance_that_is_only_enabled_comes_too() -> None:
    """`systemctl enable job@db.timer` makes a link and no file: the template says what it is, and where it runs."""
    files = {"job@.timer": TIMER, "job@.service": "[Service]\nExecStart=/bin/x %i\n"}
    template, job = read_systemd({**files, "timers.target.wants/job@db.timer": ""}, BERLIN)
    assert why_left_out([template]).startswith("job@.timer: ")
    assert (only([job]).job_id, said(only([job]))["command"]) == ("job@db", ("/bin/x", "db"))
    assert only([job]).start.paused_because is None


def test_drop_ins_of_an_instance_its_template_and_all_services() -> None:
    """They count in the order of their names; of one name the folder that says most of the unit's name."""
    files = {
        "my-job@db.timer": TIMER,
        "my-job@.service": "[Service]\nExecStart=/bin/x\nUser=root\n",
        "my-job@db.service.d/20-user.conf": "[Service]\nUser=ann\n",
        "my-job@.service.d/20-user.conf": "[Service]\nUser=bob\n",
        "my-job@.service.d/10-cwd.conf": "[Service]\nWorkingDirectory=/b\n",
        "my-.service.d/30-cwd.conf": "[Service]\nWorkingDirectory=/a\n",
        "service.d/all.conf": "[Service]\nEnvironment=A=1\n",
        "my-job@other.service.d/99.conf": "[Service]\nUser=eve\n",
    }
    fields = said(only(read_systemd(files, BERLIN)))
    assert (fields["user"], fields["cwd"], fields["env"]) == ("ann", "/a", {"A": "1"})


@pytest.mark.parametrize("end", ["\\\\", "\\\\\\\\"])
def test_an_escaped_backslash_joins_no_line(end: str) -> None:
    """The line behind it says as whom the command runs, and is no part of the command."""
    fields = said(only(read(service=f"[Service]\nExecStart=/bin/x {end}\nUser=ann\n")))
    assert (fields["user"], fields["command"]) == ("ann", ("/bin/x", end[: len(end) // 2]))


@pytest.mark.parametrize("line", [f"ExecStart=/bin/x '{'a' * 100_000}", f"{'a' * 100_000}"])
def test_a_reason_does_not_repeat_a_long_line(line: str) -> None:
    """A thousand timers of one service would tell it a thousand times."""
    assert len(why_refused(read(service=f"[Service]\n{line}\n"))) < 1_500
    assert len(why_refused(read(f"[Timer]\nOnCalendar=daily\nUnit={line}.service\n"))) < 3_000


@pytest.mark.parametrize("line", ["*-02-30", "*-02,04-31", "1999-01-01", "@0", "2026-01-01 00:00:00"])
def test_a_timer_that_never_elapses_is_left_out(line: str) -> None:
    """It runs no more in systemd either; nothing else of the import is stopped by it."""
    now = Moment(1_800_000_000 * SECOND)
    left_out = why_left_out(read(f"[Timer]\nOnCalendar={line}", said=BERLIN._replace(now=now)))
    assert "names no moment any more" in left_out
