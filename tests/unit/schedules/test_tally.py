"""The bits of many numbers."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.schedules.tally import Tally


@given(st.lists(st.integers(min_value=0, max_value=2**200), max_size=70))
def test_it_has_as_many_bits_as_its_numbers(numbers: list[int]) -> None:
    """Whatever becomes of them in between, of however many numbers."""
    tally = Tally()
    for number in numbers:
        tally.add(number)
    assert tally.bits() == sum(number.bit_count() for number in numbers)
