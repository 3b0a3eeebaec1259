"""Which runs of many lanes come first, by the first few of each."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.model.ids import Lane, RunId
from tokimori.stores.rules.claiming import first_runs

LANES = st.lists(st.lists(st.integers(0, 50), max_size=12), max_size=6)


@given(lanes=LANES, each=st.integers(1, 12), most=st.integers(1, 12))
def test_the_first_runs_are_the_first_of_all(lanes: list[list[int]], each: int, most: int) -> None:
    """No run that was not read is before one that is chosen, and whoever is not told of more has seen all."""
    runs = [
        sorted((rank, RunId(f"{lane}-{n}"), Lane(str(lane))) for n, rank in enumerate(ranks))
        for lane, ranks in enumerate(lanes)
    ]
    everything = [run_id for _, run_id, _ in sorted(run for lane in runs for run in lane)]
    chosen, rest = first_runs([run for lane in runs for run in lane[:each]], each, most)
    assert chosen == everything[: len(chosen)]
    assert len(chosen) >= min(each, most, len(everything))
    assert rest or chosen == everything
