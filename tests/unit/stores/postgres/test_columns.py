"""Marks in the texts of functions become the columns that `rows` lists."""

import pytest

from tokimori.stores.postgres.schema import filled_in, types_of, without
from tokimori.stores.rows import BIRTH, RUN, SETTLED


@pytest.mark.parametrize(
    ("mark", "columns"),
    [
        ("({RUN})", f"({RUN})"),
        ("{RUN}, {SETTLED}", f"{RUN}, {SETTLED}"),
        ("{r.SETTLED}", "r.settled_by, r.settled_token"),
        ("{_SETTLED - settled_by}", "_settled_token"),
        (
            "{r.ATTEMPT - run_id, number, token, node_id, outcome, pid, started, ended, signal, error, cpu, memory}",
            "r.exit_code",
        ),
    ],
)
def test_a_mark_becomes_its_columns(mark: str, columns: str) -> None:
    """All of them, or all but some, named as those of a table or as parameters."""
    assert filled_in(mark) == columns


def test_columns_come_with_their_types() -> None:
    """As parameters they need no quotes, and may be arrays."""
    few = "job_id, incarnation, origin, nominal, due, state, priority, lane, created, payload, details, parent_id, root"
    assert filled_in(f"{{_BIRTH types - {few}, concurrency_key}}") == "_id uuid, _rank bigint"
    assert filled_in(f"{{_run_BIRTH arrays - {few}, id}}") == "_run_rank bigint[], _run_concurrency_key text[]"
    assert filled_in(f"{{BIRTH types - {few}, id}}") == '"rank" bigint, concurrency_key text'


def test_other_braces_stay() -> None:
    """An empty array is no mark."""
    assert filled_in("_ids := '{}'; {run}") == "_ids := '{}'; {run}"


def test_every_column_of_a_run_has_a_type() -> None:
    """A column without one would be found by the first statement."""
    assert len(types_of(RUN)) == len(RUN.split(", "))
    assert set(BIRTH.split(", ")) < set(RUN.split(", "))


def test_columns_are_left_out_by_name() -> None:
    """Whether they need quotes or not."""
    assert without('id, "rank", "signal", due', "rank, due") == 'id, "signal"'
