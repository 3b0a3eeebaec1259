"""Refusals of the stores: when there is one, and what it says."""

from collections.abc import Callable

import pytest

from tokimori.errors import Refused
from tokimori.stores.rules.errors import check_lowered, check_same_limit, check_weight


def test_what_can_never_fit_is_refused() -> None:
    """A weight above the limit, another limit than there is, and one below what is waited for."""
    checks: list[tuple[Callable[[str, int, int], None], int, int]] = [
        (check_weight, 4, 3),
        (check_same_limit, 4, 3),
        (check_lowered, 2, 3),
    ]
    check_same_limit("db", None, 3)
    for check, value, other in checks:
        check("db", other, other)
        with pytest.raises(Refused) as refused:
            check("db", value, other)
        assert (refused.value.value, bool(refused.value.allowed)) == (value, True)


def test_one_unit_is_no_range() -> None:
    """Of a mutex one unit is allowed, not one to one."""
    with pytest.raises(Refused) as refused:
        check_weight("db", 2, 1)
    assert refused.value.allowed == "1"
