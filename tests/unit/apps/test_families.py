"""Families of single runs, before anything is requested."""

from typing import Any

import pytest

import tokimori
from tokimori.apps.app import App
from tokimori.errors import InvalidInput


def test_ways_that_multiply_are_refused_at_once() -> None:
    """Pairs that follow pairs double the steps of the first run: their number is checked before they are written."""
    app = App("shop")

    @app.job(id="step")
    def step(number: int = 0) -> int:
        return number

    family = tokimori.all([step.request(1), step.request(2)])
    with pytest.raises(InvalidInput, match="steps follow one run"):
        for _ in range(40):
            family = family.then(tokimori.all([step.request(1), step.request(2)]))


def test_what_is_no_list_of_requests_is_named() -> None:
    """A single request is a dictionary, whose names are no requests; one alone says how it is enqueued."""
    app = App("shop")

    @app.job(id="step")
    def step(number: int = 0) -> int:
        return number

    wrong: list[Any] = [step.request(1), 5, None, "step", step]
    for given in wrong:
        for ask in (tokimori.spawn, tokimori.all):
            with pytest.raises(InvalidInput, match="is no list of requests"):
                ask(given)
    with pytest.raises(AttributeError, match=r"write fn\.enqueue\(…\) or fn\.enqueue_many"):
        step.request(1).enqueue()  # type: ignore[attr-defined]  # what programs do all the same
