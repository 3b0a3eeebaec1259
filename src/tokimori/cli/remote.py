"""Node for the command line, if it does not open the store itself; and `tokimori context …`: such nodes, by name."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_answer
from tokimori.cli.table import print_found
from tokimori.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from tokimori.config.contexts import Context


_STORE = "TOKIMORI_STORE"
_SERVER = "TOKIMORI_SERVER"
"""What a run finds whose job says `client`."""


def contexts_file() -> Path:
    """Return the file with the contexts of this user."""
    from tokimori.config.contexts import FILE
    from tokimori.config.value import this_machine

    return this_machine(os.environ).config_files[0].with_name(FILE)


def server() -> str | None:
    """Return the address of `_server`, with the certificates that --cacert names. Raises `InvalidInput`."""
    url = _server()
    return None if url is None else _trusting(url, options().cacert)


def _trusting(url: str, cacert: str | None) -> str:
    """Return the address with these certificates; those that are named last count."""
    from urllib.parse import quote

    if cacert is None:
        return url
    return f"{url}{'&' if '?' in url else '?'}cacert={quote(str(Path(cacert).absolute()), safe='')}"


def _server() -> str | None:
    """Return the address of the node, with its secret: by --server or --context, else of the context in use. None: the
    store.

    A store that the command line or the environment names goes before the context in use. Raises `InvalidInput`.
    """
    from tokimori.config.contexts import read_contexts

    given = options()
    given_names = {"--server": given.server, "--context": given.context, "--store": given.store}
    if len(named := [name for name, value in given_names.items() if value is not None]) > 1:
        message = f"{named[0]}: it and {named[1]} say where to ask"
        raise InvalidInput(message, field=named[0].removeprefix("--"), allowed="one of --server, --context, --store")
    if given.server is not None:
        return given.server
    if given.store is not None:
        return None
    if given.context is None and (of_the_run := os.environ.get(_SERVER)):
        return of_the_run
    if given.context is None and os.environ.get(_STORE):
        return None
    known = read_contexts(contexts_file())
    name = given.context or known.current
    return None if name is None else _address(known.named(name))


def check_local(what: str) -> None:
    """Refuse an operation that needs the store itself if the command asks a node. Raises `Refused`."""
    if server() is not None:
        raise Refused(
            f"{what}: a node does not offer this over HTTP; name the store itself, with --store or TOKIMORI_STORE",
            field="server",
            allowed="a store",
        )


def check_without_secret(url: str) -> None:
    """Refuse an address that carries the secret: the file of contexts is no place for it. Raises `InvalidInput`."""
    from tokimori.client.door import address_of, is_address

    if "?" in url or not is_address(url):
        message = "url: it is no address without a secret: keep the secret in a file, and name that with --token-file"
        raise InvalidInput(message, field="url", allowed="such as https://tokimori.example")
    address_of(f"{url}?secret=x", Path("/"))


def _address(context: "Context") -> str:
    from urllib.parse import quote

    if context.token_file is None:
        return _trusting(context.url, context.cacert)
    try:
        secret = Path(context.token_file).read_text().strip()
    except (OSError, UnicodeDecodeError) as fault:
        message = f"token_file: {context.token_file} can't be read: {fault}"
        raise InvalidInput(message, field="token_file", value=context.token_file, allowed="a text file") from None
    return _trusting(f"{context.url}?secret={quote(secret, safe='')}", context.cacert)


context = Group("context", help="Contexts: nodes elsewhere, to which this program sends what it is asked.")


@context.command()
@click.argument("name")
@click.argument("url")
@click.option(
    "--token-file", type=click.Path(path_type=Path), metavar="FILE", help="Holds the secret; else the state folder's."
)
def add(name: str, url: str, token_file: Path | None) -> None:
    """Name the node at an address such as https://tokimori.example. The secret stays in its file.

    With --cacert its certificate is trusted from now on.
    """
    from msgspec.structs import replace

    from tokimori.config.contexts import Context, read_contexts, write_contexts
    from tokimori.model.words import check_word

    check_word("name", name)
    check_without_secret(url)
    file = contexts_file()
    known = read_contexts(file)
    token, cacert = (None if each is None else str(Path.cwd() / each) for each in (token_file, options().cacert))
    added = Context(url=url, token_file=token, cacert=cacert)
    write_contexts(file, replace(known, contexts={**known.contexts, name: added}))
    _say(name, f"added {name}; `tokimori context use {name}` sends all to it, --context {name} one command")


@context.command()
@click.argument("name", required=False)
@click.option("--none", "leave", is_flag=True, help="None: what is asked goes to the store of the settings again.")
def use(name: str | None, leave: bool) -> None:
    """Use this context from now on, unless --store or TOKIMORI_STORE is given."""
    from msgspec.structs import replace

    from tokimori.config.contexts import read_contexts, write_contexts

    if (name is None) != leave:
        raise click.UsageError("Give the name of a context, or --none.")
    file = contexts_file()
    known = read_contexts(file)
    if name is not None:
        known.named(name)
    write_contexts(file, replace(known, current=name))
    _say(name, "using the store of the settings" if name is None else f"using {name}")


@context.command("list")
def list_contexts() -> None:
    """List contexts; the one in use has a star."""
    from tokimori.config.contexts import read_contexts

    known = read_contexts(contexts_file())
    rows = [
        ("*" if name == known.current else "", name, each.url, each.token_file)
        for name, each in sorted(known.contexts.items())
    ]
    print_found(known, ("", "NAME", "URL", "TOKEN FILE"), rows)


def _say(name: str | None, line: str) -> None:
    print_answer({"name": name}, line)
