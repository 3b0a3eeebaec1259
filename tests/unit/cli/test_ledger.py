"""`tokimori verify` of all jobs."""

import pytest

from tests.unit.cli.conftest import Called
from tokimori.service.jobs.jobs import Jobs
from tokimori.service.jobs.ledger import Verified
from tokimori.service.operation import Inside


def test_a_job_that_somebody_deletes_meanwhile_is_passed_by(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all jobs, which may take long; one that is named and not there is an error."""
    for job in ("a", "b", "c"):
        called("job", "add", job, "--noop")
    verify = Jobs.verify.method

    async def verified(jobs: Jobs[Inside], job_id: str, *_: object) -> Verified:
        if job_id == "a":
            await jobs.delete("b")
        found: Verified = await verify(jobs, job_id)
        return found

    monkeypatch.setattr(Jobs.verify, "method", verified)
    assert called("verify").splitlines() == ["occurrences of 2 jobs: none", "all of them fit"]
    called("verify", "b", code=3)
