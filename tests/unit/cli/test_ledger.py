"""`tokimori verify` of all jobs."""

import pytest

from tests.unit.cli.conftest import Called
from tokimori.service.ledger import Verified
from tokimori.service.service import Service


def test_a_job_that_somebody_deletes_meanwhile_is_passed_by(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all jobs, which may take long; one that is named and not there is an error."""
    for job in ("a", "b", "c"):
        called("job", "add", job, "--noop")
    verify = Service.verify

    async def verified(service: Service, job_id: str, *moments: object) -> Verified:
        if job_id == "a":
            await service.delete("b")
        return await verify(service, job_id)

    monkeypatch.setattr(Service, "verify", verified)
    assert called("verify").splitlines() == ["occurrences of 2 jobs: none", "all of them fit"]
    called("verify", "b", code=3)
