"""The keys and the screen of `tokimori top`."""

import io

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from tests.unit.cli.conftest import Called
from tests.unit.examples import NEW_YEAR, seconds
from tests.unit.service.world import World
from tokimori.cli.top_screen import Order, ScreenContent, State, Subject, Verb, chosen, keys_in, pressed, screen
from tokimori.model.run import Details
from tokimori.model.transitions import RunState

A, B = Subject("run-a", "job-a"), Subject("run-b", "job-b")


@pytest.fixture
def world() -> World:
    """One at the new year of 2030."""
    return World()


def after(keys: str, subjects: list[Subject] | None = None) -> tuple[State, list[Order]]:
    """The state after these keys, and what they have ordered."""
    state, orders = State(), list[Order]()
    for key in keys_in(keys):
        state, order = pressed(state, key, [A, B] if subjects is None else subjects)
        orders += [order] if order is not None else []
    return state, orders


def test_nothing_is_ordered_without_a_yes() -> None:
    """The order is asked about; any other key than y takes it back."""
    assert after("c") == (State(asked=Order(Verb.CANCEL, A)), [])
    assert after("cy") == (State(), [Order(Verb.CANCEL, A)])
    assert after("jpY") == (State(chosen="run-b"), [Order(Verb.PAUSE, B)])
    assert after("pn") == (State(told="nothing was done"), [])
    assert after("cq")[1] == []
    assert (str(Order(Verb.CANCEL, A)), str(Order(Verb.PAUSE, A))) == ("cancel run run-a", "pause job job-a")


def test_keys_move_within_what_runs() -> None:
    """Arrows or letters; beyond the ends it stays; where nothing runs nothing can be chosen."""
    assert after("\x1b[B")[0].chosen == after("j")[0].chosen == after("jjj")[0].chosen == "run-b"
    assert after("j\x1b[A")[0].chosen == after("kkk")[0].chosen == "run-a"
    assert after("jcpf", []) == (State(), [])
    assert (after("f")[0].followed, after("ff")[0].followed) == ("run-a", None)


def test_who_chose_a_run_that_ended_has_the_first_one() -> None:
    """So that a key never orders what is not shown."""
    assert chosen(State(chosen="run-c"), [A, B]) == A
    assert chosen(State(chosen="run-b"), [A, B]) == B
    assert chosen(State(chosen="run-b"), []) is None


async def test_the_screen_fits_the_terminal(world: World) -> None:
    """Whatever there is: no line is wider, there are no more lines, and nothing controls the terminal."""
    await world.service.jobs.add("j" * 255, noop=True, schedule="@hourly", max_running=0)
    for _ in range(30):
        await world.service.jobs.trigger("j" * 255)
    await world.begin(30)
    running = (await world.service.runs.list(state=RunState.RUNNING, limit=50)).runs
    for run in running[:3]:
        await world.service.runs.cancel(run.id, "x")
    seen = ScreenContent(
        now=seconds(5),
        zone="UTC",
        nodes=await world.service.nodes.list(),
        running=running,
        upcoming=await world.service.schedules.upcoming(5),
        failed=[],
        output=b"one\n\x1b[2Jtwo\n\x1b[31mthree",
    )
    state = State(chosen=running[1].id, followed=running[1].id, asked=Order(Verb.CANCEL, Subject(running[1].id, "j")))
    for width, height in ((80, 24), (200, 60), (60, 10)):
        console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
        lines = screen(console, seen, state, height).splitlines()
        assert len(lines) <= height
        assert max(map(cell_len, lines)) <= width
        assert lines[-1] == f"cancel run {running[1].id}? [y/N]"
        assert "\x1b" not in "".join(lines)
    assert any(line.startswith(">") for line in lines) or height == 10
    assert seen.now > NEW_YEAR


async def test_progress_is_drawn(world: World) -> None:
    """As a bar, with what the run has told."""
    await world.service.jobs.add("job", noop=True)
    await world.service.jobs.trigger("job")
    (claimed,) = await world.begin(1)
    run = replace(claimed.run, details=Details(progress=0.5, progress_text="half"))
    seen = ScreenContent(now=NEW_YEAR, zone="UTC", nodes=[], running=[run], upcoming=[], failed=[])
    console = Console(file=io.StringIO(), width=120, color_system=None)
    text = screen(console, seen, State(), 40)
    assert "█████░░░░░ 50% half" in text
    assert "0 nodes" in text
    assert text.splitlines()[-1].endswith("q quit")


def test_it_needs_a_terminal(called: Called) -> None:
    """A file or a program is told what to ask instead."""
    called("top", code=2)
    assert "run list --json" in called.told
