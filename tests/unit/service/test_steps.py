"""Steps as programs say them."""

import pytest

from tokimori.errors import InvalidInput
from tokimori.service.steps import read_steps

ID = "01b8dac5-b400-7000-8000-0000000000ab"


@pytest.mark.parametrize("text", [ID.upper(), ID.replace("-", ""), f"{{{ID}}}"])
def test_a_step_has_its_id_as_it_is_looked_for(text: str) -> None:
    """By another spelling it would be kept, and never found."""
    assert read_steps([{"id": ID, "job": "a"}])[0].id == ID
    with pytest.raises(InvalidInput, match="then"):
        read_steps([{"id": text, "job": "a"}])
