"""What can be a secret, and where one may be named."""

from typing import Any

import pytest

from tests.unit.examples import seconds
from tokimori.errors import InvalidInput
from tokimori.model.secret import (
    LARGEST,
    Secret,
    SecretContent,
    check_secret_name,
    check_value,
    decode_secret,
    encode_content,
    encode_secret,
    value_in,
)
from tokimori.model.target import Command, Http, Target
from tokimori.model.templates import rendered, secrets_in, with_secrets


@pytest.mark.parametrize("name", ["a", "DB_PASSWORD", "mail.key-2", "x" * 64])
def test_names(name: str) -> None:
    """Words as in an environment or an address."""
    assert check_secret_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "_a", "a b", "a/b", "é", "x" * 65, "a\n", 7])
def test_what_can_be_no_name(name: object) -> None:
    """What would lead elsewhere in an address, or end a place in a template."""
    with pytest.raises(InvalidInput) as fault:
        check_secret_name(name)
    assert fault.value.field == "name"


@pytest.mark.parametrize(
    "value", ["short", "", "nul\0nul", "half \ud800", "x" * (LARGEST + 1), "line\n" * 257, b"bytes of", None]
)
def test_what_can_be_no_value(value: object) -> None:
    """What no process can be given, or could not be hidden; the error does not show it."""
    with pytest.raises(InvalidInput) as fault:
        check_value(value)
    assert (fault.value.field, fault.value.value) == ("value", None)
    assert not value or str(value) not in str(fault.value.message)


def test_what_is_encrypted_belongs_to_its_name_and_jobs() -> None:
    """Who moves it to another name, or gives it other jobs, has nothing."""
    secret = Secret(name="a", sealed="s", jobs=("web-",), at=seconds(1), by="ada")
    assert decode_secret(encode_secret(secret)) == secret
    content = encode_content(SecretContent("a", ("web-",), "the value"))
    assert value_in(secret, content) == "the value"
    for name, jobs in (("b", ("web-",)), ("a", ()), ("a", ("web-", "x"))):
        assert value_in(Secret(name=name, sealed="s", jobs=jobs, at=seconds(1)), content) is None


def test_bytes_that_are_no_secret_have_no_value() -> None:
    """What a key opens and what is none of our contents gives no value, and no error of another kind."""
    secret = Secret(name="db", sealed="s", at=seconds(1))
    assert [value_in(secret, opened) for opened in (b"", b"\xff", b"[1]", b"{}")] == [None] * 4


def test_a_key_of_many_lines_is_a_value() -> None:
    """As long as its lines can be looked for in all that a run writes."""
    assert check_value("line\n" * 256) == "line\n" * 256


def test_places() -> None:
    """Of a command only secrets are looked for, and what a value holds is not looked into."""
    texts = ("{{ secret.A }}-{{secret.b.c-D}}", "{{ .Names }} {{secret}} {{ secrets.A }}")
    assert secrets_in(texts) == {"A", "b.c-D"}
    values = {"A": "{{ secret.b.c-D }}", "b.c-D": "2"}
    assert with_secrets(texts[0], values) == "{{ secret.b.c-D }}-2"
    assert with_secrets(texts[1], values) == texts[1]
    assert rendered("{{ secret.A }}{{payload}}", {"secret.A": "1", "payload": "{{ secret.A }}"}) == "1{{ secret.A }}"


@pytest.mark.parametrize(
    "target",
    [
        Command(argv=("p", "{{ secret.A }}")),
        Command(argv=("p",), env={"PW": "x{{secret.A}}"}),
        Command(argv=("p",), stdin="{{ secret.A }}"),
        Http(url="http://h/{{secret.A}}"),
        Http(url="http://h/", headers={"Authorization": "Bearer {{ secret.A }}"}),
        Http(url="http://h/", body='"{{ secret.A }}"'),
    ],
)
def test_where_a_secret_may_be_named(target: Target) -> None:
    """Arguments, env, stdin; path, headers and body."""
    target.check()
    assert secrets_in(target.texts()) == {"A"}


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        (Command, {"shell": "echo {{ secret.A }}"}, 'write "\\$NAME"'),
        (Command, {"argv": ("{{ secret.A }}",)}, "program"),
        (Command, {"argv": ("p",), "cwd": "/{{ secret.A }}"}, "cwd"),
        (Command, {"argv": ("p",), "user": "{{secret.A}}"}, "user"),
        (Command, {"argv": ("p", "{{ secret. }}")}, "not the name of a secret"),
        (Command, {"argv": ("p",), "env": {"A": "{{ secret.A B }}"}}, "not the name of a secret"),
        (Command, {"argv": ("p",), "stdin": "{{secret.é}}"}, "not the name of a secret"),
        (Http, {"url": "http://{{secret.A}}/"}, "host"),
        (Http, {"url": "http://h/", "body": "{{ secret. }}"}, "names no fact"),
    ],
)
def test_where_no_secret_may_be_named(kind: type[Any], fields: dict[str, Any], why: str) -> None:
    """In the text of a shell it would be code, and a misspelt one would be sent as it stands."""
    with pytest.raises(InvalidInput, match=why):
        kind(**fields).check()
