"""Tokens as values."""

import os

import pytest

from tests.unit.examples import NEW_YEAR
from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.access_token import (
    EVERYTHING,
    AccessToken,
    Role,
    Scope,
    check_token_name,
    decode_token,
    digest_of,
    encode_token,
    is_text_of,
    name_in,
    new_text,
)


def token_of(text: str, expires: Moment | None = None) -> AccessToken:
    return AccessToken(name="ci", digest=digest_of(text), role=Role.READ, created=NEW_YEAR, expires=expires)


def test_a_text_says_its_name_and_no_other_text_is_of_its_token() -> None:
    """A name may hold what ends it; whatever is missing, longer or of another token is not its text."""
    text = new_text("a_b-_c".replace("_", "."), os.urandom)
    assert text.startswith("tkm_a.b-.c_") and name_in(text) == "a.b-.c"
    assert name_in(new_text("a_b", os.urandom)) == "a_b"
    token = token_of(text)
    assert is_text_of(token, text)
    assert not any(is_text_of(token, wrong) for wrong in (text[:-1], text + "0", new_text("ci", os.urandom), ""))
    assert [name_in(text) for text in ("", "tkm_", "tkm_a_", f"xkm_a_{'0' * 64}", f"tkm__{'0' * 64}")] == [None] * 5


def test_the_store_keeps_no_text_of_a_token() -> None:
    """What it keeps is read again as it was."""
    text = new_text("ci", os.urandom)
    token = token_of(text, NEW_YEAR)
    assert text.rpartition("_")[2] not in encode_token(token)
    assert decode_token(encode_token(token)) == token


def test_a_token_is_over_at_its_moment() -> None:
    """Not before, and never where none is said."""
    text = new_text("ci", os.urandom)
    assert [token_of(text, NEW_YEAR).is_over(Moment(NEW_YEAR + add)) for add in (-1, 0, 1)] == [False, True, True]
    assert not token_of(text).is_over(Moment(2**60))


def test_each_role_may_do_what_those_before_it_may() -> None:
    """And nothing of those behind it."""
    ladder = (Role.READ, Role.OPERATE, Role.ADMIN)
    table = [[role.includes(other) for other in ladder] for role in ladder]
    assert table == [[True, False, False], [True, True, False], [True, True, True]]


def test_who_reports_may_do_nothing_else_and_who_reads_reports_nothing() -> None:
    """Whoever operates may do both."""
    assert [role for role in Role if Role.PING.includes(role)] == [Role.PING]
    assert [role for role in Role if role.includes(Role.PING)] == [Role.PING, Role.OPERATE, Role.ADMIN]


def test_a_scope_has_jobs_by_prefix_and_queues_by_name() -> None:
    """A queue is its own only if no prefix leaves out jobs of it."""
    both = Scope(jobs=("mail-",), queues=("web",))
    assert [both.has_id(each) for each in ("mail-1", "mail-", "mai", "x-mail-")] == [True, True, False, False]
    assert [both.has_queue("web"), both.has_queue("mail"), both.owns_queue("web")] == [True, False, False]
    assert Scope(queues=("web",)).owns_queue("web") and EVERYTHING.owns_queue("web") and EVERYTHING.has_id("x")


@pytest.mark.parametrize(
    ("scope", "prefixes", "may"),
    [
        (EVERYTHING, ("pay-",), True),
        (Scope(queues=("qq",)), ("pay-",), False),
        (Scope(queues=("qq",)), (), True),
        (Scope(jobs=("pay-",)), ("pay-",), True),
        (Scope(jobs=("pay-eu-",), queues=("qq",)), ("pay-",), True),
        (Scope(jobs=("p",)), ("pay-",), True),
        (Scope(jobs=("p",), queues=("qq",)), ("pay-",), False),
        (Scope(jobs=("ci-",)), ("pay-",), False),
        (Scope(jobs=("mail-",)), ("mail-in", "web-"), True),
    ],
)
def test_a_right_to_a_secret_is_one_of_the_token(scope: Scope, prefixes: tuple[str, ...], may: bool) -> None:
    """A queue gives none, as any id may be made in it."""
    assert scope.may_name(prefixes) is may


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "a" * 65, "é", None, 3])
def test_what_can_not_be_in_a_header_is_no_name(name: object) -> None:
    """It is named in the error."""
    with pytest.raises(InvalidInput, match="is not the name of a token"):
        check_token_name(name)


def test_a_scope_of_whole_ids_has_no_others() -> None:
    """The token of a run is for its job alone, not for jobs whose ids begin so."""
    scope = Scope(jobs=("pay",), queues=("q",), exact=True)
    assert [scope.has(job, "q") for job in ("pay", "payroll", "pa")] == [True, False, False]
    assert not scope.has("pay", "other")
