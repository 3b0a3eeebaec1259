"""The columns of rows, and the values that are made of them."""

from tokimori.model.run import Run
from tokimori.stores.rows import RUN, names_of, run_of, run_row


def test_the_columns_of_a_run_are_its_fields() -> None:
    """In one order: a run is made by position."""
    assert tuple(names_of(RUN)) == Run.__struct_fields__


def test_a_run_comes_back_from_its_row() -> None:
    """Whatever stands in its columns, each value is where it was."""
    values = dict.fromkeys(Run.__struct_fields__, "x") | {"state": "held", "details": None}
    row = tuple(f"{name}" if value == "x" else value for name, value in values.items())
    assert run_row(run_of(row)) == row
