"""How much is tried: `make test` takes a seventh of the examples of each law, `make prove` all of them."""

from collections.abc import Sequence

import pytest
from hypothesis import settings

PROFILES = {"tokimori": 15, "prove": 100}
"""By name: how many examples a law is tried with that doesn't say so itself."""


def examples(proved: int) -> int:
    """How many to try of those that `make prove` does."""
    return -(-proved * settings().max_examples // PROFILES["prove"])


def one_in(number: int, values: Sequence[str]) -> list[object]:
    """What a test is tried with: `make test` takes each n-th of these values, `make prove` the others too."""
    marks = [() if n % number == 0 else (pytest.mark.prove,) for n in range(len(values))]
    return [pytest.param(value, marks=each) for value, each in zip(values, marks, strict=True)]


def register_profiles() -> None:
    """Of these, the first is at work unless `--hypothesis-profile` names another one."""
    for name, most in PROFILES.items():
        settings.register_profile(name, deadline=None, print_blob=True, max_examples=most)
    settings.load_profile("tokimori")
