"""Tokens are made, listed and revoked, and doors know them."""

import pytest

from tests.unit.service.world import World
from tokimori.errors import AlreadyExists, InvalidInput, NotFound, StoreUnavailable
from tokimori.model.access_token import Role, Scope
from tokimori.service.tokens import KNOWN_FOR, MOST_KNOWN, Holders, holders_of


@pytest.fixture
def holders(world: World) -> Holders:
    return holders_of(world.service.tokens, world.clock)


async def test_a_token_is_listed_until_it_is_revoked(world: World) -> None:
    """With who made it, what it may do and until when; its text is nowhere."""
    tokens = world.service.tokens
    made = await tokens.create("ci", "operate", jobs=["mail-"], queues=["web"], expires=60)
    assert (made.token.role, made.token.by) == (Role.OPERATE, "ada")
    assert made.token.scope == Scope(jobs=("mail-",), queues=("web",))
    assert made.token.expires == world.clock.now() + 60_000_000
    assert await tokens.list() == [made.token]
    with pytest.raises(AlreadyExists, match="'ci'"):
        await tokens.create("ci", "read")
    await tokens.revoke("ci")
    assert await tokens.list() == []
    with pytest.raises(NotFound):
        await tokens.revoke("ci")


async def test_who_brings_a_token_is_known_by_it(world: World, holders: Holders) -> None:
    """By its text alone, though its name is right."""
    made = await world.service.tokens.create("ci", "read")
    other = await world.service.tokens.create("cd", "admin")
    assert await holders.bearer(made.text) == made.token
    assert await holders.bearer(other.text) == other.token
    wrong = made.text.replace("ci", "cd"), made.text[:-1], "tkm_ci", "", f"tkm_nobody_{'0' * 64}"
    assert [await holders.bearer(text) for text in wrong] == [None] * 5


async def test_a_revoked_token_is_forgotten_in_time(world: World, holders: Holders) -> None:
    """A door asks the store once a second at most, and believes nothing older."""
    made = await world.service.tokens.create("ci", "read")
    asked = world.count("get_document")
    for _ in range(3):
        assert await holders.bearer(made.text) == made.token
    assert len(asked) == 1
    await world.service.tokens.revoke("ci")
    world.pass_seconds(KNOWN_FOR)
    assert await holders.bearer(made.text) is None


async def test_a_name_that_is_given_again_is_another_token(world: World, holders: Holders) -> None:
    """The old text does not open the new one."""
    old = await world.service.tokens.create("ci", "read")
    await world.service.tokens.revoke("ci")
    new = await world.service.tokens.create("ci", "admin")
    assert [await holders.bearer(each.text) for each in (old, new)] == [None, new.token]


async def test_doors_remember_few_names(world: World, holders: Holders) -> None:
    """Whoever tries names fills no memory."""
    for number in range(MOST_KNOWN + 9):
        await holders.named(f"n{number}")
    assert len(holders._known) == MOST_KNOWN


async def test_nobody_is_let_in_while_the_store_is_away(world: World, holders: Holders) -> None:
    """It may have been revoked meanwhile."""
    made = await world.service.tokens.create("ci", "read")
    assert await holders.bearer(made.text) is not None
    world.pass_seconds(KNOWN_FOR)

    async def away(*_: object) -> None:
        raise StoreUnavailable("gone")

    world.store.get_document = away  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreUnavailable):
        await holders.bearer(made.text)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"role": "root"}, "role"),
        ({"jobs": ["-x"]}, "jobs"),
        ({"jobs": ["x"] * 101}, "jobs"),
        ({"queues": ["a b"]}, "queues"),
        ({"expires": 0}, "expires"),
        ({"role": "admin", "queues": ["web"]}, "role"),
    ],
)
async def test_what_is_wrong_with_a_token_is_named(world: World, fields: dict[str, object], field: str) -> None:
    """An admin with a scope too: he could make himself a token without one."""
    given: dict[str, object] = {"name": "ci", "role": "read", **fields}
    name, role = str(given.pop("name")), str(given.pop("role"))
    with pytest.raises(InvalidInput) as fault:
        await world.service.tokens.create(name, role, **given)  # type: ignore[arg-type]
    assert fault.value.field == field
    assert await world.service.tokens.list() == []
