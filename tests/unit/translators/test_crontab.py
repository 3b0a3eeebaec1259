"""What a crontab says, judged by what Debian's cron 3.0pl1-162 does with the same lines."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tokimori.clock import DAY, Moment, parse_moment, to_datetime
from tokimori.model.checks import check_definition
from tokimori.model.ids import check_job_id
from tokimori.model.job import Definition, schedule_of
from tokimori.model.policies import Misfire
from tokimori.model.target import Command
from tokimori.schedules.schedule import Fold, Gap, next_moments
from tokimori.translators.crontab import Crontab, CrontabDialect, read_crontab
from tokimori.translators.crontab_ids import program_of
from tokimori.translators.entries import Moved, Refused

OF_ALICE = Crontab(file="crontabs/alice", zone="Europe/Paris", owner="alice", dialect=CrontabDialect.DEBIAN)
OF_BOB = Crontab(file="crontabs/alice", zone="UTC", owner="bob", dialect=CrontabDialect.DEBIAN)
OF_THE_SYSTEM = Crontab(
    file="/etc/cron.d/backup", zone="UTC", owner="root", system=True, host="db1", dialect=CrontabDialect.DEBIAN
)
ENV = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin", "LOGNAME": "alice"}


def jobs(text: str, crontab: Crontab = OF_ALICE) -> list[Moved]:
    found = list(read_crontab(text, crontab))
    assert all(isinstance(each, Moved) for each in found), found
    return [each for each in found if isinstance(each, Moved)]


def definitions(text: str, crontab: Crontab = OF_ALICE) -> list[Definition]:
    return [each.definition for each in jobs(text, crontab)]


def ids(text: str, crontab: Crontab = OF_ALICE) -> list[str]:
    return [each.job_id for each in jobs(text, crontab)]


def only(text: str, crontab: Crontab = OF_ALICE) -> tuple[Definition, Command]:
    (definition,) = definitions(text, crontab)
    assert isinstance(definition.target, Command)
    return definition, definition.target


def env_of(text: str) -> dict[str, str]:
    return only(text + "\n@daily run")[1].env


def faults(text: str, crontab: Crontab = OF_ALICE) -> list[str]:
    return [f"{each.place}: {each.why}" for each in read_crontab(text, crontab) if isinstance(each, Refused)]


# Jobs


def test_a_line_becomes_a_job_under_the_rules_of_cron() -> None:
    """A job overlaps, skips what it missed, and says where it came from and whose it is."""
    assert definitions("\n17 *\t* * *  cd / && run\n") == [
        Definition(
            schedule="17 * * * *",
            time_zone="Europe/Paris",
            description="crontabs/alice:2",
            owner="alice",
            misfire=Misfire.SKIP,
            max_running=0,
            target=Command(shell="cd / && run", env=ENV),  # noqa: S604 it is data
        )
    ]


def test_a_system_crontab_names_the_user() -> None:
    """In a system crontab the word before the command is the user, and the jobs are pinned to the host."""
    definition, command = only("0 3 * * *\twww-data \t run  it \n", OF_THE_SYSTEM)
    assert (command.user, definition.owner, command.shell) == ("www-data", "www-data", "run  it ")
    assert definition.labels == {"host": "db1"}


def test_another_users_crontab_runs_as_that_user() -> None:
    """A crontab that is read for somebody else keeps that user in the command."""
    crontab = Crontab(file="bob", zone="UTC", owner="bob", run_as="bob")
    definition, command = only("@daily run", crontab)
    assert (command.user, definition.owner, definition.labels) == ("bob", "bob", {})


def test_jumping_clocks_are_treated_as_cron_treats_them() -> None:
    """Gap and fold are left at the defaults, which are cron's."""
    definition, _ = only("30 2 * * * run")
    assert (definition.gap, definition.fold) == (Gap.SHIFT, Fold.FIRST)


@pytest.mark.parametrize(
    "word", ["@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"]
)
def test_words_are_kept_as_typed(word: str) -> None:
    """Every @word of cron is a schedule."""
    definition, command = only(f"{word} run")
    assert (definition.schedule, command.shell) == (word, "run")
    schedule_of(definition, Moment(0))


@pytest.mark.parametrize("text", ["", "\n\n", "# a b\n  # * * * * * x\n", " \t\n", "A=b\n", "#\0\udcff\n"])
def test_nothing_is_no_job(text: str) -> None:
    """Blank lines, comments and settings alone are no jobs."""
    assert definitions(text) == []


def test_a_comment_is_a_whole_line() -> None:
    """A # inside a line belongs to the command or the value."""
    _, command = only("A=b # c\n  @daily run # it")
    assert command.shell == "run # it"
    assert command.env["A"] == "b # c"


@pytest.mark.parametrize("text", ["@daily run", "@daily run\n", "@daily run\r\n", " \t@daily\t run\r\n", "-@daily run"])
def test_the_ends_and_beginnings_of_lines_say_nothing(text: str) -> None:
    """Leading blanks, CR LF, a missing last end and cronie's sign for "not in the log" change nothing."""
    definition, command = only(text)
    assert (definition.schedule, command.shell) == ("@daily", "run")


@pytest.mark.parametrize(
    "schedule",
    [
        "*/61 * * * *",
        "*,5 * * * *",
        "0-59/5,3 * * * *",
        "001 * * * *",
        "1-5/70 * * * *",
        "1-1 * * * *",
        "* * * jan-mar mon,TUE",
        "* * * * 5-7",
        "* * * * sun-tue",
        "* * * * 0-7",
    ],
)
def test_what_cron_accepts_is_a_schedule(schedule: str) -> None:
    """Lists, ranges, steps and names of cron are kept as typed."""
    assert only(f"{schedule} run")[0].schedule == schedule


def test_a_day_field_that_begins_with_a_star_is_no_alternative() -> None:
    """`*/2` and Sunday must both hold, `1-31/2` or Sunday is enough: cron looks at the first character."""
    start = parse_moment("2030-01-01T00:00:00Z")
    days = {}
    for field in ("*/2", "1-31/2"):
        definition, _ = only(f"0 12 {field} * sun run")
        moments = next_moments(schedule_of(definition, start), start, 400)
        days[field] = [to_datetime(moment) for moment in moments if moment < start + 365 * DAY]
    odd = [day for day in days["1-31/2"] if day.day % 2]
    assert days["*/2"] == [day for day in odd if day.weekday() == 6]
    assert all(day.day % 2 or day.weekday() == 6 for day in days["1-31/2"])
    assert len(days["*/2"]) < len(odd) < len(days["1-31/2"])


@pytest.mark.parametrize("when", ["0 0 L * *", "0 0 ? * 5L", "0 0 15W * ?", "0 0 ? * FRI#2", "0 0 * * 5#3"])
def test_days_of_supercronics_library_are_taken_of_it_alone(when: str) -> None:
    """Its cronexpr knows `?`, L, W and #; no other cron does."""
    assert only(f"{when} run", replace(OF_ALICE, dialect=CrontabDialect.SUPERCRONIC))[0].schedule == when
    assert "is not allowed in cron" in faults(f"{when} run")[0]


# Ids


PROGRAMS = {
    "/usr/local/bin/backup.sh --full": "backup-sh",
    "$VV $VIROVERSE/scripts/update-blast.pl": "update-blast-pl",
    "$DEBSRC/bin/update-debsources": "update-debsources",
    'bash -c "now=$(date +\\"%Y%m%d\\"); sync-all $now"': "sync-all",
    "cd /app && uv run kimai_daily.py": "kimai_daily-py",
    "bundle exec rake report": "rake",
    "test -x /usr/bin/geoipupdate && grep -Eq '^(ID|Id)' /etc/GeoIP.conf && geoipupdate": "geoipupdate",
    "cd / && run-parts --report /etc/cron.hourly": "run-parts",
    "test -x /usr/sbin/anacron || ( cd / && run-parts /etc/cron.daily )": "run-parts",
    "[ -x /opt/x ] && /opt/x": "x",
    "A=1 nice -n 10 php /var/www/artisan schedule:run": "artisan",
    "flock -n /tmp/lock timeout 10m /opt/sync.py -q": "sync-py",
    "python3 -m http.server": "http-server",
    "sudo -u www-data php -f /var/www/cron.php": "cron-php",
    "bash -lc 'cd /srv && ./run.sh -q'": "run-sh",
    "su - postgres -c 'pg_dump shop'": "pg_dump",
    "test -x /usr/bin/certbot && perl -e 'sleep int(rand(43200))' && certbot -q renew": "certbot",
    "[ -x /a/sessionclean ] && if [ ! -d /run/x ]; then /a/sessionclean; fi": "sessionclean",
    "for i in 1 2; do /bin/x.sh $i; done": "x-sh",
    "perl -e 'print 1'": "perl",
    "date +%F": "date",
    "true": "true",
    "'open": "open",
    "🕰": "job",
}


@pytest.mark.parametrize("command", PROGRAMS)
def test_an_id_comes_from_the_program(command: str) -> None:
    """Not from what prepares its start, nor from its arguments."""
    assert program_of(command) == PROGRAMS[command]


def test_an_id_outlives_other_lines_and_times() -> None:
    """Neither the schedule nor settings nor lines around change an id, unless they run the same program."""
    assert {*ids("@daily run"), *ids("\n# x\nA=b\n5 * * * * run\n"), *ids("@daily run -q", OF_BOB)} == {"run"}
    assert ids("@daily run", replace(OF_BOB, prefix="web1-")) == ["web1-run"]


def test_the_same_program_again_is_numbered() -> None:
    """Lines with one program get -2, -3 in their order, in whichever of the files they stand."""
    taken: Counter[str] = Counter()
    first = read_crontab("@daily run\n@hourly run -q\n@daily walk\n@daily run-2\n@daily run", OF_BOB, taken)
    assert [each.job_id for each in first if isinstance(each, Moved)] == ["run", "run-2", "walk", "run-2-2", "run-3"]
    (second,) = read_crontab("@daily run", OF_ALICE, taken)
    assert isinstance(second, Moved)
    assert second.job_id == "run-4"


# Settings


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("A = b c  ", "A", "b c"),
        (" 'A B' = \"  x y \" ", "A B", "  x y "),
        ('"A B"=c', "A B", "c"),
        ("B=a'b\"c  ", "B", "a'b\"c"),
        ("C='it\"s' ", "C", 'it"s'),
        ("D=$HOME", "D", "$HOME"),
        ("E=a=b", "E", "a=b"),
        ("E=\u00a0b\u00a0", "E", "\u00a0b\u00a0"),
        ('F=""', "F", ""),
        ("G=", "G", ""),
        ("USER=evil", "USER", "evil"),
        ("PATH=/opt", "PATH", "/opt"),
        ("HOME=/tmp", "HOME", "/tmp"),
    ],
)
def test_a_setting_is_a_variable_of_the_job(line: str, name: str, value: str) -> None:
    """Quotes keep blanks and go, nothing is expanded, and the job finds what cron's would."""
    assert env_of(line) == {**ENV, name: value}


def test_a_setting_concerns_the_lines_that_follow() -> None:
    """A line knows the settings above it, the last of each name."""
    text = "@daily one\nA=1\n@daily two\nA=2\n@daily three"
    envs = [definition.target.env for definition in definitions(text) if isinstance(definition.target, Command)]
    assert [env.get("A") for env in envs] == [None, "1", "2"]


def test_nobody_changes_the_login_name() -> None:
    """LOGNAME is the crontab's owner, or the user of the line."""
    assert env_of("LOGNAME=evil")["LOGNAME"] == "alice"
    assert only("LOGNAME=evil\n@daily www-data run", OF_THE_SYSTEM)[1].env["LOGNAME"] == "www-data"


def test_the_shell_runs_the_command() -> None:
    """SHELL is the shell, and a variable too; an empty one is cron's own."""
    _, command = only("SHELL=/bin/bash\n@daily run")
    assert (command.shell_path, command.env["SHELL"]) == ("/bin/bash", "/bin/bash")
    assert only("SHELL=\n@daily run")[1].shell_path == "/bin/sh"


@pytest.mark.parametrize(
    ("line", "mailto"), [("A=b", None), ('MAILTO=""', ""), ("MAILTO=ops@example.org", "ops@example.org")]
)
def test_mailto_is_kept(line: str, mailto: str | None) -> None:
    """An empty MAILTO (no mail) is not the same as none."""
    assert only(f"{line}\n@daily run")[0].mailto == mailto


def test_a_zone_moves_the_schedule_and_not_the_clock_of_the_job() -> None:
    """CRON_TZ is the zone of the lines below it; the job's own TZ stays the machine's, or the crontab's."""
    text = "@daily a\nCRON_TZ=Asia/Tokyo\n@daily b\nTZ=UTC\n@daily c\nCRON_TZ=\n@daily d"
    first, second, third, last = definitions(text, replace(OF_ALICE, dialect=CrontabDialect.CRONIE))
    zones = [each.time_zone for each in (first, second, third, last)]
    assert zones == ["Europe/Paris", "Asia/Tokyo", "Asia/Tokyo", "Europe/Paris"]
    clocks = [each.target.env.get("TZ") for each in (first, second, third, last) if isinstance(each.target, Command)]
    assert clocks == [None, "Europe/Paris", "UTC", "UTC"]


@pytest.mark.parametrize("dialect", [CrontabDialect.DEBIAN, CrontabDialect.BUSYBOX])
def test_a_zone_that_the_cron_does_not_know_moves_no_schedule(dialect: CrontabDialect) -> None:
    """To Debian's cron and busybox's CRON_TZ is a variable of the commands as any other: that is told."""
    crontab = replace(OF_ALICE, dialect=dialect)
    plain, named, same = jobs("@daily a\nCRON_TZ=Asia/Tokyo\n@daily b\nCRON_TZ=Europe/Paris\n@daily c", crontab)
    assert {each.definition.time_zone for each in (plain, named, same)} == {"Europe/Paris"}
    assert isinstance(named.definition.target, Command)
    assert named.definition.target.env["CRON_TZ"] == "Asia/Tokyo"
    assert "TZ" not in named.definition.target.env
    assert named.warnings == (
        f"CRON_TZ: 'Asia/Tokyo': {dialect}'s cron does not know it: the schedule is in Europe/Paris",
    )
    assert plain.warnings == same.warnings == ()


# Percent signs


@pytest.mark.parametrize(
    ("typed", "shell", "stdin"),
    [
        ("cat", "cat", None),
        ("cat%", "cat", None),
        ("cat%abc", "cat", "abc\n"),
        ("cat%%", "cat", "\n"),
        (r"cat%a\%b\\%c\d\\e%f%", "cat", "a%b\\%c\\d\\\\e\nf\n"),
        (r"echo 'a\%b\c\\d\\\%e'", r"echo 'a%b\c\d\%e'", None),
        (r"x\%\%\\%b", "x%%\\", "b\n"),
        (r"x\\\%b\%", r"x\%b%", None),
        (r"x\\%%b\\", "x\\", "\nb\\\\\n"),
        (r"x%\ a\\%", "x", "\\ a\\%\n"),
        ("xbb\\\\\\", "xbb\\\\", None),
        ("x%a\\", "x", "a\\\n"),
        ("x%%\\\\", "x", "\n\\\\"),
    ],
)
def test_percent_signs_mean_what_cron_makes_of_them(typed: str, shell: str, stdin: str | None) -> None:
    """The shell gets, and reads, exactly what Debian's cron was seen to hand to it."""
    _, command = only(f"* * * * * {typed}")
    assert (command.shell, command.stdin) == (shell, stdin)


DIALECTS = {
    (CrontabDialect.DEBIAN, r"a \\\\ \\x \%"): (r"a \\ \x %", None),
    (CrontabDialect.CRONIE, r"a \\\\ \\x \%"): (r"a \\\\ \\x %", None),
    (CrontabDialect.BUSYBOX, r"a \\ \% %x"): (r"a \\ \% %x", None),
    (CrontabDialect.SUPERCRONIC, r"a \\ \% %x"): (r"a \\ \% %x", None),
    (CrontabDialect.CRONIE, r"a \\%x"): (r"a \\", "x\n"),
}


@pytest.mark.parametrize(("dialect", "typed"), DIALECTS)
def test_backslashes_and_percent_signs_are_those_of_the_program(dialect: CrontabDialect, typed: str) -> None:
    """Debian's cron makes one of two backslashes, cronie keeps them, and others know no percent sign."""
    _, command = only(f"* * * * * {typed}", replace(OF_ALICE, dialect=dialect))
    assert (command.shell, command.stdin) == DIALECTS[dialect, typed]


def test_a_percent_sign_that_cuts_a_command_is_noted() -> None:
    """So are backslashes that another cron reads otherwise; a line without either has no note."""
    cut, doubled, plain = jobs(
        "@daily x-$(date +%F)\n@daily a \\\\\n@daily y \\%", replace(OF_ALICE, dialect=CrontabDialect.CRONIE)
    )
    assert cut.warnings == (
        "command: 'x-$(date +': a bare % ends it, the rest is its input: 'F)\\n'; \\% is a percent sign",
    )
    assert "--dialect debian" in doubled.warnings[0]
    assert plain.warnings == ()
    assert jobs("@daily a \\\\")[0].warnings == ()


@pytest.mark.parametrize(
    ("command", "told"), [("tunnel &", 1), ("a & b", 0), ("a && b", 0), ("a >&2", 0), ("a \\&", 0)]
)
def test_what_is_left_in_the_background_is_told(command: str, told: int) -> None:
    """A run ends all that its line has started, and cron does not."""
    assert sum("then ends, too" in each for each in jobs(f"@reboot {command}")[0].warnings) == told


def test_what_cronie_alone_has() -> None:
    """A random value is one that depends on the id, and RANDOM_DELAY is a jitter in minutes."""
    cronie = replace(OF_ALICE, dialect=CrontabDialect.CRONIE)
    (job,) = jobs("RANDOM_DELAY=5\n0~30 ~ * * * x", cronie)
    assert (job.definition.schedule, job.definition.jitter) == ("H(0-30) H(0-23) * * *", 300)
    assert "by chance" in job.warnings[0]
    assert faults("0~30 * * * * x")
    assert definitions("RANDOM_DELAY=5\n@daily x")[0].jitter == 0


def test_what_supercronic_alone_has() -> None:
    """Seconds and years stand before the command, and a job never runs beside itself."""
    supercronic = replace(OF_ALICE, dialect=CrontabDialect.SUPERCRONIC)
    lines = "*/5 * * * * * * x y\n0 9 * * 1 2031 x  y\n0 9 * * 1 x y\n@hourly x"
    found = definitions(lines, supercronic)
    schedules = [each.schedule for each in found]
    assert schedules == ["*/5 * * * * * *", "0 0 9 * * 1 2031", "0 9 * * 1", "@hourly"]
    assert [each.target.shell for each in found if isinstance(each.target, Command)] == ["x y", "x  y", "x y", "x"]
    assert {each.max_running for each in found} == {1}


BLANKS = st.text(" \t", min_size=1, max_size=3)
TEXT = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from("%\\ #'\"="), max_size=30)
SHELL = TEXT.filter(lambda text: text.strip() == text and text[:1] not in ("", "*"))
STDIN = st.none() | st.lists(TEXT, min_size=1, max_size=4).map("\n".join)


@st.composite
def terms(draw: st.DrawFn, low: int, high: int) -> str:
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    step = draw(st.sampled_from(["", "/1", "/7"]))
    return draw(st.sampled_from(["*" + step, str(first), f"{first}-{last}{step}"]))


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    return st.lists(terms(low, high), min_size=1, max_size=3).map(",".join)


@given(
    when=st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 7)),
    blanks=st.lists(BLANKS, min_size=7, max_size=7),
    shell=SHELL,
    stdin=STDIN,
)
def test_what_is_printed_is_read(when: tuple[str, ...], blanks: list[str], shell: str, stdin: str | None) -> None:
    """A line that says a schedule, a user, a command and its input is read as just these."""
    assume(stdin is None or "\\\n" not in stdin + "\n")  # a crontab has no way to write it
    command = re.sub(r"[\\%]", r"\\\g<0>", shell)
    if stdin is not None:
        command += "%" + stdin.replace("%", r"\%").replace("\n", "%")
    parts = ["", *when, "alice", command]
    line = blanks[0] + "".join(part + blank for part, blank in zip(parts[1:-1], blanks[1:], strict=False)) + parts[-1]
    definition, target = only(line, OF_THE_SYSTEM)
    assert (definition.schedule, target.user, target.shell) == (" ".join(when), "alice", shell)
    assert (target.stdin or "").removesuffix("\n") == (stdin or "").removesuffix("\n")
    check_definition(definition)


@given(
    st.text(st.sampled_from("*0159,-/@# \t%\\=\"'abmon\r\n\0\udcff"), max_size=40),
    st.booleans(),
    st.sampled_from(CrontabDialect),
)
def test_any_text_is_read_or_refused(text: str, system: bool, dialect: CrontabDialect) -> None:
    """Whatever a file holds, it becomes definitions that can be kept or one error."""
    crontab = Crontab(file="x", zone="UTC", owner="alice", system=system, dialect=dialect)
    for entry in read_crontab(text, crontab):
        assert re.match(r"x:\d+\Z", entry.place)
        if isinstance(entry, Moved):
            check_job_id(entry.job_id)
            check_definition(entry.definition)


# What is refused


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("61 * * * * x", "minute"),
        ("5/10 * * * * x", "minute"),
        ("1/2-3 * * * * x", "minute"),
        ("*/0 * * * * x", "minute"),
        ("1, * * * * x", "minute"),
        ("1,,2 * * * * x", "minute"),
        ("*5 * * * * x", "minute"),
        ("** * * * * x", "minute"),
        ("*-5 * * * * x", "minute"),
        ("0~30 * * * * x", "minute"),
        ("H * * * * x", "minute"),
        ("mon * * * * x", "minute"),
        ("22-2 * * * * x", "minute"),
        ("* 24 * * * x", "hour"),
        ("* * 0 * * x", "day of month"),
        ("* * L * * x", "day of month"),
        ("* * 30 2 * x", "day of month"),
        ("* * * 13 * x", "month"),
        ("* * * january * x", "month"),
        ("* * * * 8 x", "day of week"),
        ("* * * * ? x", "day of week"),
        ("* * * * Sunday x", "day of week"),
        ("* * * * fri-mon x", "day of week"),
        ("* * * * mon#2 x", "day of week"),
        ("@Daily x", "schedule"),
        ("@every 5m x", "schedule"),
        ("@ x", "schedule"),
        ("foo", "line"),
        ("every 5 minutes", "line"),
        ("* * * *", "line"),
        ("A B=c", "line"),
        ("A='x' y", "value"),
        ("A='x", "value"),
        ("=x", "name"),
        ("''=x", "name"),
        ("CRON_TZ=Mars/Base", "CRON_TZ"),
        ("* * * * *", "command"),
        ("* * * * * \t", "command"),
        ("* * * * * %x", "command"),
        ("@daily", "command"),
        ("* * * * * * x", "command"),
        ("* * * * * a\0b", "line"),
        ("* * * * * a\udcffb", "line"),
    ],
)
def test_a_bad_line_is_named(line: str, field: str) -> None:
    """The message names file, line and field, and says what is allowed."""
    (fault,) = faults(f"# one\n@daily two\n{line}\n@daily four\n")
    assert fault.startswith(f"crontabs/alice:3: {field}: ")
    assert "allowed: " in fault


@pytest.mark.parametrize("rest", ["", "/usr/bin/backup --all", "* x", "-x y"])
def test_a_user_is_needed_in_a_system_crontab(rest: str) -> None:
    """The command of a user's crontab is not taken for a user."""
    (fault,) = faults(f"@daily {rest}", OF_THE_SYSTEM)
    assert fault.startswith("/etc/cron.d/backup:1: user: ")


def test_all_bad_lines_are_named_at_once() -> None:
    """One reading finds everything."""
    found = faults("61 * * * * x\n@daily fine\nCRON_TZ=Nowhere\n* 24 * * * x")
    assert [fault.split(": ")[0] for fault in found] == ["crontabs/alice:1", "crontabs/alice:3", "crontabs/alice:4"]


def test_an_id_does_not_come_from_what_the_command_reads() -> None:
    """A bare percent sign ends the command, and its program with it."""
    assert ids("0 7 * * * cat%one%two") == ["cat"]


@pytest.mark.parametrize(
    ("line", "crontab", "field"),
    [
        ("*/5 * * * * root cd / && run-parts /etc/cron.hourly", OF_ALICE, "begins with the name of a user"),
        ("*/5 * * * * ubuntu /usr/bin/python logger.py", OF_ALICE, "begins with the name of a user"),
        ("00 01 * * * env /usr/local/bin/server_backup", OF_THE_SYSTEM, "is not a user's name"),
        ("00 02 * * * export A=b; run", OF_THE_SYSTEM, "is not a user's name"),
    ],
)
def test_a_crontab_of_the_other_kind_is_noticed(line: str, crontab: Crontab, field: str) -> None:
    """A system crontab's users would be commands, a user's commands would be users; --system is named."""
    (fault,) = faults(line, crontab)
    assert field in fault
    assert "--system" in fault
    assert ids("@daily root -b macro.C") == ["root"], "a program of that name"


def test_options_of_another_cron_are_no_command() -> None:
    """OpenBSD's and FreeBSD's `-n` before a command would be looked for as a program."""
    assert "begins with -" in faults("0 9 * * * -n rpki-client -v")[0]


def test_a_zone_for_commands_is_told_where_it_is_not_that_of_the_schedule() -> None:
    """TZ looks as if it moved the schedule, and no cron does that."""
    (told,) = jobs("TZ=UTC\n15 4 * * * run")[0].warnings
    assert "the schedule is in Europe/Paris" in told
    assert not jobs("TZ=Europe/Paris\n15 4 * * * run")[0].warnings


def test_programs_of_containers_pass_their_path_on() -> None:
    """supercronic and busybox have no PATH of their own: /usr/bin:/bin would find no program of an image."""
    for dialect in (CrontabDialect.SUPERCRONIC, CrontabDialect.BUSYBOX):
        assert "PATH" not in only("@daily run", replace(OF_ALICE, dialect=dialect))[1].env
    assert "PATH" in only("@daily run")[1].env


def test_supercronic_takes_a_step_from_a_number() -> None:
    """`5/15` is 5, 20, 35, 50 there; other crons refuse it."""
    supercronic = replace(OF_ALICE, dialect=CrontabDialect.SUPERCRONIC)
    assert only("5/15 * * * * run", supercronic)[0].schedule == "5/15 * * * *"
    assert faults("5/15 * * * * run")
