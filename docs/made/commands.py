"""The commands, from click."""

from collections.abc import Iterator

import click

from docs.made.markdown import REFERENCE, code, table, text
from tokimori.cli.global_options import PROGRAM, global_options
from tokimori.cli.main import program

PAGE = REFERENCE / "commands.md"
EXIT_CODES = {
    "0": "Done.",
    "1": "It was done, and the answer is no: a run failed (`--wait`), `doctor` or `verify` found something.",
    "2": "The command line, a value or the store is at fault, or it was refused. Nothing was changed.",
    "3": "There is no such job, run or other thing.",
    "4": "Somebody else was faster, or has what is wanted.",
    "70": "A bug of Tokimori. Run the command again with `--debug`.",
    "130": "Ctrl-C.",
}


def page() -> str:
    """Return the page, with a section for each command."""
    return text(_lines())


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield each command that is no group, with the words that call it."""
    yield from _below(program, click.Context(program, info_name=PROGRAM), PROGRAM)


def _below(
    command: click.Command, context: click.Context, words: str
) -> Iterator[tuple[str, click.Command, click.Context]]:
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield words, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None and not below.hidden:
                inner = click.Context(below, info_name=name, parent=context)
                yield from _below(below, inner, f"{words} {name}")


def _lines() -> Iterator[str]:
    everywhere = {each.name for each in global_options()} | {"help", "version"}
    yield from (
        "# Commands",
        "",
        "Written by `make docs` from the commands: `tokimori COMMAND --help` says the same, and `tokimori man`",
        "prints manual pages.",
        "",
        "## Options everywhere",
        "",
    )
    yield from _options([each for each in global_options() if isinstance(each, click.Option)], click.Context(program))
    yield from ("", "## Exit codes", "")
    yield from table(("code", "meaning"), EXIT_CODES.items())
    noun = ""
    for words, command, context in commands():
        if words.split()[1] != noun:
            noun = words.split()[1]
            yield from ("", f"## {noun}")
        yield from ("", f"### {words}", "")
        yield f"```text\n{words} {' '.join(command.collect_usage_pieces(context))}\n```"
        yield from ("", *_help(command))
        options = [
            each
            for each in command.params
            if isinstance(each, click.Option) and each.name not in everywhere and not each.hidden
        ]
        if options:
            yield ""
            yield from _options(options, context)
        for line, meaning in getattr(command, "_examples", ()):
            yield from ("", f"{meaning or 'Example'}:", "", "```sh", f"{PROGRAM} {line}", "```")


def _help(command: click.Command) -> Iterator[str]:
    for paragraph in (command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("```text", paragraph.strip("\b\n"), "```", "")
        elif paragraph.strip():
            yield from (" ".join(paragraph.split()), "")


def _options(options: list[click.Option], context: click.Context) -> Iterator[str]:
    rows = [(code(record[0]), record[1]) for each in options if (record := each.get_help_record(context))]
    yield from table(("option", "meaning"), rows)
