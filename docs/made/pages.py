"""The pages that are made from the code: where each is, and the function that makes it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.made import (
    commands,
    errors,
    event_types,
    http,
    job_fields,
    python,
    run_states,
    schedules,
    settings,
)

MADE = (settings, job_fields, schedules, commands, python, http, event_types, errors, run_states)
PAGES: Mapping[Path, Callable[[], str]] = {made.PAGE: made.page for made in MADE}
