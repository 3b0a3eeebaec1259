"""Writes docs/explanation/run-states.md from the one table of transitions: `make docs`."""

from pathlib import Path

from docs.made.markdown import table
from tokimori.model.transitions import ENDS, TRANSITIONS, RunState

PAGE = Path(__file__).parents[1] / "explanation/run-states.md"


def page() -> str:
    """The page, with a diagram that Markdown readers draw (Mermaid)."""
    lines = [
        "# The states of a run",
        "",
        "Written by `make docs` from `src/tokimori/model/transitions.py`. What is not here does not happen.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> waiting",
        "    [*] --> ready",
        *(f"    {state} --> {after}: {event}" for (state, event), after in TRANSITIONS.items()),
        *(f"    {state} --> [*]" for state in RunState if state in ENDS),
        "```",
        "",
        *table(("from", "event", "to"), [(state, event, after) for (state, event), after in TRANSITIONS.items()]),
        "",
    ]
    return "\n".join(lines)
