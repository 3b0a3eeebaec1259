"""What jobs may do that come through a door."""

import pytest

from tests.unit.service.world import World
from tokimori.errors import Forbidden
from tokimori.model.access_token import Role
from tokimori.model.target import Command, Function, Http, Noop, Target
from tokimori.service.access import Access
from tokimori.service.doors.authorization import authorized
from tokimori.service.doors.job_restrictions import JobRestrictions

ADMIN, OPERATE = Role.ADMIN, Role.OPERATE


def command(user: str | None = None) -> Command:
    return Command(argv=("/bin/true",), user=user)


@pytest.mark.parametrize(
    ("allowed", "target", "role", "field"),
    [
        (JobRestrictions(own_user="ann"), command(), OPERATE, None),
        (JobRestrictions(own_user="ann"), command("ann"), OPERATE, None),
        (JobRestrictions(own_user="ann"), command("bob"), ADMIN, "user"),
        (JobRestrictions(own_user="ann"), command("root"), ADMIN, "user"),
        (JobRestrictions(own_user="ann", users=("bob",)), command("bob"), OPERATE, None),
        (JobRestrictions(own_user="ann", users=("bob",)), command("eve"), ADMIN, "user"),
        (JobRestrictions(own_user="ann", users=("root",)), command("root"), ADMIN, None),
        (JobRestrictions(own_user="ann", users=("root",)), command("root"), OPERATE, "user"),
        (JobRestrictions(own_user="ann", users=("toor",), roots=frozenset({"toor"})), command("toor"), OPERATE, "user"),
        (JobRestrictions(own_user="root"), command(), ADMIN, None),
        (JobRestrictions(own_user="root"), command(), OPERATE, "user"),
        (JobRestrictions(own_user="root", users=("bob",)), command("bob"), OPERATE, None),
        (JobRestrictions(own_user="root"), Noop(), OPERATE, None),
        (JobRestrictions(commands=("/bin/true",)), command(), ADMIN, None),
        (JobRestrictions(commands=("/bin/false",)), command(), ADMIN, "command"),
        (JobRestrictions(commands=("/bin/true",)), Command(shell="/bin/true"), ADMIN, "command"),  # noqa: S604
        (JobRestrictions(commands=("/bin/true",)), Command(argv=("/bin/true",), env={"LD_PRELOAD": "x"}), ADMIN, "env"),
        (JobRestrictions(commands=("/bin/true",)), Function(name="f"), ADMIN, None),
        (JobRestrictions(), Http(url="http://a.example/"), OPERATE, None),
        (JobRestrictions(hosts=("*.Example",)), Http(url="http://A.example:8/x"), OPERATE, None),
        (JobRestrictions(hosts=("*.example",)), Http(url="http://a.example.evil/?b.example"), ADMIN, "url"),
        (JobRestrictions(hosts=("*.example",)), Http(url="http://evil/#.example"), ADMIN, "url"),
    ],
)
def test_what_the_settings_do_not_allow_is_refused(
    allowed: JobRestrictions, target: Target, role: Role, field: str | None
) -> None:
    """Users besides the node's own, root for who operates, programs and services that are not listed."""
    try:
        allowed.check(target, role)
    except Forbidden as fault:
        assert (fault.field, fault.status) == (field, 403)
    else:
        assert field is None


async def test_a_job_is_changed_only_to_what_is_allowed(world: World) -> None:
    """By whatever method: no way leads to a job of root."""
    await world.add({"command": ["/bin/true"], "user": "bob"}, "a")
    await world.add({"command": ["/bin/true"]}, "of-root")
    access = Access(author="ci", role=OPERATE)
    service = authorized(world.service, access, JobRestrictions(own_user="root", users=("bob", "root")))
    for change in (
        lambda: service.jobs.add("b", command=["/bin/true"]),
        lambda: service.jobs.add_since("b", "2026-01-01T00:00:00Z", command=["/bin/true"], user="root"),
        lambda: service.jobs.import_all([("b", world.define({"command": "true"}))]),
        lambda: service.jobs.update("a", user="root"),
        lambda: service.jobs.update("a", user=None),
        lambda: service.jobs.update("of-root", command=["/bin/false"]),
    ):
        with pytest.raises(Forbidden, match="root"):
            await change()
    assert {job.id: job.version for job in await world.service.jobs.list()} == {"a": 1, "of-root": 1}
    assert (await service.jobs.update("a", name="x")).definition.name == "x"
    assert (await service.jobs.pause("of-root")).by == "ci"
