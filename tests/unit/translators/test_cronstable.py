"""Jobs of cronstable and yacron."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.translators.entries import only, said, why_refused
from tokimori.clock import from_datetime, to_datetime
from tokimori.errors import InvalidFile
from tokimori.formats.importing import text_of
from tokimori.model.job import schedule_of
from tokimori.translators.cronstable import Cronstable, read_cronstable
from tokimori.translators.entries import Entry, Inactive, Moved, Refused, Unread

WHOLE = """\
defaults:
  shell: /bin/bash
  environment:
    - {key: ALL, value: 5}
  onFailure:
    retry: {maximumRetries: 3, initialDelay: 10, maximumDelay: 60, backoffMultiplier: 1.5}
  timezone: Europe/Berlin
web:
  listen: ["http://127.0.0.1:8080"]
jobs:
  - name: nightly report
    command: |
      make report
    schedule: "*/5 2 * * mon-fri"
    environment:
      - {key: ONE, value: yes}
    concurrencyPolicy: Forbid
    executionTimeout: 60.5
    killTimeout: 5
    user: www-data
    workingDirectory: /srv
    onMissed: run-once
    startingDeadlineSeconds: 600
    captureStdout: true
    captureStderr: false
    failsWhen: {producesStdout: false, producesStderr: true, nonzeroReturn: true}
    onFailure:
      retry: {maximumRetries: -1}
      report: {mail: {from: a@example.org, to: b@example.org, password: {value: hunter2}}}
  - name: plain
    command: [echo, "a b"]
    schedule: {minute: 5, dayOfWeek: 7}
    utc: false
    timezone:
    concurrencyPolicy: Replace
    enabled: no
    statsd: {prefix: x, host: h, port: 1}
"""


def read(text: str, **files: str) -> list[Entry]:
    """The entries of a file; `files` are others, by name."""
    terms = Cronstable("jobs.yaml", "UTC", lambda: "Asia/Tokyo", lambda name: files[name.partition(".")[0]])
    return list(read_cronstable(text, terms))


def a_job(*lines: str) -> list[Entry]:
    """The entries of one job with these lines beside its name."""
    return read("jobs:\n- name: a\n" + "".join(f"  {line}\n" for line in lines))


def timed(schedule: str) -> Moved:
    """The job with this schedule."""
    return only(a_job("command: x", f"schedule: {schedule}"))


def test_a_whole_file() -> None:
    """Defaults are merged field by field, lists put one behind the other, and texts are what they look like."""
    web, first, second = read(WHOLE)
    assert web == Inactive("jobs.yaml:8", "web: it is no job, and is not moved")
    assert isinstance(first, Moved)
    assert isinstance(second, Moved)
    assert (first.place, first.job_id, second.job_id) == ("jobs.yaml:11", "nightly_report", "plain")
    assert said(first) == {
        "name": "nightly report",
        "command": "make report\n",
        "shell_path": "/bin/bash",
        "env": {"ALL": "5", "ONE": "yes"},
        "user": "www-data",
        "cwd": "/srv",
        "schedule": "*/5 2 * * mon-fri",
        "time_zone": "Europe/Berlin",
        "gap": "later",
        "grace": 600.0,
        "max_running": 1,
        "timeout": 60.5,
        "timeout_grace": 5.0,
        "retry": {"attempts": 1_000_000, "delay": 10.0, "cap": 60.0, "backoff": 1.5},
    }
    fields = said(second)
    assert (fields["schedule"], fields["time_zone"], fields["command"]) == ("5 * * * 7", "Asia/Tokyo", ("echo", "a b"))
    assert (fields["on_overlap"], second.start.paused_because) == ("replace", "disabled in cronstable")


def test_what_has_no_equal_is_told() -> None:
    """With its path and its value, and nothing else is."""
    first, second = (each.warnings for each in read(WHOLE) if isinstance(each, Moved))
    assert "hunter2" not in "".join(first)
    assert sorted(each.partition(":")[0] for each in first) == [
        "captureStderr",
        "failsWhen.producesStderr",
        "onFailure.report",
    ]
    assert [each.partition(":")[0] for each in second] == ["statsd.prefix", "statsd.host", "statsd.port"]


def test_files_that_are_included_bring_jobs_and_defaults() -> None:
    """Those of the file itself come first; what includes itself is refused."""
    inner = "defaults: {shell: /bin/zsh, user: ann}\njobs: [{name: b, command: y, schedule: '@daily'}]\n"
    outer = "include: [inner.yaml]\ndefaults: {user: bob}\njobs: [{name: a, command: x, schedule: '@daily'}]\n"
    second, first = (each for each in read(outer, inner=inner) if isinstance(each, Moved))
    assert (second.place, said(second)["user"], said(second)["shell_path"]) == ("inner.yaml:2", "ann", "/bin/zsh")
    assert (said(first)["user"], said(first)["shell_path"]) == ("bob", "/bin/zsh")
    with pytest.raises(InvalidFile, match="include"):
        read("include: [jobs.yaml]", jobs="include: [jobs.yaml]")


@pytest.mark.parametrize(("inner", "why"), [(None, "can't be read"), ("jobs: [", "inner.yaml:")])
def test_an_included_file_that_can_not_be_read_is_refused_alone(tmp_path: Path, inner: str | None, why: str) -> None:
    """The jobs of the file itself are there, for `--skip-refused`; it is told where, and that defaults are missing."""
    if inner is not None:
        (tmp_path / "inner.yaml").write_text(inner)
    text = "include:\n- inner.yaml\njobs: [{name: a, command: x, schedule: '@daily'}]\n"
    terms = Cronstable("jobs.yaml", other=lambda name: text_of(str(tmp_path / name)))
    refused, job = read_cronstable(text, terms)
    assert isinstance(refused, Unread)
    assert isinstance(job, Moved)
    assert refused.place.startswith("jobs.yaml:")
    assert "its jobs and defaults are missing" in refused.why
    assert why in refused.why


def test_variables_of_a_file() -> None:
    """They stand before those of the job, and come from no file over HTTP."""
    lines = ("command: x", "schedule: '@daily'", "env_file: vars.env", "environment: [{key: A, value: own}]")
    text = "jobs:\n- name: a\n" + "".join(f"  {line}\n" for line in lines)
    assert said(only(read(text, vars="A=1\nB=2\n")))["env"] == {"A": "own", "B": "2"}
    assert "env_file" in why_refused(read_cronstable(text, Cronstable("text")))


MOMENTS = [
    ("'0 0 13 * 5'", "2026-02-13 00:00:00"),
    ("'0 0 1-7 * mon'", "2026-01-05 00:00:00"),
    ("'0 0 1 1 * 2031'", "2031-01-01 00:00:00"),
    ("'30 0 9 * * * *'", "2026-01-01 09:00:30"),
    ("'30 0 9 13 * fri 2027'", "2027-08-13 09:00:30"),
    ("'0 9 * * L5'", "2026-01-30 09:00:00"),
    ("'0 9 L * *'", "2026-01-31 09:00:00"),
    ("'0 9 * * 5#2'", "2026-01-09 09:00:00"),
    ("'0 9 ? * sat-sun'", "2026-01-03 09:00:00"),
    ("'0 9 2-31 * 6-0'", "2026-01-03 09:00:00"),
    ("{hour: 3, minute: 0, dayOfMonth: 2}", "2026-01-02 03:00:00"),
    ("{minute: 0, hour: 0, month: 2, year: 2028, dayOfMonth: 29}", "2028-02-29 00:00:00"),
    ("'@weekly'", "2026-01-04 00:00:00"),
]


@pytest.mark.parametrize(("text", "expected"), MOMENTS)
def test_a_schedule_names_the_same_moments(text: str, expected: str) -> None:
    """A day of the month and a weekday must both match; a sixth field is a year, a seventh means seconds before."""
    schedule = schedule_of(timed(text).definition, from_datetime(datetime(2026, 1, 1, tzinfo=UTC)))
    found = schedule.next_after(from_datetime(datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)))
    assert found is not None
    assert f"{to_datetime(found):%Y-%m-%d %H:%M:%S}" == expected


def test_a_start_of_the_program_is_told() -> None:
    """Here it is that of the machine, and not before the next one."""
    job = timed("'@reboot'")
    assert (said(job)["schedule"], said(job)["misfire"]) == ("@reboot", "skip")
    assert "at each boot of the machine" in job.warnings[0]


REFUSED = {
    "command: x": "schedule: None is not allowed",
    "schedule: '@daily'": "command: None is not allowed",
    "{command: x, schedule: '* * *'}": "schedule: '* * *' is not allowed",
    "{command: x, schedule: '61 * * * *'}": "minute",
    "{command: x, schedule: {fortnight: 5}}": "schedule.fortnight",
    "{command: x, schedule: '0 0 13 * L5'}": "which both must match",
    "{command: x, schedule: '@daily', timezone: Mars}": "Mars",
    "{command: x, schedule: '@daily', concurrencyPolicy: Maybe}": "Allow, Forbid, Replace",
    "{command: x, schedule: '@daily', utc: perhaps}": "true or false",
    "{command: x, schedule: '@daily', executionTimeout: soon}": "a number",
    "{command: x, schedule: '@daily', environment: [A=1]}": "a list of key and value",
    "{command: x, schedule: '@daily', environment: {A: 1}}": "a list of key and value",
    "{command: [], schedule: '@daily'}": "a list of words",
    "{command: x, schedule: '@daily', onFailure: none}": "onFailure",
}


@pytest.mark.parametrize("job", REFUSED)
def test_what_can_not_be_moved_is_refused(job: str) -> None:
    """Alone, with its line: jobs beside it come."""
    named = f"{{name: a, {job.removeprefix('{').removesuffix('}')}}}"
    first, second = read(f"jobs:\n- {{name: ok, command: x, schedule: '@daily'}}\n- {named}\n")
    assert isinstance(first, Moved)
    assert isinstance(second, Refused)
    assert second.place == "jobs.yaml:3"
    assert REFUSED[job] in second.why


@pytest.mark.parametrize(
    "text", ["jobs: 5", "- a", "jobs: [5]", "a: b: c", "jobs:\n- name: a\n  name: b\n", "defaults: 5"]
)
def test_what_is_no_such_file_is_refused_whole(text: str) -> None:
    """With its line, where there is one."""
    try:
        found = read(text)
    except InvalidFile as fault:
        assert fault.message
    else:
        assert all(isinstance(each, Refused | Inactive) for each in found)


@pytest.mark.parametrize(
    ("fields", "schedule"),
    [
        ("{second: '*/15', minute: '*'}", "*/15 * * * * * *"),
        ("{second: '0', minute: '5'}", "5 * * * *"),
        ("{second: '30', minute: '5', year: '2030'}", "30 5 * * * * 2030"),
    ],
)
def test_seconds_of_a_schedule_in_fields(fields: str, schedule: str) -> None:
    """They are a field of their own there, as they are the first of seven in a text."""
    assert timed(fields).definition.schedule == schedule


def test_a_job_that_ran_on_each_node_is_told() -> None:
    """Here one node runs it, as with a leader there, which is no news."""
    (warning,) = only(a_job("command: x", "schedule: '@daily'", "clusterPolicy: EveryNode")).warnings
    assert "there each node runs it, here one of them" in warning
    for policy in ("Leader", "PreferLeader"):
        assert not only(a_job("command: x", "schedule: '@daily'", f"clusterPolicy: {policy}")).warnings
