"""Steps as programs say them."""

from contextlib import nullcontext
from uuid import UUID

import pytest

from tests.unit.examples import NEW_YEAR
from tests.unit.service.world import ON_DEMAND, World
from tokimori.clock import DAY, HOUR, Moment
from tokimori.errors import Forbidden, InvalidInput
from tokimori.model.access_token import Role, Scope
from tokimori.model.ids import uuid7
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.service.access import Access
from tokimori.service.definitions.steps import read_steps
from tokimori.service.doors.authorization import authorized

ID = "01b8dac5-b400-7000-8000-0000000000ab"


@pytest.mark.parametrize("text", [ID.upper(), ID.replace("-", ""), f"{{{ID}}}"])
def test_a_step_has_its_id_as_it_is_looked_for(text: str) -> None:
    """By another spelling it would be kept, and never found."""
    assert read_steps([{"id": ID, "job": "a"}])[0].id == ID
    with pytest.raises(InvalidInput, match="then"):
        read_steps([{"id": text, "job": "a"}])


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (uuid7(Moment(NEW_YEAR + offset), bytes), abs(offset) <= HOUR // 2)
        for offset in (0, HOUR // 2, 2 * HOUR, -2 * DAY)
    ]
    + [("cd497b27-815b-43d5-b453-770784fece31", False), (str(UUID(int=2**128 - 1)), False)],
)
async def test_a_step_says_when_it_was_made(text: str, fits: bool) -> None:
    """By its id, of which runs are listed and pruned: one of another time, or that says none, is refused."""
    jobs, then = (world := World()).service.jobs, [{"id": text, "job": "a"}]
    await world.add(ON_DEMAND, "a")
    with nullcontext() if fits else pytest.raises(InvalidInput, match="then"):
        await jobs.trigger("a", then=then)
    with nullcontext() if fits else pytest.raises(InvalidInput, match="then"):
        await jobs.trigger_many("a", [{"then": then}])


@pytest.mark.parametrize("outcome", [Succeeded(0), Failed("no")])
@pytest.mark.parametrize("scope", [Scope(queues=("web",)), Scope(jobs=("mail-",))])
async def test_a_retry_needs_the_right_to_the_steps_behind(outcome: Outcome, scope: Scope) -> None:
    """Who may run the first job alone repeats no family with runs of others, in bulk or one by one."""
    world = World()
    await world.add({"noop": True, "queue": "web"}, "mail-in")
    await world.add(ON_DEMAND, "pay")
    last = {"id": ID.replace("ab", "cd"), "job": "pay"}
    run = await world.service.jobs.trigger(
        "mail-in", then=[{"id": ID, "job": "mail-in", "on_failure": True, "then": [last]}]
    )
    await world.work(outcome)
    service = authorized(world.service, Access(author="ci", role=Role.OPERATE, scope=scope))
    with pytest.raises(Forbidden, match="pay"):
        await service.runs.retry(run.id)
    assert not (await service.runs.bulk("retry", ids=[run.id])).runs
    assert (await world.service.runs.retry(run.id)).run.details.retry_of == run.id


@pytest.mark.parametrize(
    "step", [{"id": ID, "job": "\ud800"}, {"id": ID, "job": "a", "joins": "\ud800"}, {"\ud800": 1}]
)
def test_steps_with_half_a_surrogate_pair_are_refused(step: dict[str, object]) -> None:
    """They are bad input, of the field `then`."""
    with pytest.raises(InvalidInput) as refused:
        read_steps([step])
    assert refused.value.field == "then"
