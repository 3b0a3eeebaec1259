"""A dead man's switch on the command line."""

from tests.integration.cli.conftest import Program


def test_what_runs_elsewhere_reports(program: Program) -> None:
    """It is expected, reports with what it wrote, fails, and is expected no more."""
    program("expect", "backup", "--within", "25h", "--description", "the office")
    assert program("alarms").split() == ["ALARM", "OF", "NAME", "SINCE", "EXPECTED", "BY", "LAST", "GOOD", "END", "LOG"]
    known = program.json("ping", "backup", "--log", "12 GB")
    assert (known["within"], known["log"], known["description"]) == (90_000, "12 GB", "the office")
    assert program.json("ping", "backup", "--start")["last_good"] == known["last_good"]
    assert "has failed" in program("ping", "backup", "--fail")
    assert program.json("expect", "backup", "--within", "1209601")["description"] == "the office"
    told = program("expect")
    assert ("1209601 s" in told, "the office" in told) == (True, True)
    assert program.json("expect", "backup", "--description", "the new office")["within"] == 1_209_601
    assert program("expect", "backup", "--never") == "nothing is expected of backup any more\n"
    assert program.json("expect") == []


def test_what_is_wrong_is_named(program: Program) -> None:
    """A name that nobody expects, and a time that is none."""
    program("expect", "backup", "--within", "60")
    missing = program.error("ping", "bakcup", code=3)
    assert (missing["field"], "tokimori expect bakcup" in missing["message"]) == ("name", True)
    assert program.error("expect", "backup", "--within", "0")["field"] == "within"
    assert "Give --never alone." in program.error("expect", "backup", "--never", "--description", "x")["message"]
    assert program.error("expect", "a b", "--within", "60")["field"] == "name"
    assert "--start or --fail" in program.error("ping", "backup", "--fail", "--start")["message"]


def test_a_job_says_itself_what_is_expected(program: Program) -> None:
    """It is listed with all others, and is changed as a job is."""
    program("job", "add", "j", "--noop", "--expect-within", "1h")
    (known,) = program.json("expect")
    assert (known["name"], known["of_job"], known["within"]) == ("j", True, 3600)
    assert program.json("job", "show", "j")["expect_within"] == 3600
    assert "job update j --expect-within" in program.error("expect", "j", "--within", "60")["message"]
