"""The pages that are made from the code: where each is, and the function that makes it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.made import job_fields, run_states

PAGES: Mapping[Path, Callable[[], str]] = {made.PAGE: made.page for made in (job_fields, run_states)}
