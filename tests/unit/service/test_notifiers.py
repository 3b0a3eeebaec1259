"""Whom jobs tell must be there, also where both are added together."""

import pytest

from tests.unit.service.world import World
from tokimori.errors import Conflict, InvalidInput, NotFound, Refused
from tokimori.model.access_token import Role, Scope
from tokimori.model.notifier import NotifyOn
from tokimori.model.notifying import KIND, SUCCESSES
from tokimori.service.access import Access
from tokimori.service.definitions.definitions import definition_from, fields_of
from tokimori.service.doors.authorization import authorized
from tokimori.service.notifiers import id_of, notifier_fields, trial_payload

HOOK = {"url": "https://example.org/hook"}


async def test_a_job_names_notifiers_that_are_there(world: World) -> None:
    """When it is added and when it is edited; the error says how to make one."""
    with pytest.raises(InvalidInput) as refused:
        await world.service.jobs.add("bad", noop=True, notify={"failure": ["ops"]})
    assert (refused.value.field, refused.value.value) == ("notify.failure", "ops")
    assert "`tokimori notifier add` makes it" in refused.value.message
    await world.service.jobs.add(id_of("ops"), **notifier_fields(HOOK))
    await world.service.jobs.add("bad", noop=True, notify={"failure": ["ops"]})
    with pytest.raises(InvalidInput):
        await world.service.jobs.update("bad", notify={"held": ["nobody"]})
    job = await world.service.jobs.update("bad", notify={"failure": None, "parked": ["ops"]})
    assert job.definition.notify == {NotifyOn.PARKED: ("ops",)}


async def test_both_may_be_declared_together(world: World) -> None:
    """By a set, as `export` writes them."""
    notifier = {**HOOK, "notifier": {"bundle": 60, "quiet": ["22:00-07:00"]}}
    jobs = {"bad": {"noop": True, "notify": {"failure": ["ops"]}}, "notifier:ops": notifier}
    await world.service.sets.apply("crew", jobs)  # type: ignore[arg-type]
    job = await world.service.jobs.get("notifier:ops")
    said = fields_of(job.definition)
    assert said["notifier"] == {"bundle": 60.0, "quiet": ("22:00-07:00",)}
    assert definition_from(said).notifier == job.definition.notifier
    assert (await world.service.sets.apply("crew", jobs)).unchanged == ("bad", "notifier:ops")  # type: ignore[arg-type]


async def test_it_is_noted_that_a_job_tells_of_successes(world: World) -> None:
    """Once, and never taken back: nodes look at successes from then on."""
    await world.service.jobs.add(id_of("ops"), **notifier_fields(HOOK))
    await world.service.jobs.add("a", noop=True, notify={"failure": ["ops"]})
    with pytest.raises(NotFound):
        await world.store.get_document(KIND, SUCCESSES)
    for name in ("b", "c"):
        await world.service.jobs.add(name, noop=True, notify={"success": ["ops"]})
    assert await world.store.get_document(KIND, SUCCESSES)


async def test_a_notifier_that_jobs_name_is_not_deleted(world: World) -> None:
    """The first ten of them are told; with `force` it goes, and once no job names it it does anyhow."""
    for name in ("ops", "spare"):
        await world.service.jobs.add(id_of(name), **notifier_fields(HOOK))
    for n in range(12):
        await world.service.jobs.add(f"j{n:02}", noop=True, notify={"failure": ["ops"], "held": ["ops", "spare"]})
    with pytest.raises(Refused) as refused:
        await world.service.jobs.delete(id_of("ops"))
    assert refused.value.message.endswith(": " + ", ".join(f"j{n:02}" for n in range(10)) + " and others")
    with pytest.raises(Refused, match="j00"):
        await world.service.jobs.rename(id_of("ops"), id_of("crew"))
    assert await world.service.jobs.get(id_of("ops"))
    await world.service.jobs.delete(id_of("ops"), force=True)
    with pytest.raises(NotFound):
        await world.service.jobs.get(id_of("ops"))
    for n in range(12):
        await world.service.jobs.update(f"j{n:02}", notify=None)
    await world.service.jobs.delete(id_of("spare"))


async def test_what_a_set_prunes_is_no_notifier_of_a_job_that_stays(world: World) -> None:
    """Nothing is changed then; one whose jobs go with it may go."""
    jobs = {"bad": {"noop": True, "notify": {"failure": ["ops"]}}, "notifier:ops": {**HOOK, "notifier": {}}}
    await world.service.sets.apply("crew", jobs)  # type: ignore[arg-type]
    await world.service.jobs.add("other", noop=True, notify={"failure": ["ops"]})
    with pytest.raises(Conflict, match="other notifies it"):
        await world.service.sets.apply("crew", {}, prune=True)
    assert await world.service.jobs.get("bad")
    await world.service.jobs.delete("other")
    assert (await world.service.sets.apply("crew", {}, prune=True)).removed == ("bad", "notifier:ops")


async def test_who_may_not_see_the_jobs_that_name_a_notifier_is_not_told_them(world: World) -> None:
    """It is refused all the same."""
    await world.service.jobs.add(id_of("ops"), **notifier_fields(HOOK))
    await world.service.jobs.add("theirs", noop=True, notify={"failure": ["ops"]})
    scope = Scope(jobs=("notifier:", "mine"))
    service = authorized(world.service, Access(author="t", role=Role.OPERATE, scope=scope))
    for going in (service.jobs.delete(id_of("ops")), service.jobs.rename(id_of("ops"), id_of("crew"))):
        with pytest.raises(Refused, match="ask an admin which") as refused:
            await going
        assert "theirs" not in str(refused.value)
    await service.jobs.add("mine", parents=[{"job": id_of("ops")}], noop=True)
    with pytest.raises(Refused, match="mine run after it"):
        await service.jobs.delete(id_of("ops"), force=True)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"notifier": {}, "noop": True}, "notifier"),
        ({"noop": True, "notify": {"fire": ["ops"]}}, "notify"),
        ({"noop": True, "notify": {"failure": "ops"}}, "notify"),
        ({"email": ["a@example.org"], "sender": "b@example.org"}, "smtp"),
        ({"email": ["a@example.org"], "smtp": "h", "sender": "b@example.org", "method": "GET"}, "method"),
        ({"noop": True, "smtp": "h"}, "smtp"),
        ({**HOOK, "sign_with": "a b"}, "sign_with"),
        ({**HOOK, "sign_with": "KEY", "headers": {"Webhook-Id": "1"}}, "headers"),
    ],
)
async def test_what_is_wrong_is_named(world: World, fields: dict[str, object], field: str) -> None:
    """By its field."""
    with pytest.raises(InvalidInput) as refused:
        await world.service.jobs.add("job", **fields)  # type: ignore[arg-type]
    assert str(refused.value.field).startswith(field)


async def test_a_message_that_tries_a_notifier(world: World) -> None:
    """Only a notifier has one."""
    job = await world.service.jobs.add(
        id_of("ops"), **notifier_fields({**HOOK, "notifier": {"subject": "[{{ event }}]"}})
    )
    assert '"subject":"[failure]"' in trial_payload(job, "ops", job.created)
    with pytest.raises(NotFound):
        trial_payload(await world.service.jobs.add("job", noop=True), "job", job.created)


def test_a_notifier_has_no_schedule() -> None:
    """It runs when there is something to notify of."""
    with pytest.raises(InvalidInput):
        notifier_fields({**HOOK, "schedule": "@daily"})
