"""Which lanes serve a worker's wish."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.model.ids import ClaimId, Lane
from tokimori.model.lanes import handler_of, queue_of, serves
from tokimori.service.claims import held as held_runs
from tokimori.service.claims.held import OpenLanes
from tokimori.service.claims.worker_arguments import WorkerRequest

NAMES = st.sampled_from(["a", "b", "c"])
LANES = st.lists(
    st.builds(
        lambda queue, function, labels: Lane(f"{queue}|{function}|{','.join(f'{each}=1' for each in sorted(labels))}"),
        NAMES,
        st.sampled_from(["", "f", "g", "h"]),
        st.sets(NAMES),
    ),
    unique=True,
).map(tuple)
WISHES = st.builds(
    lambda types, queue, labels: WorkerRequest(
        id=ClaimId("c"),
        types=types,
        queue=queue,
        limit=1,
        wait=0,
        alive_time=60,
        worker="w",
        labels=dict.fromkeys(labels, "1"),
    ),
    st.none() | st.lists(st.sampled_from(["f", "g", "x"]), min_size=1).map(tuple),
    st.none() | NAMES,
    st.sets(NAMES),
)


@given(st.lists(st.tuples(WISHES, LANES)))
def test_a_wish_is_served_by_the_lanes_that_fit_it(asked: list[tuple[WorkerRequest, tuple[Lane, ...]]]) -> None:
    """As if each lane was looked at by itself: its function, its queue and its labels, and never one of commands."""
    found = OpenLanes()
    for wish, lanes in asked:
        fits = {
            lane for lane in lanes if handler_of(lane) and serves(wish.labels, lane, wish.types or [handler_of(lane)])
        }
        assert found.serving(wish, lanes) == tuple(
            sorted(each for each in fits if wish.queue in (None, queue_of(each)))
        )


def test_the_lanes_of_one_survey_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait, and whatever they wait for."""
    looked: list[Lane] = []

    def counted(lane: Lane) -> str:
        looked.append(lane)
        return handler_of(lane)

    found, lanes = OpenLanes(), tuple(Lane(f"q|f{n}|") for n in range(100))
    monkeypatch.setattr(held_runs, "handler_of", counted)
    for n in range(100):
        wish = WorkerRequest(
            id=ClaimId("c"), types=(f"f{n}",), queue=None, limit=1, wait=0, alive_time=60, worker="w", labels={}
        )
        assert found.serving(wish, lanes) == (f"q|f{n}|",)
    assert len(looked) == 100
