"""Jobs written as crontabs, judged by what a crontab's reader finds in them."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_job
from tests.unit.schedules.texts import crons
from tokimori.errors import InvalidInput
from tokimori.model.checks import check_definition
from tokimori.model.ids import JobId
from tokimori.model.job import Definition, Job, JobState, schedule_of
from tokimori.model.policies import Misfire, Retry
from tokimori.model.target import Command, Noop
from tokimori.schedules.schedule import Gap, next_moments
from tokimori.translators.crontab import Crontab, CrontabDialect, read_crontab
from tokimori.translators.crontab_export import write_crontab
from tokimori.translators.entries import Entry, Moved

ZONE = "Europe/Paris"


def command(shell: str | None = "run", **fields: object) -> Command:
    return Command(shell=shell, **fields)  # type: ignore[arg-type]


def job(job_id: str = "j", schedule: str | None = "0 9 * * *", target: Command | None = None, **terms: object) -> Job:
    """A job in the zone of the machine, unless it says another."""
    given: dict[str, object] = {"time_zone": ZONE, "target": target or command(), "schedule": schedule, **terms}
    return a_job(Definition(**given), id=JobId(job_id))  # type: ignore[arg-type]


def lines(*jobs: Job, system: bool = False) -> list[str]:
    """What is written, but for comments and empty lines."""
    text = write_crontab(jobs, zone=ZONE, system=system).text
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def read_back(text: str, *, system: bool = False) -> list[tuple[Definition, Command]]:
    crontab = Crontab(file="export", zone=ZONE, owner="ada", system=system, dialect=CrontabDialect.DEBIAN)
    found = []
    for each in read_crontab(text, crontab):
        assert isinstance(each, Moved)
        assert isinstance(each.definition.target, Command)
        found.append((each.definition, each.definition.target))
    return found


# Lines

LINES: list[tuple[Job, list[str]]] = [
    (job(), ["0 9 * * * run"]),
    (job(schedule="0 9 * * mon-fri"), ["0 9 * * mon-fri run"]),
    (job(schedule="@daily"), ["@daily run"]),
    (job(schedule="@reboot"), ["@reboot run"]),
    (job(schedule="0 30 9 * * *"), ["30 9 * * * run"]),
    (job(schedule="0 22-2 * * *"), ["0 0-2,22,23 * * * run"]),
    (job(schedule="5/15 * * * *"), ["5,20,35,50 * * * * run"]),
    (job(schedule="0 0 ? * 5"), ["0 0 * * 5 run"]),
    (job(schedule="*/*/13 9:30 (*)"), ["30 9 13 * * run"]),
    (job(schedule="on friday at 10:00PM"), ["0 22 * * 5 run"]),
    (job(schedule="every day at 02:30"), ["30 2 * * * run"]),
    (job(target=command("date +%F | x '100%'")), [r"0 9 * * * date +\%F | x '100\%'"]),
    (job(target=command(r"a\b c\\d \%e f\ ")), [r"0 9 * * * a\b c\\\\d \\\%e f\ "]),
    (job(target=command("cat", stdin="one\n100 %\n")), [r"0 9 * * * cat%one%100 \%"]),
    (job(target=command(None, argv=("ls", "-l", "a b"))), ["0 9 * * * ls -l 'a b'"]),
    (job(target=command("a; b", cwd="/my files")), ["0 9 * * * cd '/my files' || exit; a; b"]),
    (job(target=command(shell_path="/bin/bash")), ["SHELL=/bin/bash", "0 9 * * * run"]),
    (job(target=command(env={"A": " x", "B": '"'})), ['A=" x"', "B='\"'", "0 9 * * * run"]),
    (job(mailto="ops"), ["MAILTO=ops", "0 9 * * * run"]),
    (job(time_zone="Asia/Tokyo"), ["CRON_TZ=Asia/Tokyo", "0 9 * * * run"]),
]


@pytest.mark.parametrize(("written", "expected"), LINES)
def test_a_job_becomes_a_line(written: Job, expected: list[str]) -> None:
    """With the settings above it that it needs, as typed where cron understands that."""
    assert lines(written) == expected


LEFT_OUT: list[tuple[Job, str]] = [
    (job(schedule=None), "it has no schedule"),
    (job(schedule="every 5 minutes"), "'every 5 minutes' can't be written in five fields"),
    (job(schedule="R/2030-01-01T00:00:00Z/P1D"), "'R/2030-01-01T00:00:00Z/P1D' can't be written in five fields"),
    (job(schedule="at 2030-06-01T00:00:00Z"), "'at 2030-06-01T00:00:00Z' can't be written in five fields"),
    (job(schedule="0 9 * * *; 0 12 * * 0"), "'0 9 * * *; 0 12 * * 0' can't be written in five fields"),
    (job(schedule="0 0 L * *"), "'0 0 L * *' can't be written in five fields"),
    (job(schedule="0 0 * * fri#2"), "'0 0 * * fri#2' can't be written in five fields"),
    (job(schedule="*/10 * * * * *"), "'*/10 * * * * *' can't be written in five fields"),
    (job(schedule="0 0 9 1 1 * 2031"), "'0 0 9 1 1 * 2031' can't be written in five fields"),
    (replace(job(calendars=("off", "b")), days_off="{}"), "cron can't leave out the days of calendars (off, b)"),
    (
        job(ends_at="2031-01-01T00:00:00Z"),
        "cron can't keep to a moment from which or until which it runs (starts_at, ends_at)",
    ),
    (job(target=command(user="bob")), "it runs as bob, which only a system crontab can express (--system)"),
    (job(target=command("a\nb")), "its command has more than one line"),
    (job(target=command("cat", stdin="no end of line")), "a crontab can't hold its command or its environment"),
    (job(target=command("* x")), "a crontab can't hold its command or its environment"),
    (job(target=command(env={"A": "x\ny"})), "a crontab can't hold its command or its environment"),
    (job(target=command(env={"A": " '\""})), "a crontab can't hold its command or its environment"),
    (
        job(target=command(shell_path="/usr/bin/python3", cwd="/")),
        "its shell, /usr/bin/python3, is not known to run such a line",
    ),
]


@pytest.mark.parametrize(("written", "reason"), LEFT_OUT)
def test_what_can_not_be_said_is_a_comment(written: Job, reason: str) -> None:
    """With its id and the reason; there is no line that would do something else."""
    exported = write_crontab([written], zone=ZONE)
    assert exported.left_out == {"j": reason}
    assert f"# j is left out: {reason}\n" in exported.text
    assert lines(written) == []


def test_jobs_that_do_not_run_are_comments() -> None:
    """Paused ones with their reason, on one line whatever that holds; and those that run nothing."""
    paused = a_job(job().definition, id=JobId("p"), state=JobState.PAUSED, reason="broken\n* * * * * evil")
    noop = a_job(Definition(target=Noop(), schedule="@daily"), id=JobId("n"))
    exported = write_crontab([paused, noop], zone=ZONE)
    assert exported.left_out == {"p": "it is paused (broken\n* * * * * evil)", "n": "it runs no command"}
    assert lines(paused, noop) == []


def test_terms_that_cron_does_not_know_are_named() -> None:
    """Beside each job, under its id and what it is for; cron's own ways are no loss."""
    known = job("known", name="Nightly", misfire=Misfire.SKIP, max_running=0)
    more = job("more", retry=Retry(attempts=3), timeout=5, gap=Gap.SKIP, max_running=1, description="a\nb")
    text = write_crontab([known, more], zone=ZONE).text
    assert "# known: Nightly\n" in text
    assert "# more: a b (not in cron: gap, max_running, retry, timeout)\n" in text
    later = write_crontab([job("late", gap=Gap.LATER, max_running=0, misfire=Misfire.SKIP)], zone=ZONE).text
    assert "# late (not in cron: gap)\n" in later


def test_a_system_crontab_names_users() -> None:
    """A job without one can't stand there."""
    bob, nobody = job("b", target=command(user="bob")), job("n")
    assert lines(bob, nobody, system=True) == ["0 9 * * * bob run"]
    assert write_crontab([nobody], zone=ZONE, system=True).left_out == {
        "n": "it names no user, as each line of a system crontab must"
    }


def test_settings_hold_for_the_jobs_that_have_them() -> None:
    """Those with fewer come first; a variable of an earlier job is unset, other settings are set back."""
    jobs = [
        job("b", target=command("b", env={"B": "2"})),
        job("tokyo", target=command("tokyo"), time_zone="Asia/Tokyo"),
        job("a", target=command("a", env={"A": "1"})),
        job("mail", target=command("mail"), mailto="ops"),
        job("plain", target=command("plain")),
        job("path", target=command("path", env={"PATH": "/opt/bin"})),
    ]
    assert lines(*jobs) == [
        "0 9 * * * plain",
        "MAILTO=ops",
        "0 9 * * * mail",
        "PATH=/opt/bin",
        'MAILTO=""',
        "0 9 * * * path",
        "PATH=/usr/bin:/bin",
        "CRON_TZ=Asia/Tokyo",
        "0 9 * * * tokyo",
        "A=1",
        'CRON_TZ=""',
        "0 9 * * * a",
        "B=2",
        "0 9 * * * unset A; b",
    ]


def test_what_can_not_be_unset_keeps_a_job_out() -> None:
    """A program that is no shell must not find the variable of another job."""
    jobs = [
        job("a", target=command(env={"A": "1"})),
        job("python", target=command("print()", shell_path="/usr/bin/python3", env={"B": "1", "C": "2"})),
    ]
    assert write_crontab(jobs, zone=ZONE).left_out == {"python": "a crontab can't hold its command or its environment"}


# The way there and back

CRONTAB = """\
MAILTO=ops@example.org
17 * * * * date +\\%F > /tmp/x
@reboot warm-up
0 9 * * mon-fri mail -s hi ada%Hello,%100\\% of it
X="  spaced "
*/5 * * * * x 'a\\\\\\\\b' \\d
SHELL=/bin/bash
PATH=/opt/bin
30 2 1,15 * 0 late
CRON_TZ=Asia/Tokyo
30 2 * * * tokyo
"""


def zones_of(text: str) -> list[str]:
    """Return the zones that cronie's jobs have, in their order: Debian's cron has one zone."""
    found = read_crontab(text, Crontab(file="export", zone=ZONE, owner="ada", dialect=CrontabDialect.CRONIE))
    return [each.definition.time_zone for each in found if isinstance(each, Moved)]


def test_a_crontab_comes_back_as_it_was() -> None:
    """Imported, exported and imported again: the same schedules, zones, commands, input and environment."""
    crontab = Crontab(file="export", zone=ZONE, owner="ada", dialect=CrontabDialect.DEBIAN)
    before = [each for each in read_crontab(CRONTAB, crontab) if isinstance(each, Moved)]
    jobs = [
        a_job(replace(each.definition, time_zone=zone), id=JobId(each.job_id))
        for each, zone in zip(before, zones_of(CRONTAB), strict=True)
    ]
    exported = write_crontab(jobs, zone=ZONE)
    assert exported.left_out == {}

    def comparable(entries: Iterable[Entry]) -> set[tuple[object, ...]]:
        found = [each.definition for each in entries if isinstance(each, Moved)]
        return {(each.schedule, each.mailto, str(each.target)) for each in found}

    assert comparable(read_crontab(exported.text, crontab)) == comparable(before)
    assert Counter(zones_of(exported.text)) == Counter(zones_of(CRONTAB)) == {ZONE: len(before) - 1, "Asia/Tokyo": 1}


_words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
_shells = st.one_of(_words, st.text(" \\%a;'*#", min_size=1, max_size=8))
_inputs = st.text(" \\%a\n", max_size=8).map("{}\n".format)
_envs = st.dictionaries(
    st.sampled_from(["A", "B", "PATH", "MAILTO", "TZ", "x-y"]), _words | st.text(" '\"a", max_size=4)
)


@st.composite
def sets_of_jobs(draw: st.DrawFn) -> list[Job]:
    """A few jobs of any schedule that cron could have, any command and any environment."""
    jobs = []
    for n in range(draw(st.integers(1, 4))):
        target = command(draw(_shells), env=draw(_envs), stdin=draw(st.none() | _inputs), cwd=draw(st.none() | _words))
        made = job(f"j{n}", draw(crons), target, time_zone=draw(st.sampled_from([ZONE, "UTC"])))
        try:
            check_definition(made.definition)
        except InvalidInput:
            assume(condition=False)
        jobs.append(made)
    return jobs


@given(sets_of_jobs())
@example([job("j0", target=command("a\\")), job("j1", target=command("%", stdin="\\"))])
def test_what_is_written_is_what_is_read(jobs: list[Job]) -> None:
    """Every job is either a comment or a line that means the same: moments, zone, command, input and variables."""
    exported = write_crontab(jobs, zone=ZONE)
    written = {each.id: each for each in jobs if each.id not in exported.left_out}
    ids = [line[2:4] for line in exported.text.split("\n") if line[:3] == "# j" and " is left out" not in line]
    assert set(ids) == set(written)
    for job_id, (read, target), zone in zip(ids, read_back(exported.text), zones_of(exported.text), strict=True):
        before, definition = written[JobId(job_id)], replace(read, time_zone=zone)
        old = before.definition.target
        assert isinstance(old, Command)
        assert zone == before.definition.time_zone
        moments = [next_moments(schedule_of(each, NEW_YEAR), NEW_YEAR, 5) for each in (definition, before.definition)]
        assert moments[0] == moments[1]
        assert (target.shell or "").endswith(old.shell or "?")
        assert (target.stdin or None) == (old.stdin or None)
        unset = (target.shell or "").partition(";")[0].removeprefix("unset ").split()
        assert {name: target.env[name] for name in old.env} == old.env
        assert {"A", "B", "x-y"} & (target.env.keys() - old.env.keys()) <= set(unset)
