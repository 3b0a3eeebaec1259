"""Secrets are set, listed and deleted, and the store has nothing of their values."""

import os
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from cryptography.fernet import Fernet

from tests.unit.service.world import World
from tokimori.config.secrets import Keyring
from tokimori.errors import Forbidden, InvalidInput, NotFound, Refused
from tokimori.model.access_token import Role, Scope
from tokimori.service.access import Access
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized
from tokimori.service.operation import Inside, members_in
from tokimori.service.secrets import Secrets, Vault
from tokimori.service.service import Service, service_on

VALUE = "correct horse"


def secrets_with(world: World, *keys: bytes) -> Secrets[Inside]:
    """Secrets of the same store, with these keys."""
    keyring = Keyring(None, ",".join(key.decode() for key in keys))
    return service_on(world.store, world.clock, os.urandom, cipher=keyring).secrets


async def test_a_secret_is_listed_without_its_value(world: World) -> None:
    """With when and by whom it was set; the node that runs a job can open it, and the store has it only encrypted."""
    secrets = world.service.secrets
    made = await secrets.set("A", VALUE, jobs=["web-"])
    assert (made.name, made.jobs, made.by, made.at) == ("A", ("web-",), "ada", world.clock.now())
    assert await secrets.list() == [made]
    assert made.sealed == ""
    kept = await world.store.get_document("secret", "A")
    assert VALUE not in kept.text
    assert (await Vault(secrets).open("A")).value == VALUE


async def test_another_value_takes_the_place_of_the_first(world: World) -> None:
    """Its jobs stay, unless others are said; an empty list says all."""
    secrets = world.service.secrets
    await secrets.set("A", VALUE, jobs=["web-"])
    await secrets.set("A", "battery staple")
    opened = await Vault(secrets).open("A")
    assert (opened.value, opened.jobs) == ("battery staple", ("web-",))
    await secrets.set("A", VALUE, jobs=["a-", "b-"])
    assert (await Vault(secrets).open("A")).jobs == ("a-", "b-")
    await secrets.set("A", VALUE, jobs=[])
    assert (await Vault(secrets).open("A")).jobs == ()


async def test_a_deleted_secret_is_gone(world: World) -> None:
    """And its error says how it comes back."""
    secrets = world.service.secrets
    await secrets.set("A", VALUE)
    await secrets.delete("A")
    assert await secrets.list() == []
    with pytest.raises(NotFound):
        await secrets.delete("A")
    with pytest.raises(NotFound, match="`tokimori secret set A`"):
        await Vault(secrets).open("A")


async def test_what_is_wrong_is_named_without_the_value(world: World) -> None:
    """A name, a value, prefixes."""
    secrets = world.service.secrets
    for act, field in (
        (secrets.set("a b", VALUE), "name"),
        (secrets.set("A", "corr"), "value"),
        (secrets.set("A", VALUE, jobs=["a b"]), "jobs"),
        (secrets.set("A", VALUE, jobs=["a"] * 101), "jobs"),
    ):
        with pytest.raises(InvalidInput) as fault:
            await act
        assert fault.value.field == field
        assert "corr" not in str(fault.value.message)
    assert await secrets.list() == []


async def test_without_a_key_there_are_no_secrets(world: World) -> None:
    """Nothing is kept, and the error names the command that makes a key; another key opens nothing."""
    bare = service_on(world.store, world.clock, os.urandom).secrets
    with pytest.raises(Refused, match="`tokimori secret key FILE`"):
        await bare.set("A", VALUE)
    assert await bare.list() == []
    await world.service.secrets.set("A", VALUE)
    with pytest.raises(Refused, match="'A' can't be opened: secrets: there is no key"):
        await Vault(bare).open("A")
    with pytest.raises(Refused, match="'A' can't be opened: none of the keys"):
        await Vault(secrets_with(world, Fernet.generate_key())).open("A")


async def test_rotation(world: World) -> None:
    """A new key before the old one opens what the old one has sealed; after rotating, the old one is not needed."""
    old, new = Fernet.generate_key(), Fernet.generate_key()
    before, both, after = secrets_with(world, old), secrets_with(world, new, old), secrets_with(world, new)
    await before.set("A", VALUE, jobs=["web-"])
    await before.set("B", VALUE)
    known = await before.list()
    assert (await Vault(both).open("A")).value == VALUE
    with pytest.raises(Refused):
        await after.rotate()
    assert await both.rotate() == 2
    assert (await Vault(after).open("A")).value == VALUE
    assert await after.list() == known
    with pytest.raises(Refused):
        await Vault(before).open("A")


@pytest.mark.parametrize("change", [('"A"', '"B"'), ('"web-"', '"x"')])
async def test_who_writes_to_the_store_moves_no_secret(world: World, change: tuple[str, str]) -> None:
    """Neither to another name nor to other jobs."""
    secrets = world.service.secrets
    await secrets.set("A", VALUE, jobs=["web-"])
    kept = await world.store.get_document("secret", "A")
    moved = type(kept)(kind="secret", name="B", text=kept.text.replace(*change), version=7)
    await world.store.put_document(moved, None)
    with pytest.raises(Refused, match="its name or its jobs were changed"):
        await Vault(secrets).open("B")


async def test_the_audit_log_has_no_value(world: World) -> None:
    """It tells who has set and deleted which secret."""
    service = audited(world.service)
    await service.secrets.set("A", VALUE, jobs=["web-"])
    await service.secrets.rotate()
    world.pass_seconds(1)
    await service.secrets.delete("A")
    entries = [each.entry for each in await service.audit.list()]
    assert sorted((each.what, each.of, each.who) for each in entries) == [
        ("secrets.delete", "secret A", "ada"),
        ("secrets.rotate", "secrets *", "ada"),
        ("secrets.set", "secret A", "ada"),
    ]
    assert VALUE not in str(entries)
    assert "sealed" not in str(entries)


async def test_only_admins_set_secrets(world: World) -> None:
    """Who operates sees which there are for jobs of his own; who reads sees none."""
    await world.service.secrets.set("MAIL", VALUE, jobs=["mail-in"])
    await world.service.secrets.set("WEB", VALUE, jobs=["web-"])
    await world.service.secrets.set("ANY", VALUE)

    def acting(role: Role, *jobs: str) -> Service:
        return authorized(world.service, Access(author="ci", role=role, scope=Scope(jobs=jobs)))

    operating = acting(Role.OPERATE, "mail-")
    assert [each.name for each in await operating.secrets.list()] == ["ANY", "MAIL"]
    assert len(await acting(Role.OPERATE).secrets.list()) == 3
    for service in (operating, acting(Role.OPERATE)):
        for act in (service.secrets.set("X", VALUE), service.secrets.delete("ANY"), service.secrets.rotate()):
            with pytest.raises(Forbidden):
                await act
    with pytest.raises(Forbidden):
        await acting(Role.READ).secrets.list()
    assert (await acting(Role.ADMIN).secrets.set("X", VALUE)).by == "ci"


async def test_a_token_of_a_queue_names_no_secret_of_others(world: World) -> None:
    """Whichever id its job gets, by whichever method; what a job sends already stays while the rest of it is edited."""
    await world.service.secrets.set("PAY", VALUE, jobs=["pay-"])
    await world.service.secrets.set("ANY", VALUE)
    service = authorized(world.service, Access(author="ci", role=Role.OPERATE, scope=Scope(queues=("qq",))))
    named = {"url": "https://example.org/", "headers": {"Authorization": "Bearer {{ secret.PAY }}"}}
    signed = {"url": "https://example.org/", "method": "POST", "sign_with": "PAY"}
    mail = {"email": ["a@b.c"], "smtp": "mail.example.org", "sender": "a@b.c", "smtp_user": "u", "smtp_password": "PAY"}
    unknown = {"url": "https://example.org/?{{secret.NONE}}"}
    await service.jobs.add("pay-mine", noop=True, queue="qq")
    await world.add({**named, "queue": "qq"}, "pay-theirs")
    for fields in (named, signed, mail, unknown):
        wrong: list[Callable[[], Awaitable[object]]] = [
            partial(service.jobs.add, "pay-new", queue="qq", **fields),
            partial(service.jobs.update, "pay-mine", **fields),
            partial(service.jobs.import_all, [("pay-new", world.define({**fields, "queue": "qq"}))]),
        ]
        for act in wrong:
            with pytest.raises(Forbidden, match=r"secret: '(PAY|NONE)': it is not within"):
                await act()
    for steal in (
        partial(service.jobs.copy, "pay-theirs", "pay-copy"),
        partial(service.jobs.update, "pay-theirs", url="https://evil.example/"),
        partial(service.jobs.rename, "pay-theirs", "pay-renamed"),
    ):
        with pytest.raises(Forbidden):
            await steal()
    assert (await service.jobs.update("pay-theirs", schedule="@daily")).definition.schedule == "@daily"
    assert [each.name for each in await service.secrets.list()] == ["ANY"]
    await service.jobs.add("uses-any", queue="qq", url="https://example.org/?{{secret.ANY}}")
    owner = authorized(world.service, Access(author="pay", role=Role.OPERATE, scope=Scope(jobs=("pay-",))))
    assert (await owner.jobs.add("pay-real", url="https://example.org/?{{secret.PAY}}")).id == "pay-real"


async def test_no_door_opens_a_secret(world: World) -> None:
    """Neither the service nor a part of it has a method that tells a value."""
    await world.service.secrets.set("A", VALUE)
    told = [await world.service.secrets.list(), await world.service.secrets.set("A", VALUE)]
    assert members_in(Secrets).keys() == {"set", "list", "delete", "rotate"}
    assert VALUE not in repr(told)
