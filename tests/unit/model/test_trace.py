"""Where something stands in a trace."""

import pytest

from tokimori.errors import InvalidInput
from tokimori.model.cause import check_traceparent, traceparent_in

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (VALID, VALID),
        (f" {VALID}\t", VALID),
        (f"00-{TRACE}-{SPAN}-ff", f"00-{TRACE}-{SPAN}-ff"),
        (f"cc-{TRACE}-{SPAN}-09", VALID),
        (f"cc-{TRACE}-{SPAN}-08-what-comes-later", f"00-{TRACE}-{SPAN}-00"),
        (f"00-{TRACE}-{SPAN}-01-what-comes-later", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (VALID.upper(), None),
        (f"{VALID}\n", None),
        (f"cc-{TRACE}-{SPAN}-01-{'x' * 600}", None),
        (VALID.replace("-", "_"), None),
        ("", None),
        (None, None),
    ],
)
def test_a_traceparent_of_w3c_is_read(text: str | None, found: str | None) -> None:
    """As the form of version 00; of later versions what all have; what is none is ignored, as the standard says."""
    assert traceparent_in(text) == found
    assert traceparent_in(found) == found


@pytest.mark.parametrize("given", ["", "00", 3, VALID.upper()])
def test_who_names_one_on_purpose_is_told(given: object) -> None:
    """Which field it is, and what is allowed."""
    with pytest.raises(InvalidInput) as fault:
        check_traceparent(given)
    assert (fault.value.field, fault.value.value) == ("traceparent", given)
    assert VALID in str(fault.value.allowed)
    assert check_traceparent(None) is None
