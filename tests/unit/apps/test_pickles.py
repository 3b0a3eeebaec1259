"""Functions and handles as they travel between processes, and as a shell shows them."""

import copy
import pickle
from typing import Any

import pytest

from tokimori.apps.app import App
from tokimori.apps.families import FunctionRequest
from tokimori.apps.family_handles import Handles, StepHandle
from tokimori.clock import Moment
from tokimori.model.ids import RunId, uuid7

app = App("pickles")


@app.job
def charge(order: int, currency: str = "EUR") -> int:
    """Return the order."""
    return order


RUN, SECOND = RunId(uuid7(Moment(0), bytes)), RunId(uuid7(Moment(1_000_000), bytes))


def test_functions_and_their_handles_travel() -> None:
    """As plain functions do, by their names: to a pool of processes, say."""
    assert pickle.loads(pickle.dumps(charge)) is charge  # noqa: S301  our own
    assert copy.deepcopy(charge) is charge
    handle = charge.handle(RUN)
    for each in (pickle.loads(pickle.dumps(handle)), copy.deepcopy(handle)):  # noqa: S301  our own
        assert each == handle
        assert each.id == RUN
    request = pickle.loads(pickle.dumps(charge.request(7)))  # noqa: S301  our own
    assert isinstance(request, FunctionRequest)
    assert request.function is charge


def test_handles_of_a_family_travel_together() -> None:
    """What is still to be made knows what it waits for, and each run has one handle."""
    first = charge.handle(RUN)
    step: StepHandle[int] = StepHandle(charge._ways, SECOND, charge.result_of, [(first, False)])
    family: Handles[int] = Handles([first, step], [step])
    copies: list[Any] = [pickle.loads(pickle.dumps(family)), copy.deepcopy(family)]  # noqa: S301  our own
    for each in copies:
        assert (type(each), each) == (Handles, family)
        assert each._last[0] is each[1]
        assert each[1]._before[0][0] is each[0]


def test_a_handle_that_is_no_functions_says_how_it_travels() -> None:
    """Nobody knows the app in another process by a name."""
    with pytest.raises(TypeError, match=r"send its `id`"):
        pickle.dumps(app.handle(RUN))


def test_a_shell_shows_names() -> None:
    """Instead of addresses in memory."""
    assert (repr(charge), repr(app)) == ("<JobFunction charge>", "<App pickles>")


def test_a_value_is_that_of_the_only_argument_without_a_default() -> None:
    """So the result of a run fits the function behind it."""
    assert charge._arguments.decode("7") == {"order": 7, "currency": "EUR"}
    assert charge._check_payload("7", is_scheduled=False) == "7"
