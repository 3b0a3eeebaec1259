"""Families of single runs, before anything is requested."""

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
