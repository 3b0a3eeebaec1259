"""The program at a terminal: it asks, opens editors, and shows what files and programs get otherwise."""

from pathlib import Path

from tests.integration.cli.conftest import Program
from tests.integration.cli.terminal import Session, at_a_terminal
from tests.programs.forked import PROGRAM


def editor(program: Program, *steps: str) -> dict[str, str]:
    """An editor that does these steps of shell with the file $1, one each time that it is opened."""
    script = program.home / "editor"
    (program.home / "editor.n").unlink(missing_ok=True)
    cases = "\n".join(f"{number}) {step} ;;" for number, step in enumerate(steps, 1))
    script.write_text(
        f"#!/bin/sh\nn=$(cat {script}.n 2>/dev/null || echo 0); n=$((n+1)); echo $n > {script}.n\n"
        f'cp "$1" {script}.seen.$n\ncase $n in\n{cases}\nesac\n'
    )
    script.chmod(0o700)
    return {"VISUAL": str(script)}


def seen(program: Program, number: int) -> str:
    """The text that the editor was given."""
    return (program.home / f"editor.seen.{number}").read_text()


def test_a_job_is_edited_as_a_text(program: Program) -> None:
    """The diff is shown and somebody asked; a wrong text goes back with its fault; saved is all or nothing."""
    program("job", "add", "j", "--command", "make report", "--schedule", "@daily")
    wrong, right = (f"sed -i 's/@[a-z]*/{word}/' \"$1\"" for word in ("@dayly", "@hourly"))
    session = Session(program, "job", "edit", "j", more=editor(program, wrong, right))
    session.until("Change this job? [y/N]")
    session.type("y\n")
    code, shown = session.end()
    assert (code, program.json("job", "show", "j")["schedule"]) == (0, "@hourly")
    assert '-schedule = "@daily"' in shown
    assert '\x1b[32m+schedule = "@hourly"' in shown
    assert "updated j: enabled" in shown
    assert '\nschedule = "@dayly"\n#! ' in seen(program, 2)
    assert "#! " not in seen(program, 1)


def test_nothing_is_saved_without_a_yes(program: Program) -> None:
    """No is the answer by default; a text that was left as it is, and an editor that fails, change nothing."""
    program("job", "add", "j", "--noop")
    change = 'echo \'owner = "ada"\' >> "$1"'
    before = program.contents()
    assert at_a_terminal(program, "job", "modify", "j", typed="\n", more=editor(program, change))[0] == 1
    code, shown = at_a_terminal(program, "job", "edit", "j", more=editor(program, "true"))
    assert (code, "nothing was changed" in shown) == (0, True)
    code, shown = at_a_terminal(program, "job", "edit", "j", more={"VISUAL": "false"})
    assert (code, "ended with 1" in shown) == (2, True)
    code, shown = at_a_terminal(program, "job", "edit", "j", more={"VISUAL": "/no/such/editor"})
    assert (code, "VISUAL or EDITOR" in shown) == (2, True)
    assert program.contents() == before


def test_who_was_faster_is_not_overwritten(program: Program) -> None:
    """Somebody else changes the job while the editor is open: it is refused, and the text is kept."""
    program("job", "add", "j", "--noop")
    store = program.environment["TOKIMORI_STORE"]
    meanwhile = f'{PROGRAM} --store {store} job update j --owner bob >/dev/null; echo \'name = "x"\' >> "$1"'
    code, shown = at_a_terminal(program, "job", "edit", "j", typed="y\n", more=editor(program, meanwhile))
    assert (code, "Somebody changed it since you opened it." in shown, "allowed" in shown) == (4, True, False)
    job = program.json("job", "show", "j")
    assert (job["owner"], job.get("name")) == ("bob", None)
    kept = Path("".join(shown.partition("Your text is in ")[2].split()).partition(".Nothing")[0])
    assert 'name = "x"' in kept.read_text()
    kept.unlink()


def test_a_job_is_added_as_a_text(program: Program) -> None:
    """With what the line says already; without an editor an id is missed."""
    name = 'echo \'name = "Night"\' >> "$1"'
    typed = ("job", "add", "-e", "night", "--noop")
    assert at_a_terminal(program, *typed, typed="y\n", more=editor(program, name))[0] == 0
    job = program.json("job", "show", "night")
    assert (job["noop"], job["name"]) == (True, "Night")
    assert at_a_terminal(program, *typed, typed="y\n", more=editor(program, name, name))[0] == 2
    assert program.error("job", "add", "--noop")["message"].startswith("Missing argument 'ID'")


def test_an_hour_from_now_stands_as_a_moment_in_the_text(program: Program) -> None:
    """A length means nothing where a text is read later; and a text that is not UTF-8 is not lost."""
    typed = ("job", "add", "-e", "late", "--noop", "--starts-at", "1h")
    latin = "printf '# caf\\351\\n' >> \"$1\""
    code, shown = at_a_terminal(program, *typed, more=editor(program, latin))
    assert (code, "the text can't be read" in shown) == (2, True)
    assert 'starts_at = "20' in seen(program, 1)
    kept = Path("".join(shown.partition("it is in ")[2].split()).partition("allowed:")[0])
    assert kept.read_bytes().endswith(b"caf\xe9\n")
    kept.unlink()


def test_bulk_orders_ask_first(program: Program) -> None:
    """What matches is named; only a yes carries it out."""
    for job in ("etl-a", "etl-b", "web"):
        program("job", "add", job, "--noop")
    code, shown = at_a_terminal(program, "job", "pause", "etl-*", typed="\n")
    assert (code, "2 jobs: etl-a, etl-b" in shown) == (1, True)
    assert {job["state"] for job in program.json("job", "list")} == {"enabled"}
    assert at_a_terminal(program, "job", "pause", "etl-*", typed="y\n")[0] == 0
    assert [job["state"] for job in program.json("job", "list")] == ["paused", "paused", "enabled"]


def test_states_have_signs_and_colours(program: Program) -> None:
    """NO_COLOR takes the colours away, --plain the signs, too, and --wide tells whole times."""
    program("job", "add", "j", "--noop", "--schedule", "@daily")
    _, coloured = at_a_terminal(program, "job", "list")
    assert "\x1b[32m✓ enabled" in coloured
    assert "in " in coloured
    _, grey = at_a_terminal(program, "job", "list", more={"NO_COLOR": "1"})
    assert "✓ enabled" in grey
    assert "\x1b[32m" not in grey
    _, plain = at_a_terminal(program, "job", "list", "--plain")
    assert "✓" not in plain
    assert "\x1b[3" not in plain
    _, wide = at_a_terminal(program, "job", "list", "--wide")
    assert "00:00:00+00:00" in wide


def test_runs_are_watched(program: Program) -> None:
    """The list is drawn anew in its place, with what has changed, until Ctrl-C."""
    program("job", "add", "j", "--noop")
    run = program.json("job", "trigger", "j")["id"]
    session = Session(program, "run", "list", "--watch")
    session.until("ready")
    program("run", "cancel", run)
    session.until("cancelled")
    session.interrupt()
    assert session.end()[0] == 130


def test_what_runs_is_seen_and_ordered_by_keys(served: Program) -> None:
    """The run is there with its node, c and y cancel it, and q gives the terminal back."""
    served("job", "add", "long", "--command", "echo working; exec sleep 100")
    run = served.json("job", "trigger", "long")["id"]
    session = Session(served, "top", columns=120)
    session.until("1 running run\x1b")
    session.type("f")
    session.until("working")
    session.type("c")
    session.until(f"cancel run {run}? [y/N]")
    session.type("y")
    session.until("0 running runs")
    session.type("q")
    code, shown = session.end()
    assert (code, shown.endswith("\x1b[?25h\x1b[?1049l")) == (0, True)
    assert served.json("run", "show", run)["state"] == "cancelled"


def test_top_has_the_views_of_the_page(served: Program) -> None:
    """Keys lead from one to the next, filter, sort and search; a new size is drawn at once; Ctrl-C gives all back."""
    served("job", "add", "noisy", "--command", "for i in 1 2 3 4; do echo line $i; done; exit 7")
    assert served.run("job", "trigger", "noisy", "--wait").returncode == 1
    session = Session(served, "top", more={"NO_COLOR": "1"})
    for typed, seen in (
        ("", "needs you"),
        ("2", "LAST RUNS"),
        ("/noi\r", "filter 'noi'"),
        ("ss", "by STATE"),
        ("f", ": 4 lines, at its end"),
        ("/LINE 3\r", "match 1 of 1"),
        ("3", "1 failure of 24 hours"),
        ("4", "0 firings in 24 hours"),
        ("?", "Each order is asked about first."),
    ):
        session.type(typed)
        session.until(seen)
    session.resize(rows=12, columns=30)
    session.until("[4 plan]  1-4")
    session.interrupt()
    code, shown = session.end()
    assert (code, "\x1b[?25h\x1b[?1049l" in shown) == (130, True)
    assert "\x1b[3" not in shown


def test_it_is_seen_how_far_a_check_is(program: Program) -> None:
    """On the terminal, beside the answer."""
    program("job", "add", "j", "--noop", "--schedule", "@daily")
    code, shown = at_a_terminal(program, "verify")
    assert code == 0
    assert "0 occurrences" in shown
    assert "all of them fit" in shown


def test_a_wrong_text_comes_to_an_end_and_stays(program: Program) -> None:
    """An editor that writes the same wrong text again is not opened for ever; what was written is kept."""
    wrong = 'printf \'id = "j"\\nfoo = 1\\n\' > "$1"'
    environment = editor(program, wrong, wrong, wrong) | {"TMPDIR": str(program.home)}
    code, shown = at_a_terminal(program, "job", "add", "-e", more=environment)
    assert (code, shown.count("foo: a job has no such field"), "Nothing was changed." in shown) == (2, 1, True)
    assert [each.read_text() for each in program.home.glob("tokimori-*.toml")] == ['id = "j"\nfoo = 1\n']
    assert "The text is still wrong. It is in" in shown
    assert not (program.home / "editor.seen.3").exists()
