"""The option `--parameters`: names for the arguments that other systems give by their place."""

from collections.abc import Callable, Mapping, Sequence

import click

from tokimori.errors import InvalidInput


def with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """The option."""
    return click.option(
        "--parameters",
        metavar="FUNCTION=NAME,NAME",
        multiple=True,
        help="The names of a function's parameters, for jobs with args.",
    )(command)


def parameters_of(texts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """`module:function=a,b` as the names of parameters by function. Raises `InvalidInput`."""
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
