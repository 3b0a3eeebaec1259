"""`tokimori context …`: nodes elsewhere, by name."""

from pathlib import Path

import click

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_json, print_lines
from tokimori.cli.table import print_table

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

    from tokimori.cli.remote import check_without_secret, contexts_file
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

    from tokimori.cli.remote import contexts_file
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
    from tokimori.cli.remote import contexts_file
    from tokimori.config.contexts import read_contexts

    known = read_contexts(contexts_file())
    if options().as_json:
        print_json(known)
        return
    rows = [
        ("*" if name == known.current else "", name, each.url, each.token_file)
        for name, each in sorted(known.contexts.items())
    ]
    print_table(("", "NAME", "URL", "TOKEN FILE"), rows)


def _say(name: str | None, line: str) -> None:
    if options().as_json:
        print_json({"name": name})
    else:
        print_lines(line)
