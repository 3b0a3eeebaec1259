"""A call that is tried again within one attempt."""

import pytest

from tokimori.apps.function import retry
from tokimori.errors import InvalidInput


def test_it_is_tried_so_often_and_no_more() -> None:
    """Two failures and a success; or as many failures as there are attempts, and the last error."""
    tried: list[int] = []

    @retry(attempts=3)
    def flaky(fails: int) -> str:
        tried.append(1)
        if len(tried) <= fails:
            raise ValueError(len(tried))
        return "done"

    assert flaky(2) == "done"
    tried.clear()
    with pytest.raises(ValueError, match="3"):
        flaky(3)
    assert len(tried) == 3


async def test_coroutines_are_tried_again_too() -> None:
    """The decorated function is a coroutine function as well."""
    tried: list[int] = []

    @retry(attempts=2)
    async def flaky() -> str:
        tried.append(1)
        if len(tried) < 2:
            raise ValueError
        return "done"

    assert await flaky() == "done"


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"delay": -1}, {"backoff": 0.5}])
def test_bad_numbers_are_named(wrong: dict[str, float]) -> None:
    """When the decorator is made, not when the call fails."""
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        retry(**wrong)  # type: ignore[arg-type]
