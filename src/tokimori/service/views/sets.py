"""Sets as JSON."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.service.set_turns import SetState


class SetView(Struct, frozen=True, kw_only=True):
    """A set: its state (`whole`, `at_work`, `half_applied`), its version, its jobs, who applied it last, and when."""

    name: str
    state: str
    version: int
    jobs: int
    by: str | None
    begun: str | None


def set_view(state: SetState) -> SetView:
    """Return the set as JSON shows it."""
    begun = None if state.begun is None else format_moment(state.begun)
    return SetView(name=state.name, state=state.state, version=state.version, jobs=state.jobs, by=state.by, begun=begun)


def sentence(state: SetState) -> str:
    """Return how the set stands, in words."""
    by = state.by or "somebody"
    return {
        "whole": "whole",
        "at_work": f"{by} applies it now",
        "half_applied": f"half applied by {by}: apply it again",
    }[state.state]
