"""Kala's jobs from its databases: what one of them can't be stops no other."""

import pytest

from tests.unit.translators.entries import only, why_refused
from tokimori.clock import parse_moment
from tokimori.formats.kala import entries_of, job_of

NOW = parse_moment("2026-06-01T00:00:00Z")
JSON = b'{"id": "a", "name": "n", "command": "true"}'


@pytest.mark.parametrize("job_id", ["a", ""])
def test_a_job_in_json_knows_its_id(job_id: str) -> None:
    """In Redis its key says it, too; a table of PostgreSQL has nothing else."""
    assert only(entries_of([job_of(job_id, JSON)], NOW)).job_id == "a"


@pytest.mark.parametrize("value", [b"", b"null", JSON + b", " + JSON, b'{"id": "\xff"}', b"{", b"[" * 100_000])
def test_what_is_no_job_is_refused_beside_one_that_is(value: bytes) -> None:
    """The row is named; the program goes on."""
    refused, moved = entries_of([job_of("", value), job_of("", JSON)], NOW)
    assert why_refused([refused]).startswith("jobs, number 0: ")
    assert only([moved]).job_id == "a"
