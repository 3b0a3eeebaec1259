"""The keys, the views and the screen of `tokimori top`."""

import io
from collections import Counter

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.unit.cli.conftest import Called
from tests.unit.examples import NEW_YEAR, seconds
from tests.unit.service.world import World
from tokimori.cli.table import At, Short
from tokimori.cli.top_keys import Order, State, Subject, Verb, View, chosen, keys_in, pressed
from tokimori.cli.top_screen import Content, Listing, Measure, Row, screen
from tokimori.cli.top_views import MOST, bar, lane, look
from tokimori.model.attempt_notes import Notes, notes_row
from tokimori.model.outcome import Failed, Succeeded

A, B = Subject("run-a", "job-a"), Subject("run-b", "job-b")
LOG = tuple(f"line {n}" for n in range(1, 31))


@pytest.fixture
def world() -> World:
    """One at the new year of 2030."""
    return World()


def after(
    keys: str, subjects: list[Subject] | None = None, state: State | None = None, log: tuple[str, ...] = LOG
) -> tuple[State, list[Order]]:
    """The state after these keys, and what they have ordered."""
    now, orders = state or State(), list[Order]()
    for key in keys_in(keys):
        now, order = pressed(now, key, [A, B] if subjects is None else subjects, columns=2, log=log)
        orders += [order] if order is not None else []
    return now, orders


def drawn(seen: Content, state: State, width: int = 80, height: int = 24) -> list[str]:
    """The lines of the screen."""
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    return screen(console, seen, state, height).splitlines()


def test_nothing_is_ordered_without_a_yes() -> None:
    """The order is asked about; any other key than y takes it back."""
    assert after("c") == (State(asked=Order(Verb.CANCEL, A)), [])
    assert after("cy") == (State(), [Order(Verb.CANCEL, A)])
    assert after("jpY")[1] == [Order(Verb.PAUSE, B)]
    assert after("pn") == (State(message="nothing was done"), [])
    assert after("cq")[1] == []
    assert (str(Order(Verb.CANCEL, A)), str(Order(Verb.PAUSE, A))) == ("cancel run run-a", "pause job job-a")
    assert [after(f"{key}y")[1][0].verb for key in "tr"] == [Verb.RETRY, Verb.TRIGGER]


def test_a_row_without_a_run_gets_no_order_for_one() -> None:
    """It is said so, as of a run that has ended; in its log orders are for its run."""
    assert after("c", [Subject(None, "job")])[0].message == "cancel: this row has no such run or job"
    assert after("c", [Subject("run", "job", runs=False)])[0].message == "cancel: this run has ended"
    assert after("f", [Subject(None, "job")])[0].message == "this row has no run whose log could be shown"
    assert after("jfcy", [A, B])[1] == [Order(Verb.CANCEL, B)]


def test_keys_move_within_what_is_shown() -> None:
    """Arrows or letters; beyond the ends it stays; where nothing is shown nothing can be chosen."""
    for keys in ("\x1b[B", "\x1bOB", "j", "jjj", "G", " ", "\x1b[6~"):
        assert after(keys)[0].chosen == str(B)
    for keys in ("j\x1b[A", "kkk", "Gg", "j\x1b[5~"):
        assert after(keys)[0].chosen == str(A)
    assert after("jcpft", []) == (State(), [])


def test_who_chose_a_row_that_has_gone_has_the_first_one() -> None:
    """So that a key never orders what is not shown."""
    assert chosen(State(chosen=str(Subject("run-c", "job"))), [A, B]) == A
    assert chosen(State(chosen=str(B)), [A, B]) == B
    assert chosen(State(chosen=str(B)), []) is None


def test_what_is_typed_is_no_order() -> None:
    """A filter is a text until Enter; Esc leaves it as it was, and takes it away afterwards."""
    assert after("/qc1?")[0].typing == "qc1?"
    assert after("/ab\x7fc\r")[0].filter == "ac"
    assert after("/ab\r/x\x1b")[0].filter == "ab"
    assert after("/ab\r\x1b")[0].filter == ""
    assert after("/x\x03")[0].over
    assert (after("q")[0].over, after("?")[0].help, after("?j")[0].help) == (True, True, False)


def test_views_have_numbers_and_forget_what_was_chosen() -> None:
    """1 to 4, and Tab for the next one, after the last the first."""
    assert [after(key)[0].view for key in "1234"] == list(View)
    assert after("\t\t\t")[0].view is View.PLAN
    assert after("4\t")[0] == State()
    assert after("js/x\r2")[0] == State(view=View.JOBS)


def test_a_log_is_searched() -> None:
    """From its end backwards, then on, around; only matches if wanted; what is not there is said."""
    assert after("f")[0] == State(followed=A, chosen=str(A))
    found = after("f/LINE 2\r")[0]
    assert (found.top, found.message) == (28, "match 11 of 11")
    assert after("N", state=found)[0].top == 27
    assert after("n", state=found)[0].top == 1
    assert after("m", state=found)[0].only
    assert after("f/nothing\r")[0].message == "'nothing' is not in this log"
    assert after("fk")[0].top == 19
    assert (after("fgj")[0].top, after("fgG")[0].top, after("f\x1b")[0].followed) == (1, None, None)


def test_rows_are_filtered_and_sorted() -> None:
    """By moments, amounts and texts; empty cells are last, whichever the order."""
    cells: list[tuple[object, ...]] = [
        ("b", At(seconds(9), "UTC")),
        ("A", At(None, "UTC")),
        ("c", At(seconds(1), "UTC")),
    ]
    rows = [Row(Subject(None, str(each[0])), each) for each in cells]
    seen = Content(NEW_YEAR, "0 running runs", tables=[Listing("jobs", ("ID", "NEXT"), rows)])

    def order(**state: object) -> str:
        return "".join(each.job or "" for each in seen.subjects(State(**state)))  # type: ignore[arg-type]

    assert (order(), order(backwards=True), order(sort=0), order(sort=0, backwards=True)) == (
        "bAc",
        "cAb",
        "Abc",
        "cbA",
    )
    assert (order(sort=1), order(sort=1, backwards=True), order(filter="B"), order(filter="?")) == (
        "cbA",
        "bcA",
        "b",
        "",
    )
    amounts = [Row(Subject(None, text), (Measure(text, n),)) for text, n in (("9s", 9), ("1m", 60), ("2s", 2))]
    by = Content(NEW_YEAR, "", tables=[Listing("", ("FOR",), amounts)])
    assert [each.job for each in by.subjects(State(sort=0))] == ["2s", "9s", "1m"]
    assert drawn(seen, State(sort=1, backwards=True, filter="b"))[0].endswith("filter 'b'  by NEXT, backwards")


def test_the_chosen_row_is_always_in_view() -> None:
    """Of more rows than there is room for those around it are shown."""
    rows = [Row(Subject(None, f"job-{n}"), (f"job-{n}",)) for n in range(200)]
    seen = Content(NEW_YEAR, "", tables=[Listing("jobs", ("ID",), rows)])
    lines = drawn(seen, State(chosen=str(rows[150].subject)), height=12)
    assert len(lines) == 12
    assert [line for line in lines if line.startswith(">")] == [">  job-150"]
    assert any(line.startswith("jobs (") and line.endswith(" of 200)") for line in lines)


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 12), (20, 5)])
async def test_each_view_fits_the_terminal(world: World, size: tuple[int, int]) -> None:
    """Whatever there is: no line is wider, there are no more lines, and nothing controls the terminal."""
    hostile = "j" * 250
    await world.service.jobs.add(hostile, noop=True, schedule="@hourly", max_running=0)
    await world.service.jobs.add("bad", command="\x1b[2Jfalse", schedule="every 1 minutes")
    for _ in range(30):
        await world.service.jobs.trigger(hostile)
    await world.service.jobs.trigger("bad")
    for _ in range(4):
        await world.work(Failed("no\x1b[2J good"), Succeeded())
    await world.begin(20)
    width, height = size
    for state in [State(view=view) for view in View] + [State(help=True), State(typing="x" * 300)]:
        seen = await look(world.service, state)
        for each in (state, State(view=state.view, asked=Order(Verb.CANCEL, Subject("r" * 36, "j")))):
            lines = drawn(seen, each, width, height)
            assert len(lines) == height
            assert max(map(cell_len, lines)) <= width
            assert "\x1b" not in "".join(lines)
    assert (
        drawn(await look(world.service, State()), State(asked=Order(Verb.CANCEL, A)))[-1] == "cancel run run-a? [y/N]"
    )


async def test_views_show_what_the_page_shows(world: World) -> None:
    """What needs somebody and what runs; jobs with their runs; failures by cause; a lane for each job that fires."""
    await world.service.jobs.add("etl", command="false", schedule="every 1 hours")
    await world.service.jobs.trigger("etl")
    await world.work(Failed("connection refused", exit_code=1))
    world.pass_seconds(1)
    await world.service.jobs.trigger("etl")
    await world.begin(1)
    world.pass_seconds(1)
    now = "\n".join(drawn(await look(world.service, State()), State()))
    assert "1 running run · 0 ready · 0 blocked · 0 held · " in now
    assert "failing  etl" in now
    assert sum(line.startswith(">") for line in now.splitlines()) == 1
    assert now.count(" in ") == 1  # each job is next once
    assert "connection refused" in now
    for view, wanted in (
        (View.JOBS, "Fr"),
        (View.FAILURES, "exit 1: connection refused"),
        (View.PLAN, "24 firings in 24 h"),
    ):
        state = State(view=view)
        assert wanted in "\n".join(drawn(await look(world.service, state), state))


def test_the_first_tables_get_what_others_leave() -> None:
    """Each has its share; what one does not need goes to the first that needs it, and none of the screen is left."""

    def listed(title: str, number: int) -> Listing:
        return Listing(title, ("JOB",), [Row(Subject(None, f"{title}-{n}"), (f"{title}-{n}",)) for n in range(number)])

    tables = [listed("needs", 8), listed("runs", 2), listed("next", 30)]
    text = " ".join(drawn(Content(NEW_YEAR, "", tables=tables), State()))
    assert [text.count(f"{each.title}-") for each in tables] == [6, 2, 3]


async def test_a_failing_job_says_its_cause(world: World) -> None:
    """As the page does: an exit code alone is no reason."""
    await world.add({"noop": True}, "job")
    await world.trigger("job")
    await world.work(Failed(error="connection refused: db-3", exit_code=1))
    assert "exit 1: connection refused: db-#" in " ".join(drawn(await look(world.service, State()), State()))


def test_rows_of_one_view_are_never_those_of_another() -> None:
    """Until the new view was looked at nothing can be chosen there, nor searched."""
    seen = Content(NEW_YEAR, "", tables=[Listing("jobs", ("ID",), [Row(A, ("a",))])])
    assert (seen.subjects(State()), seen.subjects(State(view=View.JOBS))) == ([A], [])
    for state in (State(view=View.JOBS), State(followed=A)):
        assert drawn(seen, state)[3] == "…"


async def test_no_more_rows_are_asked_for_than_stated(world: World) -> None:
    """Of more jobs the first ones are shown, and the title says so; a filter looks at more of them."""
    for n in range(MOST + 5):
        await world.service.jobs.add(f"job-{n:03}", noop=True)
    (listing,) = (await look(world.service, State(view=View.JOBS))).tables
    assert (len(listing.rows), listing.title) == (MOST, f"the first {MOST} jobs")
    (listing,) = (await look(world.service, State(view=View.JOBS, filter="job-104"))).tables
    assert [row.subject.job for row in listing.rows] == ["job-104"]


async def test_progress_is_drawn(world: World) -> None:
    """As a bar, with what the run has told."""
    await world.service.jobs.add("job", noop=True)
    await world.service.jobs.trigger("job")
    (claimed,) = await world.begin(1)
    await world.store.save_outputs([notes_row(claimed.run.id, Notes(attempt=1, progress=0.5, text="half"))])
    text = "\n".join(drawn(await look(world.service, State()), State(), 120))
    assert "█████░░░░░ 50% half" in text
    assert (bar(-1), bar(9), lane(Counter({0: 1, 23: 12}))) == ("░" * 10, "█" * 10, "1" + "." * 22 + "+")
    assert Short(claimed.run.id).text == claimed.run.id


def test_it_needs_a_terminal(called: Called) -> None:
    """A file or a program is told what to ask instead."""
    called("top", code=2)
    assert "run list --json" in called.told
