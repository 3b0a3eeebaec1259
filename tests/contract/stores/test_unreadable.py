"""A definition that this program can't read hurts its own job and no other."""

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import EVERY_SECOND, NOW, a_job, add_job, fire, later
from tokimori.model.encoding import stored_definition
from tokimori.model.ids import JobId
from tokimori.model.job import Job, JobState
from tokimori.model.target import Unreadable
from tokimori.ports.store import RunFilter, Store

ROCKET = '{"target":{"type":"rocket","stages":3},"schedule":"* * * * *"}'
TEXTS = [
    ROCKET,
    '{"target":{"type":"noop"},"moon":"full"}',
    "{broken",
    "",
    '{"target":{"type":"unreadable","text":"","why":""}}',
]


def unreadable(text: str = ROCKET, name: str = "newer", **changes: object) -> Job:
    """A job whose stored definition is this text."""
    return replace(a_job(name), definition=stored_definition(text), **changes)


@pytest.mark.parametrize("text", TEXTS)
async def test_it_is_read_as_unreadable(store: Store, text: str) -> None:
    """Read alone and in a list the job is there, with the stored text and the reason; so are the others."""
    await store.add_jobs([unreadable(text, next_due=later(1)), a_job("plain", next_due=later(1))])
    found = await store.get_job(JobId("newer"))
    assert isinstance(found.definition.target, Unreadable)
    assert found.definition.target.text == text
    assert found.definition.target.why
    assert [job.id for job in await store.list_jobs()] == ["newer", "plain"]
    assert (await store.get_due(found.id)).job == found


async def test_it_is_not_fired(store: Store) -> None:
    """It is not due here, nor reckoned anew, and nothing of it changes; the others fire."""
    await store.add_jobs([newer := unreadable(next_due=later(1))])
    plain = await add_job(store, "plain", schedule=EVERY_SECOND, next_due=later(1))
    assert [plan.job_id for plan in await fire(store, later(1))] == [plain.id]
    assert await store.due(later(1.5), 10) == []
    assert [job.id for job in await store.outdated("9999z", 10)] == [plain.id]
    assert await store.get_job(newer.id) == newer
    assert {run.job_id for run in await store.list_runs(RunFilter())} == {plain.id}


async def test_many_in_front_hide_nothing(store: Store) -> None:
    """However many can't be read, those that can are found: they come first, and are limited."""
    await store.add_jobs([unreadable(name=f"newer{n}", next_due=later(n % 2)) for n in range(7)])
    plain = [await add_job(store, f"plain{n}", schedule=EVERY_SECOND, next_due=later(1)) for n in range(3)]
    for limit in (1, 2, 3):
        assert [due.job for due in await store.due(later(2), limit)] == plain[:limit]
        assert await store.outdated("9999z", limit) == plain[:limit]
    assert [due.job for due in await store.due(later(2), 100)] == plain


async def test_writing_it_keeps_its_text(store: Store) -> None:
    """A job that is paused, moved or deleted by a program that can't read it loses nothing that it can't read."""
    job = unreadable()
    await store.add_jobs([job])
    await store.replace_job(job, replace(job, version=2, state=JobState.PAUSED, next_due=None))
    (found,) = await store.list_jobs()
    assert isinstance(found.definition.target, Unreadable)
    assert found.definition.target.text == ROCKET
    await store.delete_job(job.id, NOW)
    assert await store.list_jobs() == []
