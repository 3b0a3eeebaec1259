"""Words that the formats of function calls share: of APScheduler and Celery."""

from collections.abc import Mapping, Sequence

from tokimori.errors import InvalidInput
from tokimori.formats.format import Option

JUMPS = (
    "times that clocks skip run as much later, as there (gap = later: what is at 02:30 comes at 03:30 on that day); "
    "those that they show twice run twice (fold = both)"
)
PARAMETERS = Option(
    "parameters",
    "The names of a function's parameters, for jobs with args.",
    "FUNCTION=NAME,NAME",
    is_repeated=True,
)


def parameters_of(texts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Read `module:function=a,b` as the names of parameters by function. Raises `InvalidInput`."""
    found = {}
    for text in texts:
        function, equals, names = text.partition("=")
        parts = [name.strip() for name in names.split(",")]
        if not function or not equals or not all(name.isidentifier() for name in parts):
            message = f"parameters: {text!r} is not FUNCTION=NAME,NAME"
            allowed = "such as reports.tasks:send=to,day"
            raise InvalidInput(message, field="parameters", value=text, allowed=allowed)
        found[function] = parts
    return found
