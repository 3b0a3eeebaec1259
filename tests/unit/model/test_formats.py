"""Formats of definitions: which programs leave which jobs to newer ones."""

import re
from importlib.metadata import version

from msgspec.structs import fields, replace

from tokimori.model.job import FORMAT, Definition, lane_of
from tokimori.model.target import Noop

# fmt: off
RELEASED = {
    1: {
        "schedule", "time_zone", "gap", "fold", "name", "description", "owner",
        "misfire", "late_after", "grace", "max_running", "on_overlap", "retry", "priority",
        "queue", "labels", "timeout", "timeout_grace", "on_lost_lease", "mailto", "target",
    },
    2: {
        "calendars", "shift", "starts_at", "ends_at", "delay", "jitter", "anchored_on",
        "on_exhausted", "on_failure_job", "parents", "join", "auto_complete_success",
    },
    3: {"retention", "keep_runs"},
}
# fmt: on
"""The fields that came with each format that released programs read: what stands here never changes."""
UNDER_WAY = "0.1.0"
"""The version whose fields may still join the newest format. With the next one, write them down above."""


def format_of(field: str) -> int:
    """The format that a definition needs which says just this."""
    said = {"queue": "other", "labels": {"os": "linux"}, "target": Noop()}.get(field, object())
    lane = lane_of(replace(Definition(target=Noop()), **{field: said}))
    label = re.search(r"tokimori:format=(\d+)", lane)
    return 1 if label is None else int(label[1])


def test_a_released_format_never_changes() -> None:
    """A field needs the format with which it came: older programs that can't read it leave its job alone."""
    known = {field: number for number, names in RELEASED.items() for field in names}
    assert {field: format_of(field) for field in known} == known


def test_what_came_since_the_last_release_needs_a_newer_format() -> None:
    """Whoever adds a field to definitions lets the format grow, once for each release."""
    since = {each.name for each in fields(Definition)}.difference(*RELEASED.values())
    newest = max(RELEASED)
    assert {field: format_of(field) for field in since} == dict.fromkeys(since, newest + 1)
    assert newest + bool(since) == FORMAT


def test_a_release_writes_its_format_down() -> None:
    """When the version grows, the fields of the newest format are frozen in `RELEASED`."""
    assert version("tokimori") == UNDER_WAY
